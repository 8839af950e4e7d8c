// Ways of writing CUDA C++ that candidates use, more than what they compute.
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>

#include <algorithm>
#include <vector>

#ifndef __CUDACC__
#error "a candidate sees __CUDACC__"
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "a candidate sees a recent architecture"
#endif

using namespace std;
#define EXPORT extern "C" __attribute__((visibility("default")))
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define DECLARE_BUFFER(T, name, n) __shared__ T name[n]
#define LAUNCH(KERNEL, n, ...) KERNEL<<<CEIL_DIV(n, 64), 64>>>(__VA_ARGS__)

extern __shared__ float everywhere[];

namespace {
struct Parameters {
    float scale;
    int shift[2];
};
inline __device__ float4 operator+(const float4& a, const float4& b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

template <typename T>
struct Add {
    __host__ __device__ __forceinline__ T operator()(const T& a, const T& b) const { return a + b; }
    static constexpr T identity() { return T(0); }
};

// Shared memory of a device function: one place per block, however often it is called.
template <typename T, int THREADS, class Op>
__device__ T block_reduce(T value, Op op) {
    static_assert(THREADS % 32 == 0, "whole warps");
    __shared__ T partial[THREADS / 32];
    constexpr unsigned full = 0xffffffff;
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) value = op(value, __shfl_down_sync(full, value, offset));
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    value = threadIdx.x < THREADS / 32 ? partial[lane] : Op::identity();
    if (warp == 0)
        for (int offset = 16; offset > 0; offset >>= 1) value = op(value, __shfl_down_sync(full, value, offset));
    __syncthreads();
    return value;
}

template <typename T, int THREADS>
__global__ __launch_bounds__(THREADS) void two_sums_kernel(const T* x, T* out, int n) {
    T a = 0, b = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        a += x[i];
        b += x[i] * x[i];
    }
    a = block_reduce<T, THREADS>(a, Add<T>());
    b = block_reduce<T, THREADS>(b, Add<T>());
    if (threadIdx.x == 0) {
        out[0] = a;
        out[1] = b;
    }
}
}  // namespace

namespace layers {
template <class T, int N = 2>
__global__ void affine(T* x, const Parameters p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * p.scale + p.shift[i % N];
}
__global__ void affine(int* x, int n) {
    if (threadIdx.x < n) x[threadIdx.x] += 1000;
}
struct Host {
    template <class F>
    static void dispatch(int type, F f) {
        if (type == 0) { using scalar_t = float; f(scalar_t()); } else { using scalar_t = double; f(scalar_t()); }
    }
};
}  // namespace layers

__global__ void everywhere_kernel(float* out) {
    everywhere[threadIdx.x] = threadIdx.x * 2.0f;
    __syncthreads();
    out[threadIdx.x] = everywhere[blockDim.x - 1 - threadIdx.x];
}

__global__ void split_dynamic_kernel(const float* x, float* sums, int* count, int n) {
    extern __shared__ __align__(16) unsigned char raw[];
    float* values = reinterpret_cast<float*>(raw);
    int* flags = (int*)&values[n];
    values[threadIdx.x] = x[threadIdx.x];
    flags[threadIdx.x] = x[threadIdx.x] > 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0;
        int positive = 0;
        for (int i = 0; i < n; ++i) { sum += values[i]; positive += flags[i]; }
        *sums = sum;
        *count = positive;
    }
}

template <int BM, int BN>
__global__ void rows_kernel(const float* x, float* y) {
    __shared__ float tile[BM][BN + 1], scale;
    extern __shared__ float rows[][4];
    DECLARE_BUFFER(float, buffer, BM * BN);
    if (threadIdx.x == 0 && threadIdx.y == 0) scale = 3;
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * BN + threadIdx.x];
    buffer[threadIdx.y * BN + threadIdx.x] = 1;
    if (threadIdx.x < 4) rows[threadIdx.y][threadIdx.x] = 10 * threadIdx.y + threadIdx.x;
    __syncthreads();
    y[threadIdx.y * BN + threadIdx.x] = tile[threadIdx.y][BN - 1 - threadIdx.x] * scale + buffer[0] + rows[threadIdx.y][threadIdx.x % 4] +
                                        static_cast<float>(sizeof(tile) / sizeof(float));
}

