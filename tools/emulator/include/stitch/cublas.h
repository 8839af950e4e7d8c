// The matrix products of cuBLAS, computed plainly on the host: column-major, accumulated in float (double for double).
#pragma once
#include "host.h"
#include "small_float.h"

struct cublasContext {
    cudaStream_t stream;
};
typedef cublasContext* cublasHandle_t;
enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };
enum cublasMath_t { CUBLAS_DEFAULT_MATH, CUBLAS_TENSOR_OP_MATH, CUBLAS_PEDANTIC_MATH, CUBLAS_TF32_TENSOR_OP_MATH };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DFALT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_8I = 3, CUDA_R_32I = 10, CUDA_R_16BF = 14 };
typedef cudaDataType_t cudaDataType;
enum cublasComputeType_t {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};

inline cublasStatus_t cublasCreate(cublasHandle_t* handle) { *handle = new cublasContext{}; return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasDestroy(cublasHandle_t handle) { delete handle; return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) { handle->stream = stream; return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetPointerMode(cublasHandle_t, cublasPointerMode_t mode) {
    return mode == CUBLAS_POINTER_MODE_HOST ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
inline cublasStatus_t cublasSetWorkspace(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }
inline const char* cublasGetStatusString(cublasStatus_t status) {
    switch (status) {
        case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
        case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
        case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
        default: return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

namespace stitch {

// C = alpha op(A) op(B) + beta C; C is not read when beta is 0.
template <class Sum, class A, class B, class C>
inline cublasStatus_t gemm(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, Sum alpha, const A* a, int lda, const B* b, int ldb,
                           Sum beta, C* c, int ldc) {
    if (m < 0 || n < 0 || k < 0 || lda < (ta == CUBLAS_OP_N ? m : k) || ldb < (tb == CUBLAS_OP_N ? k : n) || ldc < m)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
            Sum sum = 0;
            for (int l = 0; l < k; ++l) {
                const size_t at_a = ta == CUBLAS_OP_N ? size_t(l) * lda + i : size_t(i) * lda + l;
                const size_t at_b = tb == CUBLAS_OP_N ? size_t(j) * ldb + l : size_t(l) * ldb + j;
                sum += static_cast<Sum>(a[at_a]) * static_cast<Sum>(b[at_b]);
            }
            C& to = c[size_t(j) * ldc + i];
            to = static_cast<C>(beta == 0 ? alpha * sum : alpha * sum + beta * static_cast<Sum>(to));
        }
    return CUBLAS_STATUS_SUCCESS;
}

template <class T>
inline float scalar_of(const void* value) { return static_cast<float>(*static_cast<const T*>(value)); }

inline cublasStatus_t gemm_ex(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void* alpha, const void* a, cudaDataType_t type_a,
                              int lda, const void* b, cudaDataType_t type_b, int ldb, const void* beta, void* c, cudaDataType_t type_c, int ldc,
                              bool half_scalars) {
    const float x = half_scalars ? scalar_of<__half>(alpha) : scalar_of<float>(alpha);
    const float y = half_scalars ? scalar_of<__half>(beta) : scalar_of<float>(beta);
#define STITCH_GEMM(TYPE, A, TYPE_C, C)                                                                                             \
    if (type_a == TYPE && type_b == TYPE && type_c == TYPE_C)                                                                       \
        return gemm(ta, tb, m, n, k, x, static_cast<const A*>(a), lda, static_cast<const A*>(b), ldb, y, static_cast<C*>(c), ldc);
    STITCH_GEMM(CUDA_R_32F, float, CUDA_R_32F, float)
    STITCH_GEMM(CUDA_R_16F, __half, CUDA_R_16F, __half)
    STITCH_GEMM(CUDA_R_16F, __half, CUDA_R_32F, float)
    STITCH_GEMM(CUDA_R_16BF, __nv_bfloat16, CUDA_R_16BF, __nv_bfloat16)
    STITCH_GEMM(CUDA_R_16BF, __nv_bfloat16, CUDA_R_32F, float)
#undef STITCH_GEMM
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
inline size_t bytes_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }
inline const void* moved(const void* at, long long elements, cudaDataType_t type) {
    return static_cast<const char*>(at) + elements * static_cast<long long>(bytes_of(type));
}

}  // namespace stitch

#define STITCH_GEMM(NAME, T, SUM)                                                                                                          \
    inline cublasStatus_t cublas##NAME##gemm(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T* alpha, \
                                             const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc) {                       \
        return stitch::gemm<SUM>(ta, tb, m, n, k, static_cast<SUM>(*alpha), a, lda, b, ldb, static_cast<SUM>(*beta), c, ldc);               \
    }                                                                                                                                      \
    inline cublasStatus_t cublas##NAME##gemmStridedBatched(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,  \
                                                           const T* alpha, const T* a, int lda, long long step_a, const T* b, int ldb,       \
                                                           long long step_b, const T* beta, T* c, int ldc, long long step_c, int count) {    \
        cublasStatus_t status = CUBLAS_STATUS_SUCCESS;                                                                                     \
        for (int i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; ++i)                                                                  \
            status = stitch::gemm<SUM>(ta, tb, m, n, k, static_cast<SUM>(*alpha), a + i * step_a, lda, b + i * step_b, ldb,                 \
                                       static_cast<SUM>(*beta), c + i * step_c, ldc);                                                      \
        return status;                                                                                                                     \
    }
STITCH_GEMM(S, float, float)
STITCH_GEMM(D, double, double)
STITCH_GEMM(H, __half, float)
#undef STITCH_GEMM

inline cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void* alpha, const void* a,
                                   cudaDataType_t type_a, int lda, const void* b, cudaDataType_t type_b, int ldb, const void* beta, void* c,
                                   cudaDataType_t type_c, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
    return stitch::gemm_ex(ta, tb, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc, compute == CUBLAS_COMPUTE_16F);
}
inline cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void* alpha,
                                                 const void* a, cudaDataType_t type_a, int lda, long long step_a, const void* b,
                                                 cudaDataType_t type_b, int ldb, long long step_b, const void* beta, void* c,
                                                 cudaDataType_t type_c, int ldc, long long step_c, int count, cublasComputeType_t compute,
                                                 cublasGemmAlgo_t) {
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; ++i)
        status = stitch::gemm_ex(ta, tb, m, n, k, alpha, stitch::moved(a, i * step_a, type_a), type_a, lda, stitch::moved(b, i * step_b, type_b),
                                 type_b, ldb, beta, const_cast<void*>(stitch::moved(c, i * step_c, type_c)), type_c, ldc,
                                 compute == CUBLAS_COMPUTE_16F);
    return status;
}
inline cublasStatus_t cublasSgemv(cublasHandle_t, cublasOperation_t t, int m, int n, const float* alpha, const float* a, int lda, const float* x,
                                  int step_x, const float* beta, float* y, int step_y) {
    const int rows = t == CUBLAS_OP_N ? m : n, columns = t == CUBLAS_OP_N ? n : m;
    for (int i = 0; i < rows; ++i) {
        float sum = 0;
        for (int j = 0; j < columns; ++j) sum += a[t == CUBLAS_OP_N ? size_t(j) * lda + i : size_t(i) * lda + j] * x[j * step_x];
        y[i * step_y] = *beta == 0 ? *alpha * sum : *alpha * sum + *beta * y[i * step_y];
    }
    return CUBLAS_STATUS_SUCCESS;
}

namespace at {
namespace cuda {
inline cublasHandle_t getCurrentCUDABlasHandle() {
    static cublasContext context{};
    return &context;
}
}  // namespace cuda
}  // namespace at
#define TORCH_CUDABLAS_CHECK(expression) \
    do { if ((expression) != CUBLAS_STATUS_SUCCESS) throw ::stitch::CudaError("CUDA error: a cuBLAS call failed"); } while (0)
