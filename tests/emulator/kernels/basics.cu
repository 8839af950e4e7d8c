// Kernels of everyday candidates, each behind a host function with a C interface.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math_constants.h>

#include <cassert>
#include <exception>

#include <c10/cuda/CUDAException.h>
namespace cg = cooperative_groups;

static char last_message[1024];
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT const char* message() { return last_message; }

// Runs a host function; an exception becomes message() and the result 1.
template <class F>
int guarded(F f) {
    last_message[0] = 0;
    try {
        f();
    } catch (const std::exception& error) {
        snprintf(last_message, sizeof last_message, "%s", error.what());
        return 1;
    }
    return 0;
}

// --- elementwise ----
__global__ void __launch_bounds__(256) add_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __ldg(&a[i]) + b[i];
}
EXPORT void vector_add(const float* a, const float* b, float* out, long long n) {
    const int threads = 256;
    add_kernel<<<(n + threads - 1) / threads, threads>>>(a, b, out, n);
}

__global__ void saxpy_kernel(float alpha, const float* x, float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = fmaf(alpha, x[i], y[i]);
}
EXPORT void saxpy(float alpha, const float* x, float* y, int n) { saxpy_kernel<<<4, 96>>>(alpha, x, y, n); }

__global__ void gelu4_kernel(const float4* __restrict__ x, float4* __restrict__ y, int n4) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n4) return;
    float4 v = x[i];
    auto gelu = [](float t) { return 0.5f * t * (1.0f + erff(t * 0.70710678f)); };
    y[i] = make_float4(gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w));
}
EXPORT void gelu4(const float* x, float* y, int n) {
    gelu4_kernel<<<dim3((n / 4 + 127) / 128), dim3(128), 0, nullptr>>>(reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(y), n / 4);
}

// --- reductions ----
__global__ void block_sum_kernel(const float* x, float* out, int n) {
    __shared__ float partial[256];
    int tid = threadIdx.x;
    float sum = 0;
    for (int i = tid; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
    partial[tid] = sum;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step >>= 1) {
        if (tid < step) partial[tid] += partial[tid + step];
        __syncthreads();
    }
    if (tid == 0) out[blockIdx.x] = partial[0];
}
EXPORT void block_sum(const float* x, float* out, int rows, int n) { block_sum_kernel<<<rows, 256>>>(x, out, n); }

__device__ __forceinline__ float warp_max(float v) {
    #pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, offset));
    return v;
}
__inline__ __device__ float warp_sum(float v) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffffu, v, offset);
    return v;
}
template <int BLOCK>
__global__ void softmax_kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float warp_values[BLOCK / 32];
    __shared__ float total;
    const float* row = x + (long long)blockIdx.x * n;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float best = -CUDART_INF_F;
    for (int i = threadIdx.x; i < n; i += BLOCK) best = max(best, row[i]);
    best = warp_max(best);
    if (lane == 0) warp_values[warp] = best;
    __syncthreads();
    best = warp_values[0];
    for (int i = 1; i < BLOCK / 32; ++i) best = fmaxf(best, warp_values[i]);
    __syncthreads();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += BLOCK) sum += __expf(row[i] - best);
    sum = warp_sum(sum);
    if (lane == 0) warp_values[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < BLOCK / 32 ? warp_values[lane] : 0.0f;
        sum = warp_sum(sum);
        if (lane == 0) total = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += BLOCK) y[(long long)blockIdx.x * n + i] = __fdividef(__expf(row[i] - best), total);
}
EXPORT void softmax(const float* x, float* y, int rows, int n) { softmax_kernel<256><<<rows, 256>>>(x, y, n); }

