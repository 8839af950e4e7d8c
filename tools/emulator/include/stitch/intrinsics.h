// Math functions and intrinsics. The fast variants are the accurate ones: their error on a GPU is not imitated.
#pragma once
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <assert.h>
#include "runtime.h"

// The C library declares some of these names for itself.
#define __expf stitch_fast_expf
#define __exp10f stitch_fast_exp10f
#define __logf stitch_fast_logf
#define __log2f stitch_fast_log2f
#define __log10f stitch_fast_log10f
#define __sinf stitch_fast_sinf
#define __cosf stitch_fast_cosf
#define __tanf stitch_fast_tanf
#define __tanhf stitch_fast_tanhf
#define __powf stitch_fast_powf
#define __sincosf stitch_fast_sincosf

inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline void __sincosf(float x, float* s, float* c) { *s = sinf(x); *c = cosf(x); }

inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return !(x > 0.0f) ? 0.0f : (x > 1.0f ? 1.0f : x); }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }
inline float norm3df(float x, float y, float z) { return sqrtf(x * x + y * y + z * z); }
inline float norm4df(float x, float y, float z, float w) { return sqrtf(x * x + y * y + z * z + w * w); }
inline float rnorm3df(float x, float y, float z) { return 1.0f / norm3df(x, y, z); }
inline float sinpif(float x) { return sinf(3.14159265358979323846f * fmodf(x, 2.0f)); }
inline float cospif(float x) { return cosf(3.14159265358979323846f * fmodf(x, 2.0f)); }
inline double sinpi(double x) { return sin(3.14159265358979323846 * fmod(x, 2.0)); }
inline double cospi(double x) { return cos(3.14159265358979323846 * fmod(x, 2.0)); }
inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752440f); }
inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
inline float erfcxf(float x) { return expf(x * x) * erfcf(x); }
inline float fdividef(float x, float y) { return x / y; }
inline float fdimf_(float x, float y) { return fdimf(x, y); }
#if !defined(_GNU_SOURCE)
inline float exp10f(float x) { return powf(10.0f, x); }
inline double exp10(double x) { return pow(10.0, x); }
#endif

// Rounding modes other than to nearest differ in the last bit; nearest is used for all of them.
#define STITCH_ROUNDED(SUFFIX)                                                                 \
    inline float __fadd_##SUFFIX(float a, float b) { return a + b; }                           \
    inline float __fsub_##SUFFIX(float a, float b) { return a - b; }                           \
    inline float __fmul_##SUFFIX(float a, float b) { return a * b; }                           \
    inline float __fdiv_##SUFFIX(float a, float b) { return a / b; }                           \
    inline float __fmaf_##SUFFIX(float a, float b, float c) { return fmaf(a, b, c); }          \
    inline float __frcp_##SUFFIX(float a) { return 1.0f / a; }                                 \
    inline float __fsqrt_##SUFFIX(float a) { return sqrtf(a); }                                \
    inline double __dadd_##SUFFIX(double a, double b) { return a + b; }                        \
    inline double __dsub_##SUFFIX(double a, double b) { return a - b; }                        \
    inline double __dmul_##SUFFIX(double a, double b) { return a * b; }                        \
    inline double __ddiv_##SUFFIX(double a, double b) { return a / b; }                        \
    inline double __fma_##SUFFIX(double a, double b, double c) { return fma(a, b, c); }        \
    inline double __drcp_##SUFFIX(double a) { return 1.0 / a; }                                \
    inline double __dsqrt_##SUFFIX(double a) { return sqrt(a); }                               \
    inline float __int2float_##SUFFIX(int a) { return static_cast<float>(a); }                 \
    inline float __uint2float_##SUFFIX(unsigned a) { return static_cast<float>(a); }           \
    inline float __ll2float_##SUFFIX(long long a) { return static_cast<float>(a); }            \
    inline double __ll2double_##SUFFIX(long long a) { return static_cast<double>(a); }         \
    inline float __double2float_##SUFFIX(double a) { return static_cast<float>(a); }
STITCH_ROUNDED(rn)
STITCH_ROUNDED(rz)
STITCH_ROUNDED(ru)
STITCH_ROUNDED(rd)
#undef STITCH_ROUNDED
inline float __frsqrt_rn(float a) { return rsqrtf(a); }
inline double __int2double_rn(int a) { return a; }
inline double __uint2double_rn(unsigned a) { return a; }

namespace stitch {
// CUDA's conversions saturate and give 0 for NaN; the host's are undefined there.
template <class Integer, class Real>
inline Integer saturated(Real x) {
    if (!(x == x)) return 0;
    constexpr Integer low = std::is_signed<Integer>::value ? static_cast<Integer>(Integer(1) << (sizeof(Integer) * 8 - 1)) : 0;
    constexpr Integer high = static_cast<Integer>(~low);
    if (x <= static_cast<Real>(low)) return low;
    if (x >= static_cast<Real>(high)) return high;
    return static_cast<Integer>(x);
}
}  // namespace stitch

#define STITCH_TO_INTEGER(FROM, REAL, TO, INTEGER, SUFFIX_FLOOR)                                                                   \
    inline INTEGER __##FROM##2##TO##_rn(REAL x) { return stitch::saturated<INTEGER>(nearbyint##SUFFIX_FLOOR(x)); }                \
    inline INTEGER __##FROM##2##TO##_rz(REAL x) { return stitch::saturated<INTEGER>(trunc##SUFFIX_FLOOR(x)); }                    \
    inline INTEGER __##FROM##2##TO##_rd(REAL x) { return stitch::saturated<INTEGER>(floor##SUFFIX_FLOOR(x)); }                    \
    inline INTEGER __##FROM##2##TO##_ru(REAL x) { return stitch::saturated<INTEGER>(ceil##SUFFIX_FLOOR(x)); }
