// functions: masked
// declare: torch::Tensor masked(torch::Tensor x, torch::Tensor mask, double value);
// call: m.masked(torch.arange(24.0).reshape(4, 6).t(), torch.arange(24).reshape(6, 4) % 2 == 0, -1.5)
#include <torch/extension.h>

__global__ void masked_kernel(const float* x, const bool* mask, float* y, float value, int rows, int columns, int step_r, int step_c) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * columns) return;
  const int r = i / columns, c = i % columns;
  y[i] = mask[i] ? value : x[r * step_r + c * step_c];
}

torch::Tensor masked(torch::Tensor x, torch::Tensor mask, double value) {
  TORCH_CHECK(mask.scalar_type() == at::kBool && mask.is_contiguous(), "a contiguous boolean mask is expected");
  auto y = at::empty(x.sizes(), x.options());
  masked_kernel<<<(x.numel() + 31) / 32, 32>>>(x.data_ptr<float>(), mask.data_ptr<bool>(), y.data_ptr<float>(), value,
                                               x.size(0), x.size(1), x.stride(0), x.stride(1));
  return y;
}
