"""Bad candidates are data: their own line, once, quickly; and what the build of a good one reports."""

from __future__ import annotations

import os
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


def compilers_of(folder: Path) -> list[str]:
    """Command lines of running processes that work on files under ``folder``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if any(str(folder) in word for word in words):
                found.append(words[0])
    return found


@pytest.mark.parametrize("target", ["cpu", pytest.param("sm_90", marks=pytest.mark.nvcc)])
def test_cancel_kills_the_whole_compiler_tree(tmp_path: Path, target: str) -> None:
    cancel = threading.Event()
    builds: list[Any] = []
    spec = ExtensionSpec(name="stopped", cuda_sources=(SMALL,), cpp_sources=("int f();",), functions=("f",))
    builder = Builder(tmp_path, timeout_s=100, cancel=cancel)
    worker = threading.Thread(target=lambda: builds.append(builder.build(spec, target)))
    worker.start()
    ends = time.monotonic() + 60
    # g++ and nvcc are drivers: the compilers proper are their children.
    while not any(name.endswith(("cc1plus", "cudafe++", "cicc")) for name in compilers_of(tmp_path)):
        assert time.monotonic() < ends, "no compiler was seen"
        time.sleep(0.01)
    cancel.set()
    worker.join(timeout=10)
    assert not worker.is_alive()
    assert [item.message for item in builds[0].diagnostics] == ["the build was cancelled"]
    assert compilers_of(tmp_path) == []


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


@pytest.mark.nvcc
def test_a_file_gets_the_parts_of_the_library_that_it_names(builder: Builder) -> None:
    """Against torch's headers all of these names are there without an include; so they are in a lean build."""
    source = SMALL.replace(
        "torch::Tensor run",
        """static std::map<int, std::string> names;
static std::once_flag once;
__global__ void halves(at::Half* x, at::BFloat16* y) { x[0] = x[0] + x[1]; y[0] = float(y[0]) * 2.0f; }
torch::Tensor run""",
    ).replace("auto y", 'TORCH_CHECK(x.dim() > 0, "rank ", x.dim(), std::vector<int>{1}.size(), names[1]);\n  auto y')
    build = builder.compile_only(ExtensionSpec(name="parts", cuda_sources=(source,)), "sm_90")
    assert build.ok, build.diagnostics
    assert build.headers == "facade"


@pytest.mark.nvcc
@pytest.mark.slow
def test_libraries_of_the_toolkit_in_several_files(builder: Builder) -> None:
    """Three device files with a host one; cub alone costs ten seconds."""
    cub = """#include <torch/types.h>
#include <cub/block/block_reduce.cuh>
__global__ void total(const float* x, float* y) {
  using Reduce = cub::BlockReduce<float, 128>;
  __shared__ typename Reduce::TempStorage storage;
  const float sum = Reduce(storage).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) y[0] = sum;
}
void run_total(at::Tensor x, at::Tensor y) { total<<<1, 128>>>(x.data_ptr<float>(), y.data_ptr<float>()); }
"""
    groups = """#include <torch/types.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
namespace cg = cooperative_groups;
__global__ void warps(__nv_bfloat162* x) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const float sum = cg::reduce(warp, __low2float(x[threadIdx.x]), cg::plus<float>());
  if (warp.thread_rank() == 0) x[threadIdx.x] = __float2bfloat162_rn(sum);
}
"""
    mma = """#include <torch/types.h>
#include <mma.h>
#include <cuda_pipeline.h>
__global__ void product(const half* a, const half* b, float* c) {
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> fa;
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::col_major> fb;
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc;
  nvcuda::wmma::fill_fragment(acc, 0.0f);
  nvcuda::wmma::load_matrix_sync(fa, a, 16);
  nvcuda::wmma::load_matrix_sync(fb, b, 16);
  nvcuda::wmma::mma_sync(acc, fa, fb, acc);
  nvcuda::wmma::store_matrix_sync(c, acc, 16, nvcuda::wmma::mem_row_major);
}
"""
    host = """#include <torch/extension.h>
#include <pybind11/pybind11.h>
void run_total(at::Tensor x, at::Tensor y);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run_total", &run_total); }
"""
    spec = ExtensionSpec(
        name="several",
        cuda_sources=(cub, groups, mma),
        cpp_sources=(host,),
        inline=False,
        cuda_names=("cub.cu", "groups.cu", "mma.cu"),
        cpp_names=("bind.cpp",),
    )
    build = builder.compile_only(spec, "sm_90")
    assert build.ok, build.diagnostics
    assert build.headers == "facade"
    assert len(build.registers) == 3


@pytest.mark.slow
def test_what_the_facade_lacks_is_built_against_torchs_headers(builder: Builder) -> None:
    """Costs the precompiled header once, about a minute of CPU time."""
    from stitchcuda.tools.build.loader import load_extension

    spec = ExtensionSpec(
        name="full",
        cpp_sources=("at::Tensor go(at::Tensor x) { return torch::softmax(x, 1).cumprod(1); }",),
        functions=("go",),
    )
    build = builder.build(spec, "cpu")
    assert build.ok, build.diagnostics
    assert build.headers == "torch"
    x = torch.randn(3, 4)
    assert torch.equal(load_extension(build.model_dump(), spec).go(x), torch.softmax(x, 1).cumprod(1))
