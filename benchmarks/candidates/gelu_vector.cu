// functions: gelu
// declare: torch::Tensor gelu(const torch::Tensor& x);
// call: m.gelu(torch.linspace(-4, 4, 4096))
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__device__ __forceinline__ float gelu_of(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

__global__ void gelu_kernel(const float4* x, float4* y, int64_t n) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
    float4 v = x[i];
    v.x = gelu_of(v.x); v.y = gelu_of(v.y); v.z = gelu_of(v.z); v.w = gelu_of(v.w);
    y[i] = v;
  }
}

torch::Tensor gelu(const torch::Tensor& x) {
  TORCH_CHECK(x.is_cuda(), "x must be on the GPU");
  TORCH_CHECK(x.numel() % 4 == 0, "the number of elements must be a multiple of 4, not ", x.numel());
  auto in = x.contiguous();
  auto out = torch::empty_like(in);
  const int64_t quads = in.numel() / 4;
  const int blocks = std::min<int64_t>((quads + 127) / 128, 64);
  gelu_kernel<<<blocks, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const float4*>(in.data_ptr<float>()), reinterpret_cast<float4*>(out.data_ptr<float>()), quads);
  return out;
}