__global__ void layer_norm_kernel(const float* x, const float* gamma, const float* beta, float* y, int n, float eps) {
    extern __shared__ float shared[];
    const float* row = x + (size_t)blockIdx.x * n;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) { sum += row[i]; squares += row[i] * row[i]; }
    sum = warp_sum(sum);
    squares = warp_sum(squares);
    int warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 0) { shared[threadIdx.x / 32] = sum; shared[warps + threadIdx.x / 32] = squares; }
    __syncthreads();
    sum = squares = 0;
    for (int i = 0; i < warps; ++i) { sum += shared[i]; squares += shared[warps + i]; }
    float mean = sum / n, inverse = rsqrtf(squares / n - mean * mean + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[(size_t)blockIdx.x * n + i] = (row[i] - mean) * inverse * gamma[i] + beta[i];
}
EXPORT void layer_norm(const float* x, const float* gamma, const float* beta, float* y, int rows, int n) {
    layer_norm_kernel<<<rows, 128, 2 * (128 / 32) * sizeof(float)>>>(x, gamma, beta, y, n, 1e-5f);
}

// --- tiles ----
constexpr int TILE = 16;
template <typename scalar_t>
__global__ void matmul_kernel(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k) {
    __shared__ scalar_t as[TILE][TILE], bs[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    scalar_t acc = 0;
    for (int t = 0; t < (k + TILE - 1) / TILE; ++t) {
        int ak = t * TILE + threadIdx.x, bk = t * TILE + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < m && ak < k ? a[row * k + ak] : scalar_t(0);
        bs[threadIdx.y][threadIdx.x] = bk < k && col < n ? b[bk * n + col] : scalar_t(0);
        __syncthreads();
        for (int i = 0; i < TILE; ++i) acc += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = acc;
}
template <typename T>
void matmul(const T* a, const T* b, T* c, int m, int n, int k) {
    dim3 block(TILE, TILE);
    dim3 grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
    matmul_kernel<T><<<grid,
                       block>>>(
        a, b, c, m, n, k);
}
EXPORT void matmul_float(const float* a, const float* b, float* c, int m, int n, int k) { matmul(a, b, c, m, n, k); }
EXPORT void matmul_double(const double* a, const double* b, double* c, int m, int n, int k) { matmul(a, b, c, m, n, k); }

__global__ void transpose_kernel(const int* in, int* out, int rows, int cols) {
    __shared__ int tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < cols && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * cols + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < rows && y + j < cols) out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}
EXPORT void transpose(const int* in, int* out, int rows, int cols) {
    transpose_kernel<<<dim3((cols + 31) / 32, (rows + 31) / 32), dim3(32, 8)>>>(in, out, rows, cols);
}

// --- scan, histogram, constant memory ----
__global__ void scan_kernel(const int* in, int* out, int n) {
    extern __shared__ int buffer[];
    int tid = threadIdx.x, from = 0, to = 1;
    buffer[tid] = tid < n ? in[tid] : 0;
    __syncthreads();
    for (int offset = 1; offset < blockDim.x; offset *= 2) {
        buffer[to * blockDim.x + tid] = buffer[from * blockDim.x + tid] + (tid >= offset ? buffer[from * blockDim.x + tid - offset] : 0);
        __syncthreads();
        from = to;
        to = 1 - to;
    }
    if (tid < n) out[tid] = buffer[from * blockDim.x + tid];
}
EXPORT void scan(const int* in, int* out, int n) { scan_kernel<<<1, 1024, 2 * 1024 * sizeof(int)>>>(in, out, n); }

__global__ void histogram_kernel(const unsigned char* x, unsigned int* counts, int n) {
    __shared__ unsigned int local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (local[i]) atomicAdd(counts + i, local[i]);
}
EXPORT void histogram(const unsigned char* x, unsigned int* counts, int n) { histogram_kernel<<<3, 128>>>(x, counts, n); }

__global__ void atomics_kernel(const float* x, int n, int* ints, float* floats, unsigned long long* longs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicMax(&ints[0], (int)x[i]);
    atomicMin(&ints[1], (int)x[i]);
    atomicAdd(&floats[0], x[i]);
    int* as_int = (int*)&floats[1];       // the usual float maximum by compare-and-swap
    int old = *as_int, assumed;
    do {
        assumed = old;
        old = atomicCAS(as_int, assumed, __float_as_int(fmaxf(x[i], __int_as_float(assumed))));
    } while (assumed != old);
    atomicAdd(&longs[0], 1ULL << 33);
    atomicExch(&ints[2], 7);
    atomicOr(&ints[3], 1 << (i % 31));
    atomicInc((unsigned*)&ints[4], 4u);
}
EXPORT void atomics(const float* x, int n, int* ints, float* floats, unsigned long long* longs) {
    atomics_kernel<<<(n + 63) / 64, 64>>>(x, n, ints, floats, longs);
}

__constant__ float taps[5];
__device__ float bias_value = 0.25f;
__global__ void filter_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = bias_value;
    for (int t = 0; t < 5; ++t) {
        int j = i + t - 2;
        if (j >= 0 && j < n) sum += taps[t] * x[j];
    }
    y[i] = sum;
}
EXPORT void filter(const float* x, const float* weights, float* y, int n) {
    cudaMemcpyToSymbol(taps, weights, sizeof(taps));
    filter_kernel<<<(n + 31) / 32, 32>>>(x, y, n);
}

