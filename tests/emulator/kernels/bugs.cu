// Planted bugs with correct twins: each kernel is right with bug = 0. `@name` marks a line that the finding must name.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <exception>

static char last_message[1200];
extern "C" const char* message() { return last_message; }

template <class T>
struct Memory {
    T* p;
    explicit Memory(int n) { cudaMalloc(&p, n * sizeof(T)); for (int i = 0; i < n; ++i) p[i] = T(i % 7); }
    ~Memory() { cudaFree(p); }
};

// A case: its kernel gets a float buffer of 100, another of 100, and whether to misbehave.
#define CASE(NAME, GRID, BLOCK, SHARED)                                                             \
    __global__ void NAME##_kernel(const float* x, float* y, int n, int bug);                        \
    extern "C" int NAME(int bug) {                                                                  \
        Memory<float> x(100), y(100);                                                               \
        last_message[0] = 0;                                                                        \
        try {                                                                                       \
            NAME##_kernel<<<GRID, BLOCK, SHARED>>>(x.p, y.p, 100, bug);                             \
        } catch (const std::exception& error) {                                                     \
            snprintf(last_message, sizeof last_message, "%s", error.what());                        \
            return 1;                                                                               \
        }                                                                                           \
        return 0;                                                                                   \
    }                                                                                               \
    __global__ void NAME##_kernel(const float* x, float* y, int n, int bug)

#define I (blockIdx.x * blockDim.x + threadIdx.x)

// --- global memory ---------------------------------------------------------------------------------------------------

CASE(guard_off_by_one, 4, 32, 0) {
    int i = I;
    if (i < n + bug)
        y[i] = x[i] * 2;  // @guard_off_by_one
}
CASE(guard_missing, 4, 32, 0) {
    int i = I;
    if (bug || i < n) {
        float v = i < n ? x[i] : 0;
        y[i] = v;  // @guard_missing
    }
}
CASE(left_neighbour, 4, 25, 0) {
    int i = I;
    float left = (bug || i > 0) ? x[i - 1] : 0;  // @left_neighbour
    y[i] = left + x[i];
}
CASE(vector_tail, 1, 32, 0) {
    int i = threadIdx.x * 4;
    int end = bug ? n + 4 : n;
    if (i + 3 < end) {
        float4 v = reinterpret_cast<const float4*>(x)[threadIdx.x];  // @vector_tail
        y[i] = v.w;
    }
}
CASE(wrong_stride, 1, 10, 0) {
    int row = threadIdx.x, stride = bug ? 11 : 10;
    for (int c = 0; c < 10; ++c)
        y[row * 10 + c] = x[row * stride + c];  // @wrong_stride
}
CASE(halo, 1, 100, 0) {
    int i = threadIdx.x;
    float sum = 0;
    for (int d = -2; d <= 2; ++d)
        if (bug || (i + d >= 0 && i + d < n))
            sum += x[i + d];  // @halo
    y[i] = sum;
}
CASE(half2_tail, 1, 128, 0) {
    const __half2* h = reinterpret_cast<const __half2*>(x);  // 100 pairs
    int i = threadIdx.x;
    if (i < n + bug) {
        __half2 v = h[i];  // @half2_tail
        if (i < n) y[i] = __low2float(v);
    }
}
struct View { float* data; int rows, columns; };
__device__ float& at_view(const View& view, int r, int c) { return view.data[r * view.columns + c]; }
CASE(struct_of_pointers, 1, 10, 0) {
    View view{y, 10, 10};
    int c = threadIdx.x;
    for (int r = 0; r < view.rows + bug; ++r)
        at_view(view, r, c) = 1;  // @struct_of_pointers
}
CASE(double_from_float, 1, 64, 0) {
    int i = threadIdx.x;
    if (bug ? i < 51 : i < 50)
        reinterpret_cast<double*>(y)[i] = 1.0;  // @double_from_float
}
CASE(histogram_bin, 1, 100, 0) {
    int bin = threadIdx.x;
    if (bug && bin == 99) bin = 140;
    atomicAdd(&y[bin], 1.0f);  // @histogram_bin
}
CASE(null_pointer, 1, 32, 0) {
    const float* table = bug ? nullptr : x;
    y[threadIdx.x] = table[threadIdx.x];  // @null_pointer
}
CASE(cached_load, 1, 128, 0) {
    int i = threadIdx.x;
    if (i < n + bug) {
        float v = __ldg(x + i);  // @cached_load
        y[i % n] = v;
    }
}

// --- shared and local memory -----------------------------------------------------------------------------------------

