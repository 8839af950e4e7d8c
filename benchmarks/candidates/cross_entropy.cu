// functions: cross_entropy
// declare: torch::Tensor cross_entropy(torch::Tensor logits, torch::Tensor labels);
// call: m.cross_entropy(torch.linspace(-2, 2, 70).reshape(7, 10), torch.arange(7))
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void loss_kernel(const float* logits, const int64_t* labels, float* losses, int classes) {
  const float* row = logits + threadIdx.x * classes;
  float largest = row[0], total = 0;
  for (int c = 1; c < classes; ++c) largest = max(largest, row[c]);
  for (int c = 0; c < classes; ++c) total += expf(row[c] - largest);
  losses[threadIdx.x] = logf(total) + largest - row[labels[threadIdx.x]];
}

torch::Tensor cross_entropy(torch::Tensor logits, torch::Tensor labels) {
  auto losses = torch::empty({logits.size(0)}, logits.options());
  cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  loss_kernel<<<1, logits.size(0), 0, stream>>>(logits.data_ptr<float>(), labels.data_ptr<int64_t>(),
                                                losses.data_ptr<float>(), logits.size(1));
  return losses.mean();
}