// --- 16-bit types ----
__global__ void half_kernel(const __half* a, const half2* b, __half* sum, half2* fused, __nv_bfloat16* brain, float* back, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    const __half* b_flat = reinterpret_cast<const __half*>(b);
    sum[i] = __hadd(a[i], b_flat[i]);
    if (i < n / 2) {
        half2 twice = __float2half2_rn(2.0f);
        fused[i] = __hfma2(b[i], twice, __halves2half2(a[2 * i], a[2 * i + 1]));
    }
    brain[i] = __float2bfloat16(__half2float(a[i]) * 3.0f);
    back[i] = __bfloat162float(brain[i]) + float(a[i] * b_flat[i]);
}
EXPORT void halves(const void* a, const void* b, void* sum, void* fused, void* brain, float* back, int n) {
    half_kernel<<<1, n>>>((const __half*)a, (const half2*)b, (__half*)sum, (half2*)fused, (__nv_bfloat16*)brain, back, n);
}
__global__ void half_round_kernel(const float* x, unsigned short* h, unsigned short* b, float* h_back, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    h[i] = __half_as_ushort(__float2half_rn(x[i]));
    b[i] = __bfloat16_as_ushort(__float2bfloat16_rn(x[i]));
    h_back[i] = __half2float(__ushort_as_half(h[i]));
}
EXPORT void half_round(const float* x, unsigned short* h, unsigned short* b, float* back, int n) {
    half_round_kernel<<<(n + 255) / 256, 256>>>(x, h, b, back, n);
}

// --- groups and lanes ----
__global__ void tile_reduce_kernel(const int* x, int* sums, int* maxima, int* scans, int* ranks) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int i = block.thread_rank();
    int sum = x[i];
    for (int offset = tile.size() / 2; offset > 0; offset /= 2) sum += tile.shfl_down(sum, offset);
    if (tile.thread_rank() == 0) sums[tile.meta_group_rank()] = sum;
    maxima[i] = cg::reduce(tile, x[i], cg::greater<int>());
    int running = x[i];
    for (int offset = 1; offset < 8; offset <<= 1) {
        int other = tile.shfl_up(running, offset);
        if (tile.thread_rank() >= offset) running += other;
    }
    scans[i] = running;
    block.sync();
    if (x[i] % 3 == 0) {
        auto active = cg::coalesced_threads();
        ranks[i] = active.thread_rank() * 100 + active.size();
    }
}
EXPORT void tile_reduce(const int* x, int* sums, int* maxima, int* scans, int* ranks, int n) {
    tile_reduce_kernel<<<1, n>>>(x, sums, maxima, scans, ranks);
}

