// The part of the CUDA runtime's host API that candidates use. Device memory is host memory; everything is finished
// when a call returns, so streams and events only have to exist.
#pragma once
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "launch.h"

enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributePreferredSharedMemoryCarveout = 9 };
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual };
enum cudaSharedMemConfig { cudaSharedMemBankSizeDefault, cudaSharedMemBankSizeFourByte, cudaSharedMemBankSizeEightByte };
enum cudaSharedCarveout { cudaSharedmemCarveoutDefault = -1, cudaSharedmemCarveoutMaxL1 = 0, cudaSharedmemCarveoutMaxShared = 100 };
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxBlockDimX = 2,
    cudaDevAttrMaxGridDimX = 5,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
    cudaDevAttrMaxRegistersPerBlock = 12,
    cudaDevAttrCooperativeLaunch = 95,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor, totalConstMem;
    int regsPerBlock, regsPerMultiprocessor, warpSize, maxThreadsPerBlock, maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor;
    int maxThreadsDim[3], maxGridSize[3];
    int major, minor, multiProcessorCount, l2CacheSize, memoryBusWidth, cooperativeLaunch, concurrentKernels;
};

struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes;
};

struct CUevent_st { struct timespec recorded; };
typedef CUevent_st* cudaEvent_t;
#define cudaStreamDefault 0u
#define cudaStreamNonBlocking 1u
#define cudaEventDefault 0u
#define cudaEventBlockingSync 1u
#define cudaEventDisableTiming 2u
#define cudaStreamLegacy (static_cast<cudaStream_t>(nullptr))
#define cudaStreamPerThread (static_cast<cudaStream_t>(nullptr))
#define cudaHostAllocDefault 0u

// --- errors and synchronisation -----------------------------------------------------------------------------------

