// functions: histogram
// declare: torch::Tensor histogram(torch::Tensor x, int64_t bins);
// call: m.histogram(torch.arange(1000, dtype=torch.int32) * 7 % 31, 31)
#include <torch/extension.h>

__global__ void histogram_kernel(const int* x, int* counts, int n, int bins) {
  extern __shared__ int local[];
  for (int b = threadIdx.x; b < bins; b += blockDim.x) local[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1);
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x) atomicAdd(&counts[b], local[b]);
}

torch::Tensor histogram(torch::Tensor x, int64_t bins) {
  auto counts = torch::zeros({bins}, torch::dtype(torch::kInt32).device(x.device()));
  histogram_kernel<<<4, 64, bins * sizeof(int)>>>(x.data_ptr<int>(), counts.data_ptr<int>(), x.numel(), bins);
  return counts;
}
