// functions: mixed
// declare: torch::Tensor mixed(torch::Tensor x, torch::Tensor y);
// call: m.mixed(torch.linspace(0, 1, 64), torch.linspace(1, 2, 64))
#include <torch/extension.h>

__global__ void square_kernel(float* x, int n) {
  if (threadIdx.x < n) x[threadIdx.x] *= x[threadIdx.x];
}

torch::Tensor mixed(torch::Tensor x, torch::Tensor y) {
  auto sum = (x + y) * 0.5;
  square_kernel<<<1, 64>>>(sum.data_ptr<float>(), sum.numel());
  return torch::cat({sum - y, x / y, -x}, 0);
}
