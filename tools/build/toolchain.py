"""The compilers, torch and headers that a build depends on: found and named without importing torch."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.core.errors import ToolchainError
from stitchcuda.core.process import run_command

__all__ = ["FACADE_CUDA_DIR", "FACADE_DIR", "Toolchain", "find_toolchain", "parse_nvcc_version", "torch_names"]

FACADE_DIR = Path(__file__).parent / "include"
FACADE_CUDA_DIR = Path(__file__).parent / "include_cuda"
STUB_DIR = Path(__file__).parent / "include_stubs"
# The oldest nvcc that knows an architecture (CUDA release notes).
_FIRST_NVCC = {70: 9.0, 75: 10.0, 80: 11.0, 86: 11.1, 89: 11.8, 90: 11.8, 100: 12.8, 103: 12.9, 110: 13.0, 120: 12.8}


@dataclass(frozen=True)
class Toolchain:
    """Paths and versions. ``nvcc`` is empty on the emulator."""

    cxx: str
    cxx_version: str
    torch_dir: Path
    torch_version: str
    standard: str
    """The language standard of this torch's own headers, for example ``c++20``; also the default for candidates."""
    nvcc: str = ""
    nvcc_version: str = ""
    cuda_home: Path | None = None
    headers: str = ""
    """Digest of the facade's and the emulator's headers."""

    @property
    def torch_includes(self) -> tuple[Path, ...]:
        include = self.torch_dir / "include"
        return (include, include / "torch" / "csrc" / "api" / "include", Path(sysconfig.get_path("include")))

    @property
    def torch_minor(self) -> int:
        """``13`` for torch 2.13; what decides which functions its C interface has."""
        major, minor = (int(part) for part in self.torch_version.split(".")[:2])
        return minor if major == 2 else minor + 1000 * (major - 2)

    @property
    def torch_lib(self) -> Path:
        return self.torch_dir / "lib"

    @property
    def torch_has_cuda(self) -> bool:
        return (self.torch_lib / "libtorch_cuda.so").exists()

    def identity(self) -> dict[str, str]:
        """What goes into a build's digest besides the spec."""
        return {
            "cxx": self.cxx_version,
            "nvcc": self.nvcc_version,
            "torch": self.torch_version,
            "python": sysconfig.get_config_var("SOABI") or "",
            "headers": self.headers,
        }


@functools.lru_cache(maxsize=4)
def torch_names(torch_dir: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Names of torch's functions, and words of its tensor class: what falling back to its headers can bring."""
    aten = torch_dir / "include" / "ATen"
    functions = frozenset(path.stem for path in (aten / "ops").glob("*.h"))
    members: set[str] = set()
    for header in (aten / "core" / "TensorBody.h", aten / "core" / "TensorBase.h"):
        members.update(re.findall(r"\w+", header.read_text(encoding="utf-8", errors="replace")))
    return functions, frozenset(members)


def parse_nvcc_version(text: str) -> str:
    """``13.0.88`` from the output of ``nvcc --version``; empty when it is not there."""
    match = re.search(r"release [\d.]+, V([\d.]+)", text)
    return match[1] if match else ""


def find_toolchain(target: str) -> Toolchain:
    """The toolchain for ``target`` (``cpu`` or ``sm_NN``).

    Raises:
        ToolchainError: a compiler or torch is missing, or nvcc is too old for the target.
    """
    return _find(target, os.environ.get("CUDA_HOME", ""), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _find(target: str, cuda_home: str, path: str) -> Toolchain:
    cxx = shutil.which("g++", path=path) or shutil.which("c++", path=path)
    if cxx is None:
        raise ToolchainError("g++ is not on the path: install a C++17 compiler (gcc 11 or newer) to build candidates")
    torch_dir, torch_version, standard = _torch()
    cxx_version = _first_line([cxx, "--version"])
    headers = [FACADE_DIR.parent]
    if target == "cpu":
        from stitchcuda.tools.emulator import include_dir

        emulator = include_dir()
        return Toolchain(
            cxx,
            cxx_version,
            torch_dir,
            torch_version,
            standard,
            headers=_tree_digest((*headers, emulator, emulator.parent)),
        )
    nvcc = _nvcc(cuda_home, path)
    text = run_command([nvcc, "--version"], timeout_s=30).output
    version = parse_nvcc_version(text)
    if not version:
        raise ToolchainError(f"{nvcc} --version gives no version: is the CUDA toolkit installed whole?")
    _check_age(target, version)
    return Toolchain(
        cxx,
        cxx_version,
        torch_dir,
        torch_version,
        standard,
        nvcc=nvcc,
        nvcc_version=version,
        cuda_home=_cuda_home(nvcc),
        headers=_tree_digest((*headers, FACADE_CUDA_DIR, STUB_DIR)),
    )


def _nvcc(cuda_home: str, path: str) -> str:
    if cuda_home and (nvcc := Path(cuda_home) / "bin" / "nvcc").exists():
        return str(nvcc)
    found = shutil.which("nvcc", path=path)
    if found is None and (usual := Path("/usr/local/cuda/bin/nvcc")).exists():
        found = str(usual)
    if found is None:
        raise ToolchainError("nvcc was not found: install the CUDA toolkit, or set CUDA_HOME to it, to build for a GPU")
    return found


def _cuda_home(nvcc: str) -> Path:
    """The toolkit's root as nvcc itself sees it: the file on the path may be a wrapper or a link."""
    dry = run_command([nvcc, "--dryrun", "-c", "nothing.cu"], timeout_s=30).output
    top = re.search(r"^#\$ TOP=(.+)$", dry, re.MULTILINE)
    return Path(top[1]).resolve() if top else Path(nvcc).resolve().parent.parent


def _check_age(target: str, version: str) -> None:
    number = re.fullmatch(r"sm_(\d+)[a-z]?", target)
    if number is None:
        raise ToolchainError(f"unknown build target {target!r}: expected 'cpu' or 'sm_NN'")
    needed = _FIRST_NVCC.get(int(number[1]))
    have = tuple(int(part) for part in version.split(".")[:2])
    if needed is not None and have < (int(needed), round(needed % 1 * 10)):
        raise ToolchainError(f"nvcc {version} is too old for {target}: CUDA {needed} or newer is needed")


def _torch() -> tuple[Path, str, str]:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ToolchainError("torch is not installed in this Python")
    folder = Path(spec.origin).parent
    text = (folder / "version.py").read_text(encoding="utf-8")
    match = re.search(r"__version__ = '([^']+)'", text)
    version = match[1] if match else importlib.metadata.version("torch")
    # torch names the standard of its headers in the flags that its own extension builder adds.
    found = re.findall(r"'-std=(c\+\+\d\d)'", (folder / "utils" / "cpp_extension.py").read_text(encoding="utf-8"))
    return folder, version, max(found, default="c++17")


def _first_line(command: list[str]) -> str:
    completed = run_command(command, timeout_s=30)
    return completed.output.splitlines()[0] if completed.ok and completed.output else ""


def _tree_digest(folders: tuple[Path, ...]) -> str:
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.suffix in (".h", ".hpp", ".cuh", ".py", ".cpp"):
                digest.update(str(file.relative_to(folder)).encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()
