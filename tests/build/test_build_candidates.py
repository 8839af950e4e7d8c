"""Bad candidates are data: their own line, once, quickly; and what the build of a good one reports."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.cpp_extension

from stitchcuda.tools.build import Builder, ExtensionSpec
from stitchcuda.tools.build.capture import capture_load_inline

SMALL = """#include <torch/types.h>
__global__ void twice(float* x, int n) {
  int i = threadIdx.x;
  if (i < n) x[i] = x[i] * 2.0f;
}
torch::Tensor run(torch::Tensor x) {
  auto y = x.clone();
  twice<<<1, 64>>>(y.data_ptr<float>(), y.numel());
  return y;
}
"""


def test_a_compile_error_has_the_candidates_line_and_is_remembered(builder: Builder) -> None:
    spec = ExtensionSpec(name="bad", cuda_sources=("// first source", SMALL.replace("* 2.0f", "* missing")))
    build = builder.build(spec, "cpu")
    assert not build.ok
    assert build.headers == "facade"  # no second build for a plain mistake
    errors = [item for item in build.diagnostics if item.severity == "error"]
    assert [(item.file, item.line) for item in errors] == [("bad_1.cu", 4)]
    assert "missing" in errors[0].message
    again = builder.build(spec, "cpu")
    assert again.cached
    assert again.diagnostics == build.diagnostics


def test_a_refused_flag_costs_no_compiler(builder: Builder) -> None:
    spec = ExtensionSpec(name="flag", cuda_sources=(SMALL,), extra_cuda_cflags=("-O3", "-fplugin=x.so"))
    build = builder.build(spec, "cpu")
    assert not build.ok
    assert build.diagnostics[0].message == "flag '-fplugin=x.so' of extra_cuda_cflags is not allowed"
    assert build.seconds < 1


def test_running_out_of_time_is_not_remembered(build_cache: Path) -> None:
    spec = ExtensionSpec(name="slow", cpp_sources=("int slow() { return 1; }",), functions=("slow",))
    build = Builder(build_cache, timeout_s=0.05).build(spec, "cpu")
    assert not build.ok
    assert build.diagnostics[0].message == "the build ran out of time"
    assert not Builder(build_cache, timeout_s=0.05).build(spec, "cpu").cached


def test_cancel_stops_the_compiler(build_cache: Path) -> None:
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    spec = ExtensionSpec(name="stopped", cpp_sources=("int stopped() { return 1; }",), functions=("stopped",))
    started = time.monotonic()
    build = Builder(build_cache, timeout_s=100, cancel=cancel).build(spec, "cpu")
    assert not build.ok
    assert build.diagnostics[0].message == "the build was cancelled"
    assert time.monotonic() - started < 10


@pytest.fixture
def captured(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """``load_inline`` and ``load`` go to the builder during the test; the builds that were asked for."""
    import torch.utils.cpp_extension as cpp_extension

    monkeypatch.setattr(cpp_extension, "load_inline", cpp_extension.load_inline)
    monkeypatch.setattr(cpp_extension, "load", cpp_extension.load)
    builds: list[dict[str, Any]] = []

    def request(spec: ExtensionSpec) -> dict[str, Any]:
        build = builder.build(ExtensionSpec.from_json(spec.to_json()), "cpu").model_dump(mode="json")
        builds.append(build)
        return build

    capture_load_inline(request)
    return builds


def test_load_inline_as_candidates_write_it(captured: list[dict[str, Any]]) -> None:
    from torch.utils.cpp_extension import load_inline

    module = load_inline(
        name="inline_small",
        cpp_sources="torch::Tensor run(torch::Tensor x);",
        cuda_sources=[SMALL],
        functions={"run": "Doubles."},
        extra_cuda_cflags=["-O3", "-gencode=arch=compute_80,code=sm_80"],
        with_cuda=True,
        verbose=True,
        build_directory="/nowhere",
    )
    x = torch.randn(64)
    assert torch.equal(module.run(x), x * 2)
    assert "Doubles." in module.run.__doc__
    assert captured[0]["diagnostics"][0]["message"].endswith("is ignored")
    with pytest.raises(RuntimeError, match=r"Error building extension 'broken': broken\.cpp:2: .*nothing"):
        load_inline(name="broken", cpp_sources="\nint f() { return nothing; }", functions="f")
    with pytest.raises(TypeError, match="unexpected keyword"):
        load_inline(name="x", cpp_sources="", colour="red")


def test_load_of_files_with_their_own_binding(captured: list[dict[str, Any]], tmp_path: Path) -> None:
    from torch.utils.cpp_extension import load

    (tmp_path / "kernel.cu").write_text(SMALL)
    (tmp_path / "bind.cpp").write_text(
        "#include <torch/extension.h>\ntorch::Tensor run(torch::Tensor x);\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run, py::arg("x")); }\n'
    )
    module = load("from_files", [str(tmp_path / "kernel.cu"), tmp_path / "bind.cpp"])
    x = torch.randn(10)
    assert torch.equal(module.run(x=x), x * 2)
    assert captured[0]["headers"] == "facade"


@pytest.mark.nvcc
def test_compile_only_for_a_gpu_reports_registers(builder: Builder) -> None:
    spec = ExtensionSpec(
        name="gpu_small",
        cpp_sources=("torch::Tensor run(torch::Tensor x);",),
        cuda_sources=("#include <ATen/cuda/CUDAContext.h>\n" + SMALL,),
        functions=("run",),
        extra_cuda_cflags=("--use_fast_math",),
    )
    build = builder.compile_only(spec, "sm_90")
    assert build.ok, build.diagnostics
    assert build.headers == "facade"
    assert build.path == ""
    (registers,) = build.registers.values()
    assert 2 <= registers <= 64


@pytest.mark.nvcc
def test_a_gpu_compile_error_has_the_candidates_line(builder: Builder) -> None:
    spec = ExtensionSpec(name="gpu_bad", cuda_sources=(SMALL.replace("* 2.0f", "* missing"),))
    build = builder.compile_only(spec, "sm_90")
    assert [(item.file, item.line) for item in build.diagnostics] == [("gpu_bad.cu", 4)]


@pytest.mark.slow
def test_what_the_facade_lacks_is_built_against_torchs_headers(builder: Builder) -> None:
    """Costs the precompiled header once, about a minute of CPU time."""
    from stitchcuda.tools.build.loader import load_extension

    spec = ExtensionSpec(
        name="full",
        cpp_sources=("at::Tensor go(at::Tensor x) { return torch::softmax(x, 1).cumsum(1); }",),
        functions=("go",),
    )
    build = builder.build(spec, "cpu")
    assert build.ok, build.diagnostics
    assert build.headers == "torch"
    x = torch.randn(3, 4)
    assert torch.equal(load_extension(build.model_dump(), spec).go(x), torch.softmax(x, 1).cumsum(1))
