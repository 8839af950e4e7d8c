// CUB's block and warp primitives, and cuBLAS, as candidates call them.
#include <cub/cub.cuh>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <ATen/cuda/CUDAContext.h>
#define EXPORT extern "C" __attribute__((visibility("default")))

template <int THREADS>
__global__ void row_stats_kernel(const float* x, float* sums, float* maxima, int* where, int n) {
    using Reduce = cub::BlockReduce<float, THREADS>;
    typedef cub::KeyValuePair<int, float> Pair;
    using ReducePair = cub::BlockReduce<Pair, THREADS, cub::BLOCK_REDUCE_RAKING>;
    __shared__ union {
        typename Reduce::TempStorage plain;
        typename ReducePair::TempStorage pair;
    } storage;
    const float* row = x + blockIdx.x * n;
    float sum = 0, most = -1e30f;
    Pair best(0, -1e30f);
    for (int i = threadIdx.x; i < n; i += THREADS) {
        sum += row[i];
        most = fmaxf(most, row[i]);
        best = cub::ArgMax()(best, Pair(i, row[i]));
    }
    float total = Reduce(storage.plain).Sum(sum);
    __syncthreads();
    float largest = Reduce(storage.plain).Reduce(most, cub::Max());
    __syncthreads();
    Pair top = ReducePair(storage.pair).Reduce(best, cub::ArgMax());
    if (threadIdx.x == 0) { sums[blockIdx.x] = total; maxima[blockIdx.x] = largest; where[blockIdx.x] = top.key; }
}
EXPORT void row_stats(const float* x, float* sums, float* maxima, int* where, int rows, int n) {
    row_stats_kernel<128><<<rows, 128>>>(x, sums, maxima, where, n);
}

__global__ void scan_kernel(const int* x, int* inclusive, int* exclusive, int* totals, int n) {
    typedef cub::BlockLoad<int, 64, 4, cub::BLOCK_LOAD_TRANSPOSE> Load;
    typedef cub::BlockStore<int, 64, 4, cub::BLOCK_STORE_TRANSPOSE> Store;
    typedef cub::BlockScan<int, 64> Scan;
    __shared__ typename Load::TempStorage load;
    __shared__ typename Store::TempStorage store;
    __shared__ typename Scan::TempStorage scan;
    int items[4], a[4], own, total;
    Load(load).Load(x, items, n, 0);
    Scan(scan).InclusiveSum(items, a);
    Store(store).Store(inclusive, a, n);
    __syncthreads();
    Scan(scan).ExclusiveSum(items, a);
    Store(store).Store(exclusive, a, n);
    __syncthreads();
    Scan(scan).ExclusiveScan(static_cast<int>(threadIdx.x), own, 100, cub::Max(), total);
    totals[threadIdx.x] = own * 1000 + total;
}
EXPORT void scans(const int* x, int* inclusive, int* exclusive, int* totals, int n) { scan_kernel<<<1, 64>>>(x, inclusive, exclusive, totals, n); }

__global__ void warps_kernel(const float* x, float* sums, float* scanned) {
    using Reduce = cub::WarpReduce<float>;
    using Scan = cub::WarpScan<float, 8>;
    __shared__ Reduce::TempStorage reduce[2];
    __shared__ Scan::TempStorage scan[8];
    float v = x[threadIdx.x], s;
    float total = Reduce(reduce[threadIdx.x / 32]).Sum(v);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = total;
    Scan(scan[threadIdx.x / 8]).InclusiveSum(v, s);
    scanned[threadIdx.x] = s;
}
EXPORT void warps(const float* x, float* sums, float* scanned) { warps_kernel<<<1, 64>>>(x, sums, scanned); }

// Row-major C = A B, by swapping the operands of the column-major product.
EXPORT int sgemm(const float* a, const float* b, float* c, int m, int n, int k) {
    const float one = 1.0f, zero = 0.0f;
    return cublasSgemm(at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b, n, a, k, &zero, c, n);
}
EXPORT int half_batched(const void* a, const void* bt, float* c, int batch, int m, int n, int k) {
    cublasHandle_t handle;
    cublasCreate(&handle);
    cublasSetMathMode(handle, CUBLAS_TENSOR_OP_MATH);
    const float alpha = 2.0f, beta = 1.0f;
    int status = cublasGemmStridedBatchedEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &alpha, bt, CUDA_R_16F, k, (long long)n * k, a, CUDA_R_16F, k,
                                            (long long)m * k, &beta, c, CUDA_R_32F, n, (long long)m * n, batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP);
    cublasDestroy(handle);
    return status;
}
