// functions: rms_norm
// declare: torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight);
// call: [m.rms_norm(torch.linspace(-2, 2, n * 3).reshape(3, n), torch.ones(n)) for n in (64, 96, 64)]
#include <torch/extension.h>
#include <map>

__global__ void rms_kernel(const float* x, const float* w, float* y, int n) {
  __shared__ float shared[32];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i] * x[blockIdx.x * n + i];
  shared[threadIdx.x] = sum;
  __syncthreads();
  float all = 0;
  for (int i = 0; i < 32; ++i) all += shared[i];
  for (int i = threadIdx.x; i < n; i += 32) y[blockIdx.x * n + i] = x[blockIdx.x * n + i] * rsqrtf(all / n + 1e-6f) * w[i];
}

torch::Tensor rms_norm(torch::Tensor x, torch::Tensor weight) {
  static std::map<int64_t, int> calls;
  calls[x.size(1)]++;
  auto y = torch::empty_like(x);
  rms_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
