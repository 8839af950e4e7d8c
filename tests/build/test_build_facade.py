"""What candidates write around kernels works against the light headers, with the results of torch itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from stitchcuda.tools.build import Builder, ExtensionSpec
from stitchcuda.tools.build.loader import load_extension

CUDA = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <vector>

template <typename scalar_t>
__global__ void scale_rows(const scalar_t* __restrict__ x,
                           torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> out) {
  out[blockIdx.x][threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x] * scalar_t(2);
}

__global__ void add_kernel(const float* a, const float* b, float* c, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

torch::Tensor add(torch::Tensor a, const at::Tensor& b) {
  TORCH_CHECK(a.is_cuda() && b.is_cuda(), "add: inputs must be on the GPU");
  TORCH_CHECK(a.sizes() == b.sizes(), "add: shapes differ: ", a.sizes(), " and ", b.sizes());
  const at::cuda::OptionalCUDAGuard guard(device_of(a));
  auto x = a.contiguous(), y = b.contiguous();
  auto out = torch::empty_like(x);
  const int64_t n = x.numel();
  add_kernel<<<(n + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.const_data_ptr<float>(), out.mutable_data_ptr<float>(), n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

torch::Tensor scaled(torch::Tensor x) {
  auto out = torch::empty({x.size(0), x.size(-1)}, x.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "scaled", ([&] {
    scale_rows<scalar_t><<<x.size(0), x.size(1)>>>(
        x.data_ptr<scalar_t>(), out.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>());
  }));
  return out;
}
"""
CPP = r"""
torch::Tensor add(torch::Tensor a, const at::Tensor& b);
torch::Tensor scaled(torch::Tensor x);
"""
CPP_MORE = r"""
std::tuple<at::Tensor, at::Tensor> two(torch::Tensor x, int64_t n, bool filled) {
  auto options = torch::TensorOptions().dtype(torch::kInt64).device(x.device());
  auto second = torch::zeros({n, 2}, options);
  if (filled) second.fill_(7);
  return std::make_tuple(x.view({-1}), second);
}
at::Tensor biased(at::Tensor x, c10::optional<at::Tensor> bias) {
  auto out = x.clone();
  if (bias.has_value() && bias->defined()) out.copy_(*bias);
  return out;
}
std::vector<at::Tensor> listed(std::vector<at::Tensor> xs, double factor, std::string mode,
                               std::vector<int64_t> shape) {
  std::vector<at::Tensor> out;
  for (auto& x : xs) out.push_back(torch::full_like(x, factor));
  TORCH_CHECK_VALUE(mode == "full", "unknown mode ", mode);
  out.push_back(torch::ones(shape, torch::dtype(torch::kHalf)));
  return out;
}
std::vector<at::Tensor> shapes(at::Tensor x) {
  return {x.transpose(0, 1), x.permute({2, 0, 1}), x.reshape({-1, x.size(2)}), x.unsqueeze(1), x.select(1, -1),
          x.narrow(2, 1, 2), x.flatten(1), x.transpose(0, 2).contiguous(), x.transpose(0, 2).reshape({-1}),
          x.to(torch::kFloat64), x.slice(0, 0, 2), x[0], x.expand({2, x.size(0), x.size(1), x.size(2)}),
          torch::empty_like(x.transpose(0, 2)).zero_(), x.matmul(x.transpose(1, 2)), x.sum()};
}
std::vector<at::Tensor> sums(at::Tensor x, at::Tensor y, at::Scalar s) {
  std::vector<at::Tensor> out = {x + y, x - y, x * y, x / y, x + s, 2 * x, x - 1, x / 3.0, -x, torch::cat({x, y}, 1),
          torch::softmax(x.to(torch::kFloat), 1), x.to(torch::kFloat).mean(), at::stack({x, y}), x.max(),
          torch::linear(x.to(torch::kFloat), y.to(torch::kFloat), at::Tensor()), torch::full({2}, 3),
          at::maximum(x, y)};
  return out;
}
at::Tensor huge(int64_t n) { return torch::empty({n, n}); }
std::string printed(at::Tensor x) {
  return c10::str("x of ", x.sizes(), ' ', x.scalar_type(), " on ", x.device(), 1.5f, true, size_t{7},
                  x.strides().vec()[0], std::string("!"));
}
double first(const at::Tensor& x) { return x.flatten()[0].item<double>(); }
int64_t rank(const at::Tensor& x) { TORCH_CHECK(x.dim() > 0); return x.dim(); }
void nothing(at::Tensor) {}
at::Tensor undefined() { return at::Tensor(); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "host functions";
  m.def("two", &two, "Two results.", py::arg("x"), py::arg("n") = 3, py::arg("filled") = false);
  m.def("biased", &biased, py::arg("x"), py::arg("bias") = py::none());
  m.def("listed", &listed);
  m.def("shapes", &shapes);
  m.def("sums", &sums);
  m.def("huge", &huge);
  m.def("printed", &printed);
  m.def("first", &first);
  m.def("rank", &rank);
  m.def("nothing", &nothing);
  m.def("undefined", &undefined);
  m.def("twice", [](int x) { return 2 * x; });
  m.def("twice", [](double x) { return 2 * x; });
}
"""


