// functions: linear_relu
// declare: torch::Tensor linear_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);
// call: m.linear_relu(torch.arange(32.0).reshape(4, 8) % 3 - 1, torch.arange(48.0).reshape(6, 8) % 5 - 2, torch.arange(6.0))
#include <torch/extension.h>

__global__ void epilogue_kernel(float* y, const float* bias, int n, int columns) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(y[i] + bias[i % columns], 0.0f);
}

torch::Tensor linear_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  auto y = torch::matmul(x, weight.t()).contiguous();
  epilogue_kernel<<<(y.numel() + 127) / 128, 128>>>(y.data_ptr<float>(), bias.data_ptr<float>(), y.numel(), y.size(1));
  return y;
}
