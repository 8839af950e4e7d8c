// Tensor cores and inline PTX as hand-written kernels use them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>
using namespace nvcuda;
#define EXPORT extern "C" __attribute__((visibility("default")))

#define CP_ASYNC_16(dst, src, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes))

__device__ __forceinline__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// --- wmma: one warp per 16 x 16 tile, row-major A and B ----
template <typename T>
__global__ void wmma_kernel(const T* a, const T* b, float* c, int m, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(fa, a + row * k + i, k);
        wmma::load_matrix_sync(fb, b + i * n + col, n);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    for (int i = 0; i < acc.num_elements; i++) acc.x[i] *= 2.0f;
    wmma::store_matrix_sync(c + row * n + col, acc, n, wmma::mem_row_major);
}
EXPORT void wmma_half(const void* a, const void* b, float* c, int m, int n, int k) {
    wmma_kernel<half><<<dim3(n / 16, m / 16), 32>>>(static_cast<const half*>(a), static_cast<const half*>(b), c, m, n, k);
}
EXPORT void wmma_bfloat(const void* a, const void* b, float* c, int m, int n, int k) {
    wmma_kernel<__nv_bfloat16><<<dim3(n / 16, m / 16), 32>>>(static_cast<const __nv_bfloat16*>(a), static_cast<const __nv_bfloat16*>(b), c, m, n, k);
}
// B is given transposed here, through shared memory and a column-major fragment.
__global__ void wmma_tf32_kernel(const float* a, const float* bt, float* c, int n, int k) {
    __shared__ float out[16 * 16];
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int i = 0; i < k; i += 8) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * k + i, k);
        wmma::load_matrix_sync(fb, bt + blockIdx.x * 16 * k + i, k);
        for (int t = 0; t < fa.num_elements; t++) fa.x[t] = wmma::__float_to_tf32(fa.x[t]);
        for (int t = 0; t < fb.num_elements; t++) fb.x[t] = wmma::__float_to_tf32(fb.x[t]);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::store_matrix_sync(out, acc, 16, wmma::mem_col_major);
    __syncwarp();
    for (int e = threadIdx.x; e < 256; e += 32) c[(blockIdx.y * 16 + e / 16) * n + blockIdx.x * 16 + e % 16] = out[e % 16 * 16 + e / 16];
}
EXPORT void wmma_tf32(const float* a, const float* bt, float* c, int m, int n, int k) {
    wmma_tf32_kernel<<<dim3(n / 16, m / 16), 32>>>(a, bt, c, n, k);
}

// --- mma.sync m16n8k16 with ldmatrix and cp.async: one warp per 16 x 8 tile, B row-major (K x N) ----
__global__ void mma_kernel(const half* a, const half* b, float* c, int n, int k) {
    __shared__ __align__(16) half sa[16][16];
    __shared__ __align__(16) half sb[16][8];
    int lane = threadIdx.x, row0 = blockIdx.y * 16, col0 = blockIdx.x * 8;
    float acc[4] = {0.f, 0.f, 0.f, 0.f};
    for (int k0 = 0; k0 < k; k0 += 16) {
        CP_ASYNC_16(shared_address(&sa[lane / 2][lane % 2 * 8]), a + (row0 + lane / 2) * k + k0 + lane % 2 * 8, 16);
        if (lane < 16) CP_ASYNC_16(shared_address(&sb[lane][0]), b + (k0 + lane) * n + col0, 16);
        asm volatile("cp.async.commit_group;\n" ::);
        asm volatile("cp.async.wait_group %0;\n" ::"n"(0));
        __syncthreads();
        uint32_t ra[4], rb[2];
        uint32_t pa = shared_address(&sa[lane % 16][lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
                     : "r"(pa));
        uint32_t pb = shared_address(&sb[lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n"
            : "=f"(acc[0]), "=f"(acc[1]), "=f"(acc[2]), "=f"(acc[3])
            : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]), "f"(acc[0]), "f"(acc[1]), "f"(acc[2]), "f"(acc[3]));
        __syncthreads();
    }
    int g = lane >> 2, t = lane & 3;
    float* out = c + (row0 + g) * n + col0 + t * 2;
    out[0] = acc[0];
    out[1] = acc[1];
    out[8 * n] = acc[2];
    out[8 * n + 1] = acc[3];
}
EXPORT void mma_half(const void* a, const void* b, float* c, int m, int n, int k) {
    mma_kernel<<<dim3(n / 8, m / 16), 32>>>(static_cast<const half*>(a), static_cast<const half*>(b), c, n, k);
}

// --- tf32 mma m16n8k8, registers loaded by hand ----
__global__ void mma_tf32_kernel(const float* a, const float* b, float* c, int n, int k) {
    int lane = threadIdx.x, g = lane >> 2, t = lane & 3, row = blockIdx.y * 16, col = blockIdx.x * 8;
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    auto tf32 = [](float x) {
        uint32_t r;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
        return r;
    };
    for (int i = 0; i < k; i += 8) {
        uint32_t a0 = tf32(a[(row + g) * k + i + t]), a1 = tf32(a[(row + g + 8) * k + i + t]);
        uint32_t a2 = tf32(a[(row + g) * k + i + t + 4]), a3 = tf32(a[(row + g + 8) * k + i + t + 4]);
        uint32_t b0 = tf32(b[(i + t) * n + col + g]), b1 = tf32(b[(i + t + 4) * n + col + g]);
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    c[(row + g) * n + col + 2 * t] = d0;
    c[(row + g) * n + col + 2 * t + 1] = d1;
    c[(row + g + 8) * n + col + 2 * t] = d2;
    c[(row + g + 8) * n + col + 2 * t + 1] = d3;
}
EXPORT void mma_tf32(const float* a, const float* b, float* c, int m, int n, int k) {
    mma_tf32_kernel<<<dim3(n / 8, m / 16), 32>>>(a, b, c, n, k);
}

// --- small snippets ----
__global__ void snippets_kernel(const float* x, float* y) {
    __shared__ float s[4];
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    float v = x[threadIdx.x], e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(v));
    asm("rcp.approx.f32 %[out], %[in];" : [out] "=f"(r) : [in] "f"(e));
    float4 q;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(q.x), "=f"(q.y), "=f"(q.z), "=f"(q.w) : "l"(x + 4));
    unsigned packed, address;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(2.0f), "f"(1.0f));
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"(&s[1]));
    if (threadIdx.x == 0) {
        asm volatile("st.shared.f32 [%0 + 4], %1;" ::"r"(address), "f"(7.0f));
        int write = 1;
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %0, 0;\n @p st.shared.f32 [%1], %2;\n @!p st.shared.f32 [%1], %3;\n}\n" ::"r"(write), "r"(address), "f"(5.0f), "f"(6.0f));
    }
    asm volatile("bar.sync 0;");
    y[threadIdx.x] = r;
    y[32 + threadIdx.x] = lane + q.w;
    y[64 + threadIdx.x] = s[2] * 100 + s[1] * 10 + (packed == 0x40003f80u);
    int picked;
    asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(picked) : "r"(0x0f), "r"(0x33), "r"(0x55));
    y[96 + threadIdx.x] = picked;
}
EXPORT void snippets(const float* x, float* y) { snippets_kernel<<<1, 32>>>(x, y); }
