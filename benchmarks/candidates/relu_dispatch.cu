// functions: relu
// declare: at::Tensor relu(at::Tensor x);
// call: [m.relu(torch.linspace(-2, 2, 300).to(t)) for t in (torch.float32, torch.float64, torch.float16, torch.bfloat16)]
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>

template <typename scalar_t>
__global__ void relu_kernel(const scalar_t* x, scalar_t* y, size_t n) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = x[i] > scalar_t(0) ? x[i] : scalar_t(0);
}

at::Tensor relu(at::Tensor x) {
  auto y = at::empty_like(x);
  const size_t n = x.numel();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "relu", ([&] {
    relu_kernel<scalar_t><<<(n + 255) / 256, 256>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n);
  }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
