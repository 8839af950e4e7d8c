// The words of CUDA C++ that a host compiler does not know, dim3 and the built-in vector types.
// __shared__, <<<>>> and __noinline__ are not here: they need a rewriter (stitchcuda.tools.emulator.rewrite).
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __inline_hint__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __builtin_assume(condition) ((void)0)
#define __nv_pure__

// What the arguments of a macro make of a text.
#define STITCH_TEXT(...) STITCH_TEXT_OF(__VA_ARGS__)
#define STITCH_TEXT_OF(...) #__VA_ARGS__

// What the candidate's text sees as __CUDACC__ and __CUDA_ARCH__. The real names stay undefined, or torch's own
// headers would ask for the CUDA toolkit.
#define STITCH_CUDACC 1
#define STITCH_CUDA_ARCH 900
#define STITCH_CPU_DEVICE 1
#define CUDART_VERSION 13000
#define CUDA_VERSION 13000

// Data of the emulator itself: one copy per shared object, reached without an indirection.
#define STITCH_STATE inline __attribute__((visibility("hidden")))

#define STITCH_VECTOR(T, N, ALIGN)                                                                  \
    struct alignas(ALIGN) N##1 { T x; };

#define STITCH_VECTORS(T, N, A1, A2, A3, A4)                                                        \
    struct alignas(A1) N##1 { T x; };                                                               \
    struct alignas(A2) N##2 { T x, y; };                                                            \
    struct alignas(A3) N##3 { T x, y, z; };                                                         \
    struct alignas(A4) N##4 { T x, y, z, w; };                                                      \
    inline constexpr N##1 make_##N##1(T x) { return {x}; }                                          \
    inline constexpr N##2 make_##N##2(T x, T y) { return {x, y}; }                                  \
    inline constexpr N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }                          \
    inline constexpr N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }

STITCH_VECTORS(signed char, char, 1, 2, 1, 4)
STITCH_VECTORS(unsigned char, uchar, 1, 2, 1, 4)
STITCH_VECTORS(short, short, 2, 4, 2, 8)
STITCH_VECTORS(unsigned short, ushort, 2, 4, 2, 8)
STITCH_VECTORS(int, int, 4, 8, 4, 16)
STITCH_VECTORS(unsigned int, uint, 4, 8, 4, 16)
STITCH_VECTORS(long, long, 8, 16, 8, 16)
STITCH_VECTORS(unsigned long, ulong, 8, 16, 8, 16)
STITCH_VECTORS(long long, longlong, 8, 16, 8, 16)
STITCH_VECTORS(unsigned long long, ulonglong, 8, 16, 8, 16)
STITCH_VECTORS(float, float, 4, 8, 4, 16)
STITCH_VECTORS(double, double, 8, 16, 8, 16)
#undef STITCH_VECTORS
#undef STITCH_VECTOR

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// The built-in variables of the thread that is running now.
STITCH_STATE uint3 threadIdx = {0, 0, 0};
STITCH_STATE uint3 blockIdx = {0, 0, 0};
STITCH_STATE dim3 blockDim;
STITCH_STATE dim3 gridDim;
static constexpr int warpSize = 32;
