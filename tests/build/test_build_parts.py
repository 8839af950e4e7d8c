"""A file gets the parts of the facade that its words name: never too few, few for a plain kernel."""

from __future__ import annotations

import pytest

from stitchcuda.tools.build.parts import needed_parts

PLAIN = """#include <torch/extension.h>
#include <vector>
__global__ void f(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = fmaxf(x[threadIdx.x], 0.f); }
std::vector<torch::Tensor> run(torch::Tensor x, c10::optional<torch::Tensor> y) {
  TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor, rank ", x.dim());
  const int64_t n = std::max<int64_t>(x.numel(), std::min(1L, 2L));
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  f<<<1, 32, 0, stream>>>(x.data_ptr<float>(), n);
  return {x};
}
"""


def test_a_plain_kernel_needs_nothing_more() -> None:
    assert needed_parts([PLAIN]) == ()


@pytest.mark.parametrize(
    ("added", "part"),
    [
        ("static std::unordered_map<int, int> seen;", "STD"),
        ("using namespace std;", "STD"),
        ("int m() { return std :: max({1, 2, 3}); }", "STD"),
        ("std::function<void()> later;", "STD"),
        ("auto pair = std::make_tuple(1, 2);", "STD"),
        ("std::string mode;", "STRING"),
        ("void f(at::Half* x);", "HALF"),
        ("AT_DISPATCH_REDUCED_FLOATING_TYPES(t, n, f)", "HALF"),
        ("#include <cuda_bf16.h>", "HALF"),
        ("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}", "BINDING"),
    ],
)
def test_words_bring_their_part(added: str, part: str) -> None:
    assert part in needed_parts([PLAIN, added])
