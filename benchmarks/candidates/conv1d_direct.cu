// functions: conv1d
// declare: torch::Tensor conv1d(torch::Tensor x, torch::Tensor weight, c10::optional<torch::Tensor> bias, int64_t stride);
// call: [m.conv1d(torch.arange(60.0).reshape(2, 3, 10), torch.ones(4, 3, 3), b, 2) for b in (None, torch.arange(4.0))]
#include <torch/extension.h>

__global__ void conv1d_kernel(const float* x, const float* w, const float* bias, float* y, int channels, int length,
                              int filters, int width, int out_length, int stride) {
  const int f = blockIdx.y, b = blockIdx.z, o = blockIdx.x * blockDim.x + threadIdx.x;
  if (o >= out_length) return;
  float sum = bias != nullptr ? bias[f] : 0.0f;
  for (int c = 0; c < channels; ++c)
    for (int k = 0; k < width; ++k) sum += x[(b * channels + c) * length + o * stride + k] * w[(f * channels + c) * width + k];
  y[(b * filters + f) * out_length + o] = sum;
}

torch::Tensor conv1d(torch::Tensor x, torch::Tensor weight, c10::optional<torch::Tensor> bias, int64_t stride) {
  TORCH_CHECK(x.size(1) == weight.size(1), "channels differ: ", x.size(1), " and ", weight.size(1));
  const int out = (x.size(2) - weight.size(2)) / stride + 1;
  auto y = torch::empty({x.size(0), weight.size(0), out}, x.options());
  const float* bias_data = bias.has_value() ? bias->data_ptr<float>() : nullptr;
  conv1d_kernel<<<dim3((out + 31) / 32, weight.size(0), x.size(0)), 32>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), bias_data, y.data_ptr<float>(), x.size(1), x.size(2),
      weight.size(0), weight.size(2), out, stride);
  return y;
}
