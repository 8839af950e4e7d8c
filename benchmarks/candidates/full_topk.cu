// functions: best
// declare: torch::Tensor best(torch::Tensor x);
// call: m.best(torch.arange(100.0) * 37 % 101)
#include <torch/extension.h>

__global__ void add_one(float* x, int n) {
  if (threadIdx.x < n) x[threadIdx.x] += 1.0f;
}

torch::Tensor best(torch::Tensor x) {
  auto values = std::get<0>(torch::topk(x, 8));
  add_one<<<1, 32>>>(values.data_ptr<float>(), values.numel());
  return values;
}