__global__ void math_kernel(const float* x, float* out) {
    float v = x[threadIdx.x];
    int i = threadIdx.x;
    float* o = out + i * 16;
    o[0] = exp(v); o[1] = max(v, 0.0f); o[2] = min(i, 3); o[3] = pow(fabsf(v), 0.5f);
    o[4] = rsqrtf(fabsf(v) + 1); o[5] = tanhf(v); o[6] = isnan(v) ? 1 : 0; o[7] = std::max(v, 1.0f);
    o[8] = __saturatef(v); o[9] = __frcp_rn(v); o[10] = __float2int_rn(v); o[11] = v / (1.0f + __expf(-v));
    o[12] = max((long long)i, 2LL); o[13] = log1pf(fabsf(v)); o[14] = abs(v); o[15] = __fsqrt_rn(fabs(v));
}

__global__ void packed_kernel(const float4* a, const float4* b, float4* out, half2* sum, __half* one) {
    out[threadIdx.x] = a[threadIdx.x] + __ldg(b + threadIdx.x);
    atomicAdd(sum, __floats2half2_rn(1.0f, 0.5f));
    atomicAdd(one, __float2half(2.0f));
}

template <typename... Ts>
__global__ void variadic_kernel(float* out, Ts... values) { out[0] = (0 + ... + values); }

typedef void (*Kernel)(float*);
__global__ void plus_one(float* x) { x[0] += 1; }
__global__ void plus_ten(float* x) { x[0] += 10; }

EXPORT void two_sums(const float* x, float* out, const double* xd, double* outd, int n) {
    two_sums_kernel<float, 96><<<1, 96>>>(x, out, n);
    constexpr int threads = 256;
    auto run = [&](auto tag) { using T = decltype(tag); two_sums_kernel<T, threads><<<1, threads>>>(xd, outd, n); };
    run(double());
}
EXPORT void affine(float* x, double* y, int* z, int n, int type) {
    Parameters p = {2.0f, {1, 5}};
    layers::Host::dispatch(type, [&](auto tag) {
        using T = decltype(tag);
        if constexpr (sizeof(T) == 4) {
            layers::affine<T, 2><<<CEIL_DIV(n, 64), 64>>>(x, p, n);
        } else {
            layers::affine<T><<<dim3(CEIL_DIV(n, 64)), dim3(64, 1, 1), 0, 0>>>(y, p, n);
        }
    });
    layers::affine<<<1, 64>>>(z, n);
    LAUNCH(layers::affine, n, x, p, n);
}
EXPORT void everywhere_run(float* out) { everywhere_kernel<<<1, 8, 8 * sizeof(float)>>>(out); }
EXPORT void split_dynamic(const float* x, float* sums, int* count, int n) {
    const size_t bytes = n * (sizeof(float) + sizeof(int));
    split_dynamic_kernel<<<1, n, bytes, (cudaStream_t)0>>>(x, sums, count, n);
}
EXPORT void rows(const float* x, float* y) { rows_kernel<4, 8><<<1, dim3(8, 4), 4 * 4 * sizeof(float)>>>(x, y); }
EXPORT void math(const float* x, float* out, int n) { math_kernel<<<1, n>>>(x, out); }
EXPORT void packed(const void* a, const void* b, void* out, void* sum, void* one) {
    packed_kernel<<<1, 4>>>((const float4*)a, (const float4*)b, (float4*)out, (half2*)sum, (__half*)one);
}
EXPORT void pointers(float* x) {
    Kernel table[2] = {plus_one, plus_ten};
    for (int i = 0; i < 2; ++i) table[i]<<<1, 1>>>(x);
    Kernel pick = table[1];
    if (pick) pick<<<1, 1>>>(x); else plus_one<<<1, 1>>>(x);
    (*pick)<<<1, 1>>>(x);
    variadic_kernel<<<1, 1>>>(x + 1, 1, 2.5f, 3.0);
}
EXPORT int host_api(float* out) {
    float* device = nullptr;
    float host[4] = {1, 2, 3, 4};
    cudaStream_t stream;
    cudaEvent_t begin, end;
    if (cudaMalloc(&device, sizeof host) != cudaSuccess) return 1;
    cudaStreamCreate(&stream);
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    cudaEventRecord(begin, stream);
    cudaMemcpyAsync(device, host, sizeof host, cudaMemcpyHostToDevice, stream);
    plus_ten<<<1, 1, 0, stream>>>(device);
    cudaMemcpyAsync(out, device, sizeof host, cudaMemcpyDeviceToHost, stream);
    cudaEventRecord(end, stream);
    cudaStreamSynchronize(stream);
    float ms = -1;
    cudaEventElapsedTime(&ms, begin, end);
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    int blocks = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, plus_one, 256, 0);
    cudaFree(device);
    cudaStreamDestroy(stream);
    return ms >= 0 && properties.warpSize == 32 && blocks == 8 ? 0 : 2;
}
