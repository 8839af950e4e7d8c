// functions: transpose
// declare: torch::Tensor transpose(torch::Tensor x);
// call: m.transpose(torch.arange(12 * 20.0).reshape(12, 20))
#include <torch/extension.h>

__global__ void transpose_kernel(torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> x,
                                 torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> y) {
  const int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < x.size(0) && c < x.size(1)) y[c][r] = x[r][c];
}

torch::Tensor transpose(torch::Tensor x) {
  auto y = torch::empty({x.size(1), x.size(0)}, torch::TensorOptions().dtype(torch::kFloat32).device(x.device()));
  const dim3 block(8, 8), grid((x.size(1) + 7) / 8, (x.size(0) + 7) / 8);
  transpose_kernel<<<grid, block>>>(x.packed_accessor32<float, 2, torch::RestrictPtrTraits>(),
                                    y.packed_accessor32<float, 2, torch::RestrictPtrTraits>());
  return y;
}
