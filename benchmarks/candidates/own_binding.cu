// call: [m.leaky(torch.linspace(-1, 1, 99)), m.leaky(torch.linspace(-1, 1, 99), slope=0.5), m.leaky_(torch.arange(-4.0, 4))]
#include <torch/extension.h>
namespace py = pybind11;

__global__ void leaky_kernel(const float* x, float* y, float slope, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] > 0 ? x[i] : slope * x[i];
}
static void launch(const torch::Tensor& x, torch::Tensor& y, double slope) {
  leaky_kernel<<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), slope, x.numel());
}
torch::Tensor leaky(const torch::Tensor& x, double slope) {
  auto y = torch::empty_like(x);
  launch(x, y, slope);
  return y;
}
torch::Tensor leaky_in_place(torch::Tensor x, double slope) {
  launch(x, x, slope);
  return x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "leaky ReLU";
  m.def("leaky", &leaky, "a new tensor", py::arg("x"), py::arg("slope") = 0.01);
  m.def("leaky_", &leaky_in_place, "in place", py::arg("x"), py::arg("slope") = 0.01);
}