inline cudaError_t cudaGetLastError() {
    const cudaError_t error = stitch::device.last_error;
    stitch::device.last_error = cudaSuccess;
    return error;
}
inline cudaError_t cudaPeekAtLastError() { return stitch::device.last_error; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaThreadSynchronize() { return cudaSuccess; }
inline cudaError_t cudaDeviceReset() { return cudaSuccess; }

// --- memory -------------------------------------------------------------------------------------------------------

template <class T>
inline cudaError_t cudaMalloc(T** address, size_t bytes) {
    void* memory = nullptr;
    // cudaMalloc aligns to 256 bytes, and its contents are undefined: filled with NaN here.
    constexpr size_t gap = stitch::sanitized ? 256 : 0;  // on both sides, so that an overrun meets nobody
    if (posix_memalign(&memory, 256, (bytes == 0 ? 256 : bytes) + 2 * gap) != 0) return stitch::fail(cudaErrorMemoryAllocation);
    memory = static_cast<char*>(memory) + gap;
    memset(memory, 0xff, bytes);
    stitch_note_memory(memory, bytes);
    *address = static_cast<T*>(memory);
    return cudaSuccess;
}
inline cudaError_t cudaFree(void* address) {
    stitch_forget_memory(address);
    if (address != nullptr) free(static_cast<char*>(address) - (stitch::sanitized ? 256 : 0));
    return cudaSuccess;
}
template <class T>
inline cudaError_t cudaMallocAsync(T** address, size_t bytes, cudaStream_t) { return cudaMalloc(address, bytes); }
inline cudaError_t cudaFreeAsync(void* address, cudaStream_t) { return cudaFree(address); }
template <class T>
inline cudaError_t cudaMallocManaged(T** address, size_t bytes, unsigned = 1) { return cudaMalloc(address, bytes); }
template <class T>
inline cudaError_t cudaMallocHost(T** address, size_t bytes, unsigned = 0) { return cudaMalloc(address, bytes); }
template <class T>
inline cudaError_t cudaHostAlloc(T** address, size_t bytes, unsigned) { return cudaMalloc(address, bytes); }
inline cudaError_t cudaFreeHost(void* address) { return cudaFree(address); }

inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) { memmove(to, from, bytes); return cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t = nullptr) {
    return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind) {
    for (size_t row = 0; row < height; ++row)
        memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                                     cudaMemcpyKind kind, cudaStream_t = nullptr) {
    return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
inline cudaError_t cudaMemset(void* address, int value, size_t bytes) { memset(address, value, bytes); return cudaSuccess; }
inline cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t = nullptr) { return cudaMemset(address, value, bytes); }
template <class T>
inline cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t bytes, size_t offset = 0, cudaMemcpyKind = cudaMemcpyHostToDevice) {
    if (offset + bytes > sizeof(T)) return stitch::fail(cudaErrorInvalidValue);
    memcpy(reinterpret_cast<char*>(const_cast<typename std::remove_cv<T>::type*>(&symbol)) + offset, from, bytes);
    return cudaSuccess;
}
template <class T>
inline cudaError_t cudaMemcpyToSymbolAsync(T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                           cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t = nullptr) {
    return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0, cudaMemcpyKind = cudaMemcpyDeviceToHost) {
    if (offset + bytes > sizeof(T)) return stitch::fail(cudaErrorInvalidValue);
    memcpy(to, reinterpret_cast<const char*>(&symbol) + offset, bytes);
    return cudaSuccess;
}
template <class T>
inline cudaError_t cudaGetSymbolAddress(void** address, const T& symbol) {
    *address = const_cast<void*>(static_cast<const void*>(&symbol));
    return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(size_t* unused, size_t* total) {
    *unused = *total = size_t(1) << 34;
    return cudaSuccess;
}

// --- the device: limits of sm_90, one multiprocessor --------------------------------------------------------------

inline cudaError_t cudaGetDevice(int* number) { *number = 0; return cudaSuccess; }
inline cudaError_t cudaSetDevice(int number) { return number == 0 ? cudaSuccess : stitch::fail(cudaErrorInvalidDevice); }
inline cudaError_t cudaGetDeviceCount(int* count) { *count = 1; return cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
    if (number != 0) return stitch::fail(cudaErrorInvalidDevice);
    *properties = cudaDeviceProp{};
    strcpy(properties->name, "StitchCUDA cpu device");
    properties->totalGlobalMem = size_t(1) << 34;
    properties->sharedMemPerBlock = stitch::static_shared_limit;
    properties->sharedMemPerBlockOptin = stitch::dynamic_shared_limit;
    properties->sharedMemPerMultiprocessor = 228 * 1024;
    properties->totalConstMem = 64 * 1024;
    properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxBlocksPerMultiProcessor = 32;
    properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
    properties->maxThreadsDim[2] = 64;
    properties->maxGridSize[0] = 0x7fffffff;
    properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
    properties->major = 9;
    properties->multiProcessorCount = 1;
    properties->l2CacheSize = 1 << 20;
    properties->memoryBusWidth = 64;
    properties->cooperativeLaunch = 1;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: case cudaDevAttrMaxBlockDimX: *value = 1024; break;
        case cudaDevAttrMaxGridDimX: *value = 0x7fffffff; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(stitch::static_shared_limit); break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(stitch::dynamic_shared_limit); break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 228 * 1024; break;
        case cudaDevAttrWarpSize: *value = 32; break;
        case cudaDevAttrMultiProcessorCount: *value = 1; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
        case cudaDevAttrL2CacheSize: *value = 1 << 20; break;
        case cudaDevAttrMaxRegistersPerBlock: *value = 65536; break;
        case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
        case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
        case cudaDevAttrCooperativeLaunch: *value = 1; break;
        default: return stitch::fail(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
inline cudaError_t cudaDriverGetVersion(int* version) { *version = CUDA_VERSION; return cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int* version) { *version = CUDA_VERSION; return cudaSuccess; }

// --- functions ----------------------------------------------------------------------------------------------------

namespace stitch {
// cudaFuncSetAttribute(kernel, …), with the kernel's name put in front by the rewriter ("*": not a kernel's name).
template <class Function>
inline cudaError_t set_function_attribute(const char* name, Function function, cudaFuncAttribute attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || static_cast<size_t>(value) > dynamic_shared_limit) return fail(cudaErrorInvalidValue);
    const void* address = (const void*)(function);
    for (unsigned i = 0; i < allowance_count; ++i)
        if (allowances[i].function == address && strcmp(allowances[i].name, name) == 0) {
            allowances[i].bytes = static_cast<size_t>(value);
            return cudaSuccess;
        }
    if (allowance_count == sizeof allowances / sizeof allowances[0]) return fail(cudaErrorInvalidValue);
    allowances[allowance_count++] = {address, name, static_cast<size_t>(value)};
    return cudaSuccess;
}
}  // namespace stitch

template <class Function>
inline cudaError_t cudaFuncSetAttribute(Function function, cudaFuncAttribute attribute, int value) {
    return stitch::set_function_attribute("*", function, attribute, value);
}
template <class Function>
inline cudaError_t cudaFuncSetCacheConfig(Function, cudaFuncCache) { return cudaSuccess; }
template <class Function>
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Function) {
    *attributes = cudaFuncAttributes{};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(stitch::static_shared_limit);
    return cudaSuccess;
}
template <class Function>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function, int block_threads, size_t) {
    if (block_threads < 1 || block_threads > 1024) return stitch::fail(cudaErrorInvalidValue);
    *blocks = 2048 / block_threads < 32 ? 2048 / block_threads : 32;
    return cudaSuccess;
}
template <class Function>
inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, Function, size_t = 0, int limit = 0) {
    *block = limit > 0 && limit < 256 ? limit : 256;
    *grid = 8;
    return cudaSuccess;
}

// --- streams and events -------------------------------------------------------------------------------------------

inline cudaError_t cudaStreamCreate(cudaStream_t* stream) { *stream = reinterpret_cast<cudaStream_t>(malloc(1)); return cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return cudaStreamCreate(stream); }
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { free(stream); return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* event) { *event = new CUevent_st{}; return cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { delete event; return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t = nullptr) { clock_gettime(CLOCK_MONOTONIC, &event->recorded); return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    *milliseconds = static_cast<float>(1e3 * static_cast<double>(end->recorded.tv_sec - begin->recorded.tv_sec) +
                                       1e-6 * static_cast<double>(end->recorded.tv_nsec - begin->recorded.tv_nsec));
    return cudaSuccess;
}