STITCH_TO_INTEGER(float, float, int, int, f)
STITCH_TO_INTEGER(float, float, uint, unsigned, f)
STITCH_TO_INTEGER(float, float, ll, long long, f)
STITCH_TO_INTEGER(float, float, ull, unsigned long long, f)
STITCH_TO_INTEGER(double, double, int, int, )
STITCH_TO_INTEGER(double, double, uint, unsigned, )
STITCH_TO_INTEGER(double, double, ll, long long, )
STITCH_TO_INTEGER(double, double, ull, unsigned long long, )
#undef STITCH_TO_INTEGER

namespace stitch {
template <class To, class From>
inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
}  // namespace stitch
inline int __float_as_int(float x) { return stitch::bits_as<int>(x); }
inline unsigned __float_as_uint(float x) { return stitch::bits_as<unsigned>(x); }
inline float __int_as_float(int x) { return stitch::bits_as<float>(x); }
inline float __uint_as_float(unsigned x) { return stitch::bits_as<float>(x); }
inline long long __double_as_longlong(double x) { return stitch::bits_as<long long>(x); }
inline double __longlong_as_double(long long x) { return stitch::bits_as<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(stitch::bits_as<long long>(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(stitch::bits_as<long long>(x)); }
inline double __hiloint2double(int high, int low) {
    return stitch::bits_as<double>(static_cast<long long>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low)));
}

// --- integers -----------------------------------------------------------------------------------------------------

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) result |= (x >> i & 1u) << (31 - i);
    return result;
}
inline unsigned long long __brevll(unsigned long long x) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 | __brev(static_cast<unsigned>(x >> 32));
}
inline int __mul24(int a, int b) { return static_cast<int>((static_cast<long long>(a << 8 >> 8) * (b << 8 >> 8)) & 0xffffffffll); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline long long __mul64hi(long long a, long long b) { return static_cast<long long>(static_cast<__int128>(a) * b >> 64); }
inline unsigned __sad(int a, int b, unsigned c) { return c + static_cast<unsigned>(a < b ? b - a : a - b); }
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a < b ? b - a : a - b); }
inline int __hadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b) >> 1); }
inline int __rhadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b + 1) >> 1); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned pick = selector >> (4 * i) & 0xfu;
        unsigned byte = static_cast<unsigned>(bytes >> (8 * (pick & 7u))) & 0xffu;
        if (pick & 8u) byte = byte & 0x80u ? 0xffu : 0u;
        result |= byte << (8 * i);
    }
    return result;
}
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += static_cast<signed char>(a >> (8 * i)) * static_cast<signed char>(b >> (8 * i));
    return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 0xffu) * (b >> (8 * i) & 0xffu);
    return c;
}

// --- min and max: the overloads that CUDA has ----------------------------------------------------------------------

#define STITCH_MIN_MAX(A, B, R)                                                                             \
    inline constexpr R min(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); } \
    inline constexpr R max(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(b) : static_cast<R>(a); }
STITCH_MIN_MAX(int, int, int)
STITCH_MIN_MAX(unsigned, unsigned, unsigned)
STITCH_MIN_MAX(int, unsigned, unsigned)
STITCH_MIN_MAX(unsigned, int, unsigned)
STITCH_MIN_MAX(long, long, long)
STITCH_MIN_MAX(unsigned long, unsigned long, unsigned long)
STITCH_MIN_MAX(long, unsigned long, unsigned long)
STITCH_MIN_MAX(unsigned long, long, unsigned long)
STITCH_MIN_MAX(long long, long long, long long)
STITCH_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
STITCH_MIN_MAX(long long, unsigned long long, unsigned long long)
STITCH_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef STITCH_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }
inline int umin(unsigned a, unsigned b) { return static_cast<int>(a < b ? a : b); }
inline int umax(unsigned a, unsigned b) { return static_cast<int>(a < b ? b : a); }

// --- loads and stores with a cache hint ---------------------------------------------------------------------------

#define STITCH_LOAD(NAME) \
    template <class T>    \
    STITCH_INLINED T NAME(const T* address) { return *address; }
STITCH_LOAD(__ldg)
STITCH_LOAD(__ldca)
STITCH_LOAD(__ldcg)
STITCH_LOAD(__ldcs)
STITCH_LOAD(__ldcv)
STITCH_LOAD(__ldlu)
#undef STITCH_LOAD
#define STITCH_STORE(NAME) \
    template <class T>     \
    STITCH_INLINED void NAME(T* address, T value) { *address = value; }
STITCH_STORE(__stcg)
STITCH_STORE(__stcs)
STITCH_STORE(__stwb)
STITCH_STORE(__stwt)
#undef STITCH_STORE
inline unsigned __cvta_generic_to_shared(const void* address) {
    const auto distance = static_cast<const unsigned char*>(address) - stitch::dynamic_shared_memory;
    return static_cast<unsigned>(distance);
}
inline void __prefetch_global_l1(const void*) {}
inline void __prefetch_global_l2(const void*) {}

// --- clocks -------------------------------------------------------------------------------------------------------

namespace stitch {
STITCH_STATE long long fake_clock = 0;
}
inline long long clock64() { return stitch::fake_clock += 10; }