def built(builder: Builder, spec: ExtensionSpec) -> Any:
    build = builder.build(spec, "cpu")
    assert build.ok, build.diagnostics
    assert build.headers == "facade"
    return load_extension(build.model_dump(mode="json"), spec)


@pytest.fixture(scope="module")
def kernels(builder: Builder) -> Any:
    spec = ExtensionSpec(
        name="kernels",
        cpp_sources=(CPP,),
        cuda_sources=(CUDA,),
        functions=("add", "scaled"),
        extra_cuda_cflags=("-O3", "--use_fast_math"),
    )
    return built(builder, spec)


@pytest.fixture(scope="module")
def host(builder: Builder) -> Any:
    return built(builder, ExtensionSpec(name="host", cpp_sources=(CPP_MORE,)))


def test_elementwise_add_runs_and_keeps_the_callers_tensors(kernels: Any) -> None:
    a, b = torch.randn(7, 33), torch.randn(33, 7).t()
    before = a.clone()
    assert torch.equal(kernels.add(a, b), a + b)
    assert torch.equal(a, before)
    weight = torch.nn.Parameter(a)
    assert torch.equal(kernels.add(weight, b), a + b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_dispatch_and_packed_accessor(kernels: Any, dtype: torch.dtype) -> None:
    x = torch.randn(5, 32).to(dtype)
    result = kernels.scaled(x)
    assert result.dtype == dtype
    assert torch.equal(result, x * 2)


def test_a_check_fails_with_the_candidates_own_text(kernels: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^add: shapes differ: \[2, 3\] and \[3, 2\]$"):
        kernels.add(torch.zeros(2, 3), torch.zeros(3, 2))
    with pytest.raises(NotImplementedError, match="\"scaled\" not implemented for 'Int'"):
        kernels.scaled(torch.zeros(2, 2, dtype=torch.int32))
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        kernels.add(torch.zeros(2).double(), torch.zeros(2).double())


@pytest.mark.parametrize("arguments", [(1, 2), (torch.zeros(1),), (torch.zeros(1), None), (torch.zeros(1), [1.0])])
def test_wrong_arguments_are_a_type_error(kernels: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        kernels.add(*arguments)


def test_two_outputs_defaults_and_keywords(host: Any) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    flat, zeros = host.two(x)
    assert torch.equal(flat, x.reshape(-1))
    assert flat.data_ptr() == x.data_ptr()
    assert torch.equal(zeros, torch.zeros(3, 2, dtype=torch.int64))
    assert torch.equal(host.two(x, filled=True, n=1)[1], torch.full((1, 2), 7))
    with pytest.raises(TypeError, match="'m' is unknown"):
        host.two(x, m=1)
    assert "Two results." in host.two.__doc__


def test_optional_tensor(host: Any) -> None:
    x = torch.randn(4)
    assert torch.equal(host.biased(x), x)
    assert torch.equal(host.biased(x, None), x)
    assert torch.equal(host.biased(x, bias=torch.ones(4)), torch.ones(4))


def test_lists_strings_and_error_kinds(host: Any) -> None:
    result = host.listed([torch.zeros(2), torch.zeros(3)], 2, "full", (2, 2))
    assert [item.tolist() for item in result] == [[2, 2], [2, 2, 2], [[1, 1], [1, 1]]]
    assert result[2].dtype == torch.float16
    with pytest.raises(ValueError, match="unknown mode half"):
        host.listed([], 1.5, "half", [1])
    with pytest.raises(TypeError):
        host.listed(torch.zeros(2), 1.0, "full", [1])
    with pytest.raises(TypeError):
        host.listed([], 1.0, "full", [1.5])


def test_views_and_conversions_equal_torchs(host: Any) -> None:
    x = torch.randn(3, 4, 5)
    expected = [
        x.transpose(0, 1), x.permute(2, 0, 1), x.reshape(-1, 5), x.unsqueeze(1), x.select(1, -1), x.narrow(2, 1, 2),
        x.flatten(1), x.transpose(0, 2).contiguous(), x.transpose(0, 2).reshape(-1), x.double(), x[0:2], x[0],
        x.expand(2, 3, 4, 5), torch.zeros_like(x.transpose(0, 2)), x @ x.transpose(1, 2), x.sum(),
    ]  # fmt: skip
    for number, (got, wanted) in enumerate(zip(host.shapes(x), expected, strict=True)):
        assert torch.equal(got, wanted), number
        assert got.stride() == wanted.stride(), number


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.int32, torch.int64])
@pytest.mark.parametrize("number", [2, 0.3, True])
def test_arithmetic_equals_torchs(host: Any, dtype: torch.dtype, number: float) -> None:
    x = (torch.randn(4, 4) * 50).to(dtype)
    y = (torch.rand(4, 4) * 20 + 1).to(dtype)
    if dtype == torch.int64:
        x[0], y[0] = 2**62 - 1, -(2**62) + 12345678901
    expected = [
        x + y, x - y, x * y, x / y, x + number, 2 * x, x - 1, x / 3.0, -x, torch.cat([x, y], 1),
        torch.softmax(x.float(), 1), x.float().mean(), torch.stack([x, y]), x.max(),
        torch.nn.functional.linear(x.float(), y.float()), torch.full((2,), 3), torch.maximum(x, y),
    ]  # fmt: skip
    for index, (got, wanted) in enumerate(zip(host.sums(x, y, number), expected, strict=True)):
        assert got.dtype == wanted.dtype, index
        assert torch.equal(got, wanted), index


def test_running_out_of_memory_is_told_as_such(host: Any) -> None:
    with pytest.raises(RuntimeError, match=r"can't allocate memory: you tried to allocate 70368744177664 bytes"):
        host.huge(2**22)


def test_text_is_written_as_torch_writes_it(host: Any) -> None:
    assert host.printed(torch.zeros(2, 3)).replace("cuda", "cpu") == "x of [2, 3] Float on cpu1.5173!"


def test_scalars_overloads_and_nothing(host: Any) -> None:
    assert host.first(torch.tensor([[3, 4]])) == 3.0
    assert host.rank(torch.zeros(2, 2)) == 2
    assert host.nothing(torch.zeros(1)) is None
    assert host.undefined() is None
    assert host.twice(3) == 6
    assert host.twice(1.5) == 3.0
    with pytest.raises(RuntimeError, match=r"Expected x\.dim\(\) > 0 to be true"):
        host.rank(torch.tensor(1.0))


def test_tensors_are_released(host: Any) -> None:
    """Neither a call nor a failed one keeps a reference to a tensor."""
    import gc
    import weakref

    x = torch.zeros(8)
    alive = weakref.ref(x.untyped_storage())
    host.biased(x, x)
    for bad in ((x, 1), ([x], 1.0, "half", [1])):
        with pytest.raises((TypeError, ValueError)):
            (host.biased if len(bad) == 2 else host.listed)(*bad)
    del x, bad
    gc.collect()
    assert alive() is None


def test_equal_names_in_different_candidates_never_meet(builder: Builder) -> None:
    results = []
    for value in (1, 2):
        source = f"int64_t value() {{ return {value}; }}"
        results.append(built(builder, ExtensionSpec(name="same", cpp_sources=(source,), functions=("value",))))
    assert [module.value() for module in results] == [1, 2]
