// functions: concat
// declare: torch::Tensor concat(std::vector<torch::Tensor> xs);
// call: m.concat([torch.arange(5.0), torch.arange(3.0), torch.arange(0.0), torch.ones(7)])
#include <torch/extension.h>

__global__ void copy_kernel(const float* x, float* y, int64_t n) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = x[i];
}

torch::Tensor concat(std::vector<torch::Tensor> xs) {
  int64_t total = 0;
  for (const auto& x : xs) total += x.numel();
  auto y = torch::empty({total}, xs.at(0).options());
  int64_t at = 0;
  for (const auto& x : xs) {
    if (x.numel() > 0) copy_kernel<<<(x.numel() + 63) / 64, 64>>>(x.data_ptr<float>(), y.data_ptr<float>() + at, x.numel());
    at += x.numel();
  }
  return y;
}
