"""On a real GPU: the fast path, the fall-back and plain ``load_inline`` give the same results."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from stitchcuda.tools.build import Builder, ExtensionSpec
from stitchcuda.tools.build.loader import load_extension

pytestmark = pytest.mark.gpu

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
template <typename scalar_t>
__global__ void mix(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * scalar_t(3) + x[0];
}
torch::Tensor run(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  auto y = torch::empty_like(x);
  const int n = x.numel();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "run", [&] {
    mix<scalar_t><<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
"""
CPP = "torch::Tensor run(torch::Tensor x);"
FULL = CUDA.replace("return y;", "return torch::softmax(y, 0);")


def target() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_fast_path_runs_on_the_current_stream(builder: Builder, dtype: torch.dtype) -> None:
    spec = ExtensionSpec(name="gpu_fast", cpp_sources=(CPP,), cuda_sources=(CUDA,), functions=("run",))
    build = builder.build(spec, target())
    assert build.ok, build.diagnostics
    assert build.headers == "facade"
    module = load_extension(build.model_dump(), spec)
    x = torch.randn(100_000, device="cuda").to(dtype)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = module.run(x)
    stream.synchronize()
    assert torch.equal(y, x * 3 + x[0])
    with pytest.raises(RuntimeError, match="must be a CUDA tensor"):
        module.run(x.cpu())


@pytest.mark.slow
def test_fall_back_and_plain_load_inline_agree_with_the_fast_path(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils.cpp_extension import load_inline

    x = torch.randn(10_000, device="cuda")
    full = ExtensionSpec(name="gpu_full", cpp_sources=(CPP,), cuda_sources=(FULL,), functions=("run",))
    build = builder.build(full, target())
    assert build.ok, build.diagnostics
    assert build.headers == "torch"
    got = load_extension(build.model_dump(), full).run(x)
    if shutil.which("ninja") is None:
        pytest.skip("plain load_inline needs ninja")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    plain = load_inline(name="gpu_plain", cpp_sources=CPP, cuda_sources=CUDA, functions=["run"])
    fast = ExtensionSpec(name="gpu_fast", cpp_sources=(CPP,), cuda_sources=(CUDA,), functions=("run",))
    module = load_extension(builder.build(fast, target()).model_dump(), fast)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        assert torch.equal(module.run(x.to(dtype)), plain.run(x.to(dtype)))
    assert torch.equal(got, torch.softmax(plain.run(x), 0))