__global__ void early_return_kernel(const int* x, int* y, int n) {
    __shared__ int copy[128];
    int i = threadIdx.x;
    if (i >= n) return;                 // these threads never reach the barrier
    copy[i] = x[i];
    __syncthreads();
    y[i] = copy[n - 1 - i] + __shfl_xor_sync(__activemask(), copy[i], 0);
}
EXPORT void early_return(const int* x, int* y, int n) { early_return_kernel<<<1, 128>>>(x, y, n); }

__global__ void sub_mask_kernel(int* y, unsigned* votes) {
    int lane = threadIdx.x;
    if (lane < 12) {
        y[lane] = __shfl_sync(0x00000fffu, lane * 10, (lane + 1) % 12);
    } else {
        int v = lane;
        for (int offset = 8; offset > 0; offset >>= 1) {
            int other = __shfl_down_sync(0xfffff000u, v, offset);
            if (lane + offset < 32) v += other;
        }
        y[lane] = v;
    }
    __syncwarp();
    votes[lane] = __ballot_sync(0xffffffffu, lane % 5 == 0);
    votes[32 + lane] = __match_any_sync(0xffffffffu, lane / 7);
    votes[64 + lane] = (unsigned)__shfl_up_sync(0xffffffffu, lane, 3, 8);
    votes[96 + lane] = (unsigned)__any_sync(0xffffffffu, lane == 31) + 2u * (unsigned)__all_sync(0xffffffffu, lane < 31) +
                       4u * (unsigned)__reduce_add_sync(0xffffffffu, lane);
}
EXPORT void sub_mask(int* y, unsigned* votes) { sub_mask_kernel<<<1, 32>>>(y, votes); }

__global__ void counts_kernel(const int* x, int* out) {
    int positive = __syncthreads_count(x[threadIdx.x] > 0);
    int any = __syncthreads_or(x[threadIdx.x] == 5);
    int all = __syncthreads_and(x[threadIdx.x] > -100);
    out[threadIdx.x] = positive * 100 + any * 10 + all;
}
EXPORT void counts(const int* x, int* out, int n) { counts_kernel<<<1, n>>>(x, out); }

__global__ void bits_kernel(const unsigned* x, int* out) {
    unsigned v = x[threadIdx.x];
    int* o = out + threadIdx.x * 6;
    o[0] = __popc(v);
    o[1] = __clz(v);
    o[2] = __ffs(v);
    o[3] = (int)__brev(v);
    o[4] = (int)__umulhi(v, 0x9e3779b9u);
    o[5] = (int)__byte_perm(v, 0x01020304u, 0x5410);
}
EXPORT void bits(const unsigned* x, int* out, int n) { bits_kernel<<<1, n>>>(x, out); }

__global__ void coordinates_kernel(int* out) {
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] =
        threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z + 1000 * blockIdx.x + 10000 * blockIdx.y + 100000 * blockIdx.z;
}
EXPORT void coordinates(int* out) { coordinates_kernel<<<dim3(2, 3, 2), dim3(3, 2, 4)>>>(out); }

// --- a function pointer, and much shared memory ----
template <int SCALE>
__global__ void big_kernel(float* out, int n) {
    extern __shared__ float big[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) big[i] = i * SCALE;
    __syncthreads();
    if (threadIdx.x == 0) out[0] = big[n - 1];
}
EXPORT int big_shared(float* out, int n, int ask_by, int* attribute_error) {
    *attribute_error = 0;
    if (ask_by == 1) *attribute_error = cudaFuncSetAttribute(big_kernel<3>, cudaFuncAttributeMaxDynamicSharedMemorySize, n * 4);
    auto kernel = &big_kernel<2>;
    if (ask_by == 2) *attribute_error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n * 4);
    if (ask_by == 2) kernel<<<1, 64, n * sizeof(float)>>>(out, n);
    else big_kernel<3><<<1, 64, n * sizeof(float)>>>(out, n);
    return cudaGetLastError();
}