CASE(shared_neighbour, 1, 64, 0) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    y[t] = (bug || t < 63) ? s[t + 1] : 0;  // @shared_neighbour
}
CASE(dynamic_too_small, 1, 64, (bug ? 63 : 64) * sizeof(float)) {
    extern __shared__ float dynamic[];
    int t = threadIdx.x;
    dynamic[t] = x[t];  // @dynamic_too_small
    __syncthreads();
    y[t] = dynamic[0];
}
CASE(into_the_next_array, 1, 32, 0) {
    __shared__ float a[32];
    __shared__ float b[32];
    int t = threadIdx.x;
    a[t] = x[t];
    b[t] = 0;
    __syncthreads();
    a[t + (bug ? 1 : 0)] = 2;  // @into_the_next_array
    __syncthreads();
    y[t] = a[t] + b[t];
}
CASE(tile_row, 1, dim3(8, 8), 0) {
    __shared__ float tile[8][9];
    int r = threadIdx.y + bug;
    tile[r][threadIdx.x] = x[threadIdx.y * 8 + threadIdx.x];  // @tile_row
    __syncthreads();
    y[threadIdx.y * 8 + threadIdx.x] = bug ? 0 : tile[threadIdx.x][threadIdx.y];
}
CASE(before_shared, 1, 32, 0) {
    __shared__ float first[16];
    __shared__ float s[32];
    int t = threadIdx.x;
    if (t < 16) first[t] = 0;
    s[t] = x[t];
    __syncthreads();
    y[t] = s[t - (bug && t == 0 ? 1 : 0)];  // @before_shared
}
CASE(local_array, 1, 32, 0) {
    float best[4];
    for (int k = 0; k < 4; ++k) best[k] = x[k + threadIdx.x];
    int which = threadIdx.x % (bug ? 5 : 4);
    y[threadIdx.x] = best[which];  // @local_array
}

// --- alignment -------------------------------------------------------------------------------------------------------

CASE(misaligned_float4, 1, 8, 0) {
    const float4* v = reinterpret_cast<const float4*>(x + bug);
    float4 a = v[threadIdx.x];  // @misaligned_float4
    y[threadIdx.x] = a.x + a.w;
}
CASE(misaligned_shared_float2, 1, 16, 0) {
    __shared__ float s[64];
    for (int i = threadIdx.x; i < 64; i += 16) s[i] = x[i];
    __syncthreads();
    float2 v = *reinterpret_cast<float2*>(&s[2 * threadIdx.x + bug]);  // @misaligned_shared_float2
    y[threadIdx.x] = v.x + v.y;
}
CASE(misaligned_int4_store, 1, 4, 0) {
    int4 v = make_int4(1, 2, 3, 4);
    reinterpret_cast<int4*>(y + 2 * bug)[threadIdx.x] = v;  // @misaligned_int4_store
}
CASE(misaligned_half2, 1, 16, 0) {
    const __half* h = reinterpret_cast<const __half*>(x);
    const __half2* pairs = reinterpret_cast<const __half2*>(h + bug);
    __half2 v = pairs[threadIdx.x];  // @misaligned_half2
    y[threadIdx.x] = __high2float(v);
}

// --- races -----------------------------------------------------------------------------------------------------------

CASE(no_sync_after_load, 1, 64, 0) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
    s[t] = x[t] + 1;  // @no_sync_after_load
    if (!bug) __syncthreads();
    y[t] = s[63 - t];  // @no_sync_after_load
}
CASE(no_sync_in_reduction, 1, 64, 0) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int step = 32; step > 0; step /= 2) {
        if (t < step)
            s[t] += s[t + step];  // @no_sync_in_reduction
        if (!bug) __syncthreads();
    }
    if (t == 0) y[0] = s[0];
}
CASE(no_sync_before_reload, 1, 50, 0) {
    __shared__ float s[50];
    int t = threadIdx.x;
    float sum = 0;
    for (int part = 0; part < 2; ++part) {
        s[t] = x[part * 50 + t] + part;  // @no_sync_before_reload
        __syncthreads();
        sum += s[(t + 33) % 50];  // @no_sync_before_reload
        if (!bug) __syncthreads();
    }
    y[t] = sum;
}
CASE(warp_synchronous, 1, 32, 0) {
    __shared__ volatile float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    s[t + 32] = x[t + 32];
    __syncwarp();
    for (int step = 32; step > 0; step /= 2) {
        float v = s[t + step];  // @warp_synchronous
        if (!bug) __syncwarp();
        if (t < step)
            s[t] = s[t] + v;  // @warp_synchronous
        if (!bug) __syncwarp();
    }
    if (t == 0) y[0] = s[0];
}
CASE(counter_between_blocks, 4, 1, 0) {
    if (bug)
        y[0] += x[blockIdx.x + 1];  // @counter_between_blocks
    else
        atomicAdd(&y[0], x[blockIdx.x + 1]);
}
CASE(sum_in_global, 1, 64, 0) {
    if (bug)
        y[0] += x[threadIdx.x];  // @sum_in_global
    else
        atomicAdd(y, x[threadIdx.x]);
}
CASE(shared_histogram, 1, 100, 0) {
    __shared__ int bins[8];
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    __syncthreads();
    int bin = static_cast<int>(x[threadIdx.x]);
    if (bug)
        bins[bin]++;  // @shared_histogram
    else
        atomicAdd(&bins[bin], 1);
    __syncthreads();
    if (threadIdx.x < 8) y[threadIdx.x] = bins[threadIdx.x];
}
CASE(broadcast_reused, 1, 64, 0) {
    __shared__ float mean;
    for (int row = 0; row < 3; ++row) {
        if (threadIdx.x == 0) mean = x[row] + 10 * row;  // @broadcast_reused
        __syncthreads();
        y[threadIdx.x] = mean;  // @broadcast_reused
        if (!bug) __syncthreads();
    }
}
CASE(double_buffer_parity, 1, 64, 0) {
    __shared__ float s[2][64];
    int t = threadIdx.x;
    s[0][t] = x[t];
    __syncthreads();
    float v = 0;
    for (int k = 0; k < 3; ++k) {
        int now = k & 1, next = bug ? now : 1 - now;
        s[next][t] = x[t] + k + 1;  // @double_buffer_parity
        v += s[now][63 - t];  // @double_buffer_parity
        __syncthreads();
    }
    y[t] = v;
}
CASE(scan_in_place, 1, 64, 0) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t] + 1;
    __syncthreads();
    for (int step = 1; step < 64; step *= 2) {
        float v = t >= step ? s[t - step] : 0;  // @scan_in_place
        if (!bug) __syncthreads();
        s[t] += v;  // @scan_in_place
        __syncthreads();
    }
    y[t] = s[t];
}
CASE(neighbour_in_global, 2, 32, 0) {
    int i = I;
    y[i] = x[i] + 1;  // @neighbour_in_global
    __syncthreads();
    float v = bug ? y[(i + 1) % 64] : y[i / 32 * 32 + (i + 1) % 32];  // @neighbour_in_global
    __syncthreads();
    y[i] = v;  // @neighbour_in_global
}
CASE(plain_read_of_atomic, 1, 64, 0) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, 1);  // @plain_read_of_atomic
    if (!bug) __syncthreads();
    y[threadIdx.x] = total;  // @plain_read_of_atomic
}
CASE(warps_hand_over, 1, 64, 0) {
    __shared__ float s[2];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x < 2) s[threadIdx.x] = -1;
    __syncthreads();
    float v = x[threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    if (lane == 0) s[warp] = v;  // @warps_hand_over
    if (bug) __syncwarp(); else __syncthreads();
    if (threadIdx.x == 0) y[0] = s[0] + s[1];  // @warps_hand_over
}

