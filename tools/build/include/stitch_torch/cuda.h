// Streams, guards and checks of at::cuda and c10::cuda for a real GPU; the emulator brings its own.
#pragma once

#include <cuda_runtime_api.h>

#include "scalar_type.h"
#include "tensor.h"

namespace c10::cuda {

class CUDAStream {
 public:
  explicit CUDAStream(cudaStream_t stream, DeviceIndex device) : stream_(stream), device_(device) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return device_; }
  Device device() const { return Device(DeviceType::CUDA, device_); }
  void synchronize() const;

 private:
  cudaStream_t stream_;
  DeviceIndex device_;
};

inline void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  using stitch_detail::Raised;
  stitch_detail::fail(status == cudaErrorMemoryAllocation ? Raised::OutOfMemoryError : Raised::Error, "", "CUDA error: ",
                      cudaGetErrorString(status));
}
inline void CUDAStream::synchronize() const { check(cudaStreamSynchronize(stream_)); }
inline DeviceIndex current_device() {
  int index = 0;
  check(cudaGetDevice(&index));
  return static_cast<DeviceIndex>(index);
}
inline DeviceIndex device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? static_cast<DeviceIndex>(count) : DeviceIndex{0};
}
inline CUDAStream getCurrentCUDAStream(DeviceIndex device = -1) {
  if (device < 0) device = current_device();
  void* stream = nullptr;
  if (aoti_torch_get_current_cuda_stream != nullptr)
    TORCH_CHECK(aoti_torch_get_current_cuda_stream(device, &stream) == 0, "torch has no current CUDA stream");
  return CUDAStream(static_cast<cudaStream_t>(stream), device);
}

class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (device) set_index(device->index());
  }
  explicit OptionalCUDAGuard(Device device) { set_index(device.index()); }
  explicit OptionalCUDAGuard(DeviceIndex index) { set_index(index); }
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  OptionalCUDAGuard& operator=(const OptionalCUDAGuard&) = delete;
  ~OptionalCUDAGuard() {
    if (before_ >= 0) (void)cudaSetDevice(before_);
  }
  void set_index(DeviceIndex index) {
    if (before_ < 0) before_ = current_device();
    if (index >= 0) check(cudaSetDevice(index));
  }
  void set_device(Device device) { set_index(device.index()); }

 private:
  int before_ = -1;
};
class CUDAGuard : public OptionalCUDAGuard {
 public:
  explicit CUDAGuard(Device device) : OptionalCUDAGuard(device) {}
  explicit CUDAGuard(DeviceIndex index) : OptionalCUDAGuard(index) {}
};
}  // namespace c10::cuda

namespace at {
using c10::cuda::CUDAStream;
namespace cuda {
using c10::cuda::CUDAStream;
using c10::cuda::CUDAGuard;
using c10::cuda::OptionalCUDAGuard;
using c10::cuda::current_device;
using c10::cuda::device_count;
using c10::cuda::getCurrentCUDAStream;
inline const cudaDeviceProp* getDeviceProperties(DeviceIndex device) {
  static cudaDeviceProp properties[64];
  static bool known[64];
  const int index = device < 0 ? c10::cuda::current_device() : device;
  if (!known[index]) {
    c10::cuda::check(cudaGetDeviceProperties(&properties[index], index));
    known[index] = true;
  }
  return &properties[index];
}
inline const cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(-1); }
}  // namespace cuda
}  // namespace at

#define C10_CUDA_CHECK(expression) ::c10::cuda::check(expression)
#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() ::c10::cuda::check(cudaGetLastError())
