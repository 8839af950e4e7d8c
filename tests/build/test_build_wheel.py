"""An installed copy holds every header, prompt and page that it needs, and builds from any folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
NOT_SHIPPED = {".pyc", ".so", ".o"}

USE = """
import sys
from pathlib import Path
import stitchcuda
assert Path(stitchcuda.__file__).is_relative_to(sys.argv[1]), stitchcuda.__file__
from stitchcuda.tools.build import Builder, ExtensionSpec
from stitchcuda.tools.build.loader import load_extension
import torch
source = '''
__global__ void twice(float* x) { x[threadIdx.x] *= 2.0f; }
torch::Tensor run(torch::Tensor x) { auto y = x.clone(); twice<<<1, 8>>>(y.data_ptr<float>()); return y; }
'''
spec = ExtensionSpec(name="far", cpp_sources=("torch::Tensor run(torch::Tensor x);",), cuda_sources=(source,),
                     functions=("run",))
build = Builder(Path("cache"), timeout_s=200).build(spec, "cpu")
assert build.ok and build.headers == "facade", build.diagnostics
print(load_extension(build.model_dump(), spec).run(torch.ones(8)).sum().item())
"""


@pytest.mark.slow
def test_the_wheel_is_whole_and_works_elsewhere(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    # A copy, so that no build folder is left beside the sources; links become folders.
    shutil.copytree(REPOSITORY / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, tree / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "..", "."]
    made = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    package = tree / "src" / "stitchcuda"
    wanted = {
        f"stitchcuda/{file.relative_to(package)}"
        for file in package.rglob("*")
        if file.is_file() and file.suffix not in NOT_SHIPPED
    }
    assert sorted(wanted - shipped) == []
    assert not [name for name in shipped if name.startswith(("tests/", "stitchcuda/tests"))]
    for name in ("tools/build/include/torch/extension.h", "tools/build/runtime/tensors.cpp", "tools/build/bridge.cpp"):
        assert f"stitchcuda/{name}" in shipped
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    used = subprocess.run(
        [sys.executable, "-c", USE, str(tmp_path / "site")],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert used.returncode == 0, used.stderr
    assert used.stdout.strip() == "16.0"
