// functions: scale
// declare: torch::Tensor scale(torch::Tensor x, double factor);
// call: m.scale(torch.linspace(-8, 8, 512).half(), 0.75)
#include <torch/extension.h>
#include <cuda_fp16.h>

__global__ void scale_kernel(const __half2* x, __half2* y, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float2 v = __half22float2(x[i]);
  y[i] = __floats2half2_rn(v.x * factor, v.y * factor);
}

torch::Tensor scale(torch::Tensor x, double factor) {
  TORCH_CHECK(x.scalar_type() == torch::kHalf && x.numel() % 2 == 0, "pairs of halves are expected");
  auto y = torch::empty_like(x);
  scale_kernel<<<(x.numel() / 2 + 63) / 64, 64>>>(reinterpret_cast<const __half2*>(x.data_ptr<at::Half>()),
                                                  reinterpret_cast<__half2*>(y.data_ptr<at::Half>()),
                                                  static_cast<float>(factor), x.numel() / 2);
  return y;
}