// --- what must be reported ----
EXPORT int bad_launch(float* out, int grid, int block, int shared) {
    add_kernel<<<grid, block, shared>>>(out, out, out, 1);
    int peeked = cudaPeekAtLastError();
    int error = cudaGetLastError();
    return peeked == error && cudaGetLastError() == cudaSuccess ? error : -1;
}
EXPORT const char* error_text(int error) { return cudaGetErrorString((cudaError_t)error); }
EXPORT int checked_launch(float* out) {
    return guarded([&] {
        add_kernel<<<1, 2048>>>(out, out, out, 1);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    });
}
__global__ void divergent_kernel(int* x) {
    if (threadIdx.x < 16) {
        __syncthreads();
        x[0] = 1;
    } else {
        x[1] = 1;
        __syncthreads();
    }
}
EXPORT int divergent(int* x) { return guarded([&] { divergent_kernel<<<2, 64>>>(x); }); }
__global__ void deadlock_kernel(int* x) {
    if (threadIdx.x == 3) x[0] = __shfl_sync(0xffffffffu, x[1], 0);
    __syncthreads();
}
EXPORT int deadlock(int* x) { return guarded([&] { deadlock_kernel<<<1, 64>>>(x); }); }
__global__ void assert_kernel(int n) { assert(threadIdx.x < n); }
EXPORT int failed_assert(int n) { return guarded([&] { assert_kernel<<<2, 32>>>(n); }); }
__global__ void overrun_kernel(float* out) {
    __shared__ float a[8];
    a[threadIdx.x] = 1.0f;
    __syncthreads();
    out[threadIdx.x] = a[0];
}
EXPORT int overrun(float* out, int threads) { return guarded([&] { overrun_kernel<<<1, threads>>>(out); }); }
__global__ void uninitialised_kernel(float* out) {
    __shared__ float a[32];
    if (threadIdx.x != 5) a[threadIdx.x] = 1.0f;
    __syncthreads();
    out[blockIdx.x * 32 + threadIdx.x] = a[threadIdx.x];
}
EXPORT void uninitialised(float* out) { uninitialised_kernel<<<2, 32>>>(out); }
__global__ void missing_barrier_kernel(const float* x, float* y) {
    __shared__ float a[64];
    a[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = a[63 - threadIdx.x];
}
EXPORT void missing_barrier(const float* x, float* y) { missing_barrier_kernel<<<1, 64>>>(x, y); }
__global__ void too_much_static_kernel(float* y) {
    __shared__ float a[10000], b[4000];
    a[threadIdx.x] = b[threadIdx.x] = 1.0f;
    y[threadIdx.x] = a[threadIdx.x];
}
EXPORT int too_much_static(float* y) { return guarded([&] { too_much_static_kernel<<<1, 32>>>(y); }); }
// Iterations that differ by lane: the loop ends early for some lanes while others still shuffle among themselves.
__global__ void uneven_kernel(int* out) {
    int lane = threadIdx.x;
    int sum = 0;
    for (int i = 0; i < lane % 4 + 1; ++i) {
        unsigned mask = __activemask();
        sum += __popc(mask);
        __syncwarp(mask);
    }
    out[lane] = sum;
}
EXPORT void uneven(int* out) { uneven_kernel<<<1, 32>>>(out); }
__global__ void undefined_lane_kernel(float* out) {
    float v = threadIdx.x;
    if (threadIdx.x < 8) v = __shfl_down_sync(0x000000ffu, v, 4);  // lanes 4 to 7 read lanes that take no part
    out[threadIdx.x] = v;
}
EXPORT void undefined_lane(float* out) { undefined_lane_kernel<<<1, 32>>>(out); }
__global__ void one_by_one_kernel(int* out) {
    // Two warps in the two branches: a barrier each, in different lines, as on a GPU.
    if (threadIdx.x < 32) {
        out[threadIdx.x] = 1;
        __syncthreads();
    } else {
        __syncthreads();
        out[threadIdx.x] = out[threadIdx.x - 32] + 1;
    }
}
EXPORT int one_by_one(int* out) { return guarded([&] { one_by_one_kernel<<<1, 64>>>(out); }); }
#include <cuda_pipeline.h>
// Two tiles in flight; `waits` leaves out the wait, as a candidate might.
template <bool WAITS>
__global__ void pipeline_kernel(const float* x, float* y, int tiles) {
    __shared__ __align__(16) float buffer[2][32 * 4];
    auto fetch = [&](int tile) {
        __pipeline_memcpy_async(&buffer[tile % 2][threadIdx.x * 4], x + tile * 128 + threadIdx.x * 4, 16);
        __pipeline_commit();
    };
    fetch(0);
    for (int tile = 0; tile < tiles; ++tile) {
        if (tile + 1 < tiles) fetch(tile + 1); else __pipeline_commit();
        if (WAITS) __pipeline_wait_prior(1);
        __syncthreads();
        for (int i = threadIdx.x; i < 128; i += 32) y[tile * 128 + i] = 2 * buffer[tile % 2][127 - i];
        __syncthreads();
    }
}
EXPORT void pipeline(const float* x, float* y, int tiles, int waits) {
    if (waits) pipeline_kernel<true><<<1, 32>>>(x, y, tiles);
    else pipeline_kernel<false><<<1, 32>>>(x, y, tiles);
}

// --- races that one order of threads hides ----
__global__ void in_place_shift_kernel(float* x) {
    int i = threadIdx.x;
    if (i < 127) x[i] = x[i + 1];
}
EXPORT void in_place_shift(float* x) { in_place_shift_kernel<<<1, 128>>>(x); }

__global__ void warp_order_kernel(float* x) {
    __shared__ float last;
    if (threadIdx.x % 32 == 0) last = threadIdx.x;
    __syncthreads();
    x[threadIdx.x] = last;
}
EXPORT void warp_order(float* x) { warp_order_kernel<<<1, 128>>>(x); }

// --- cooperative launches ----
// Each block adds its neighbours' values of the round before; shared memory must survive the other blocks' turns.
__global__ void ring_kernel(float* values, int rounds) {
    cg::grid_group grid = cg::this_grid();
    __shared__ float mine;
    if (threadIdx.x == 0) mine = values[blockIdx.x];
    __syncthreads();
    for (int r = 0; r < rounds; ++r) {
        float left = values[(blockIdx.x + gridDim.x - 1) % gridDim.x];
        grid.sync();
        if (threadIdx.x == 0) { mine += left; values[blockIdx.x] = mine; }
        grid.sync();
    }
}
EXPORT int ring(float* values, int blocks, int rounds) {
    void* arguments[] = {&values, &rounds};
    return cudaLaunchCooperativeKernel((void*)ring_kernel, dim3(blocks), dim3(64), arguments, 0, nullptr);
}
template <typename T>
__global__ void scale_kernel(T* x, T by) { x[threadIdx.x] *= by; }
EXPORT int scale_by_pointer(float* x, float by) {
    void* arguments[] = {&x, &by};
    return cudaLaunchKernel((const void*)scale_kernel<float>, 1, 32, arguments, 0, 0);
}
EXPORT int grid_sync_without_cooperation(float* values) {
    return guarded([&] { ring_kernel<<<2, 32>>>(values, 1); });
}
__global__ void half_grid_kernel(float* x) {
    if (blockIdx.x == 0) return;
    cg::this_grid().sync();
    x[0] = 1;
}
EXPORT int half_grid(float* x) {
    return guarded([&] { void* arguments[] = {&x}; cudaLaunchCooperativeKernel((void*)half_grid_kernel, 3, 32, arguments); });
}
