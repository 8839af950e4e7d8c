// What ATen and c10 offer to host code around a launch: streams, guards, checks. Needs no torch header.
#pragma once
#include "host.h"

namespace c10 {
namespace cuda {

class CUDAStream {
  public:
    explicit CUDAStream(cudaStream_t stream = nullptr) : stream_(stream) {}
    operator cudaStream_t() const { return stream_; }
    cudaStream_t stream() const { return stream_; }
    void synchronize() const {}
    bool query() const { return true; }
    int device_index() const { return 0; }
    int id() const { return 0; }
    bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }

  private:
    cudaStream_t stream_;
};

inline CUDAStream getCurrentCUDAStream(int = -1) { return CUDAStream(); }
inline CUDAStream getDefaultCUDAStream(int = -1) { return CUDAStream(); }
inline CUDAStream getStreamFromPool(bool = false, int = -1) { return CUDAStream(); }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, int) { return CUDAStream(stream); }
inline void setCurrentCUDAStream(CUDAStream) {}
inline int current_device() { return 0; }
inline int device_count() { return 1; }
inline void set_device(int) {}
inline void device_synchronize() {}
inline void stream_synchronize(cudaStream_t) {}

// There is one device, so a guard accepts whatever names it: an index, a device, an optional of one.
struct CUDAGuard {
    template <class Device>
    explicit CUDAGuard(const Device&) {}
    CUDAGuard(const CUDAGuard&) = delete;
    CUDAGuard& operator=(const CUDAGuard&) = delete;
    ~CUDAGuard() {}
    template <class Device>
    void set_device(const Device&) {}
    template <class Device>
    void reset_device(const Device&) {}
    void set_index(int) {}
};
struct OptionalCUDAGuard {
    OptionalCUDAGuard() {}
    template <class Device>
    explicit OptionalCUDAGuard(const Device&) {}
    OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
    OptionalCUDAGuard& operator=(const OptionalCUDAGuard&) = delete;
    ~OptionalCUDAGuard() {}
    template <class Device>
    void set_device(const Device&) {}
    void set_index(int) {}
    void reset() {}
};
struct CUDAStreamGuard {
    explicit CUDAStreamGuard(CUDAStream) {}
    CUDAStreamGuard(const CUDAStreamGuard&) = delete;
    CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;
    ~CUDAStreamGuard() {}
};

}  // namespace cuda
}  // namespace c10

namespace at {
namespace cuda {

using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::CUDAStreamGuard;
using c10::cuda::OptionalCUDAGuard;
using c10::cuda::current_device;
using c10::cuda::device_count;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::getStreamFromPool;
using c10::cuda::setCurrentCUDAStream;
using c10::cuda::set_device;
inline bool is_available() { return true; }
inline int warp_size() { return 32; }

inline cudaDeviceProp* getDeviceProperties(int) {
    static cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }

}  // namespace cuda
}  // namespace at

namespace stitch {
inline bool cuda_is_available() { return true; }
inline int cuda_device_count() { return 1; }
inline void cuda_synchronize(int = -1) {}
inline void check(cudaError_t error) {
    if (error == cudaSuccess) return;
    device.last_error = cudaSuccess;
    throw CudaError("CUDA error: %s", cudaGetErrorString(error));
}
}  // namespace stitch

#define C10_CUDA_CHECK(expression) ::stitch::check(expression)
#define C10_CUDA_CHECK_WARN(expression) ((void)(expression))
#define C10_CUDA_IGNORE_ERROR(expression) ((void)(expression))
#define C10_CUDA_CLEAR_ERROR() ((void)cudaGetLastError())
#define C10_CUDA_KERNEL_LAUNCH_CHECK() ::stitch::check(cudaGetLastError())
#define AT_CUDA_CHECK(expression) ::stitch::check(expression)
#define TORCH_CUDA_CHECK(expression) ::stitch::check(expression)

// ATen/cuda/Atomic.cuh
template <class T, class U>
STITCH_INLINED T gpuAtomicAdd(T* address, U value) {
    const stitch::Atomic atomic;
    const T old = *address;
    *address = static_cast<T>(old + static_cast<T>(value));
    return old;
}
template <class T, class U>
inline void gpuAtomicAddNoReturn(T* address, U value) { gpuAtomicAdd(address, value); }
template <class T>
inline void fastAtomicAdd(T* tensor, size_t index, size_t, T value, bool) { gpuAtomicAdd(tensor + index, value); }