// --- meeting points --------------------------------------------------------------------------------------------------

CASE(barrier_in_branches, 1, 32, 0) {
    if (bug && threadIdx.x < 16)
        __syncthreads();  // @barrier_in_branches
    else
        __syncthreads();  // @barrier_in_branches
    y[threadIdx.x] = 1;
}
CASE(barrier_of_two_warps, 1, 64, 0) {
    if (bug && threadIdx.x < 32)
        __syncthreads();  // @barrier_of_two_warps
    else
        __syncthreads();  // @barrier_of_two_warps
    y[threadIdx.x] = 1;
}
CASE(mask_leaves_out_caller, 1, 32, 0) {
    float v = x[threadIdx.x];
    unsigned mask = bug ? 0x0000ffffu : 0xffffffffu;
    v += __shfl_down_sync(mask, v, 8);  // @mask_leaves_out_caller
    y[threadIdx.x] = threadIdx.x < 16 ? v : 0;
}
CASE(full_mask_in_branch, 1, 32, 0) {
    float v = x[threadIdx.x];
    if (threadIdx.x < 16) {
        v += __shfl_xor_sync(bug ? 0xffffffffu : 0x0000ffffu, v, 8);  // @full_mask_in_branch
    }
    __syncthreads();
    y[threadIdx.x] = v;
}
CASE(masks_that_disagree, 1, 32, 0) {
    float v = x[threadIdx.x];
    unsigned mask = threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u;
    if (bug && threadIdx.x == 3) mask = 0x000000ffu;
    v += __shfl_xor_sync(mask, v, 1);  // @masks_that_disagree
    __syncthreads();
    y[threadIdx.x] = v;
}

// --- uninitialised shared memory -------------------------------------------------------------------------------------

CASE(partly_filled, 1, 64, 0) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (bug ? t < 50 : true) s[t] = t < 50 ? x[t] : 0;
    __syncthreads();
    if (t < 32)
        s[t] += s[t + 32];  // @partly_filled
    __syncthreads();
    if (t == 0) y[0] = s[0];
}
CASE(sum_not_cleared, 1, 32, 0) {
    __shared__ float s[32];
    if (!bug) s[threadIdx.x] = 0;
    s[threadIdx.x] += x[threadIdx.x];  // @sum_not_cleared
    y[threadIdx.x] = s[threadIdx.x];
}
CASE(counter_not_cleared, 1, 32, 0) {
    __shared__ int count;
    if (!bug && threadIdx.x == 0) count = 0;
    __syncthreads();
    atomicAdd(&count, 1);  // @counter_not_cleared
    __syncthreads();
    y[threadIdx.x] = count;
}
CASE(copy_not_awaited, 1, 25, 0) {
    __shared__ __align__(16) float s[100];
    __pipeline_memcpy_async(&s[threadIdx.x * 4], &x[threadIdx.x * 4], 16);
    __pipeline_commit();
    if (!bug) __pipeline_wait_prior(0);
    __syncthreads();
    y[threadIdx.x] = s[99 - threadIdx.x];  // @copy_not_awaited
}
