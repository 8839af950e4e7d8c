// __half and __nv_bfloat16: storage of 16 bits, arithmetic in float with one rounding per operation.
#pragma once
#include <stdint.h>
#include <string.h>

#include "atomics.h"
#include "intrinsics.h"
#include "language.h"

namespace stitch {

struct HalfFormat {
    static unsigned short encode(float value) {
        const unsigned bits = bits_as<unsigned>(value);
        const unsigned sign = bits >> 16 & 0x8000u;
        unsigned magnitude = bits & 0x7fffffffu;
        if (magnitude > 0x7f800000u) return static_cast<unsigned short>(0x7fffu);     // CUDA's canonical NaN
        if (magnitude >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);  // 65520 and above
        if (magnitude < 0x38800000u) {
            // Subnormal: adding 0.5 puts the value on half's grid of 2^-24, rounded to nearest even by the hardware.
            const float shifted = bits_as<float>(magnitude) + 0.5f;
            return static_cast<unsigned short>(sign | (bits_as<unsigned>(shifted) - 0x3f000000u));
        }
        magnitude += 0xc8000fffu + (magnitude >> 13 & 1u);
        return static_cast<unsigned short>(sign | magnitude >> 13);
    }
    static float decode(unsigned short bits) {
        const unsigned sign = (bits & 0x8000u) << 16;
        const unsigned magnitude = bits & 0x7fffu;
        if (magnitude >= 0x7c00u) return bits_as<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
        if (magnitude < 0x0400u) {
            const float value = static_cast<float>(magnitude) * 5.9604644775390625e-8f;  // 2^-24
            return sign ? -value : value;
        }
        return bits_as<float>(sign | ((magnitude << 13) + 0x38000000u));
    }
};

struct BfloatFormat {
    static unsigned short encode(float value) {
        const unsigned bits = bits_as<unsigned>(value);
        if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<unsigned short>(0x7fffu);
        return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    }
    static float decode(unsigned short bits) { return bits_as<float>(static_cast<unsigned>(bits) << 16); }
};

template <class Format>
struct alignas(2) SmallFloat {
    unsigned short x_bits;

    SmallFloat() = default;
    SmallFloat(float value) : x_bits(Format::encode(value)) {}
    SmallFloat(double value) : SmallFloat(static_cast<float>(value)) {}
    SmallFloat(int value) : SmallFloat(static_cast<float>(value)) {}
    SmallFloat(unsigned value) : SmallFloat(static_cast<float>(value)) {}
    SmallFloat(long value) : SmallFloat(static_cast<float>(value)) {}
    SmallFloat(unsigned long value) : SmallFloat(static_cast<float>(value)) {}
    SmallFloat(long long value) : SmallFloat(static_cast<float>(value)) {}
    SmallFloat(unsigned long long value) : SmallFloat(static_cast<float>(value)) {}
    static SmallFloat from_bits(unsigned short bits) {
        SmallFloat result;
        result.x_bits = bits;
        return result;
    }
    operator float() const { return Format::decode(x_bits); }

#define STITCH_BINARY(OP)                                                                                          \
    friend SmallFloat operator OP(const SmallFloat& a, const SmallFloat& b) { return f(a) OP f(b); }               \
    SmallFloat& operator OP##=(const SmallFloat& b) { return *this = *this OP b; }
    static float f(const SmallFloat& a) { return Format::decode(a.x_bits); }
    STITCH_BINARY(+)
    STITCH_BINARY(-)
    STITCH_BINARY(*)
    STITCH_BINARY(/)
#undef STITCH_BINARY
    friend SmallFloat operator-(const SmallFloat& a) { return from_bits(a.x_bits ^ 0x8000u); }
    friend SmallFloat operator+(const SmallFloat& a) { return a; }
    SmallFloat& operator++() { return *this += SmallFloat(1.0f); }
    SmallFloat& operator--() { return *this -= SmallFloat(1.0f); }
#define STITCH_COMPARE(OP, NAME)                                                                                   \
    friend bool operator OP(const SmallFloat& a, const SmallFloat& b) { return f(a) OP f(b); }                     \
    friend bool NAME(const SmallFloat& a, const SmallFloat& b) { return f(a) OP f(b); }
    STITCH_COMPARE(==, __heq)
    STITCH_COMPARE(!=, __hne)
    STITCH_COMPARE(<, __hlt)
    STITCH_COMPARE(<=, __hle)
    STITCH_COMPARE(>, __hgt)
    STITCH_COMPARE(>=, __hge)
#undef STITCH_COMPARE

    friend SmallFloat __hadd(const SmallFloat& a, const SmallFloat& b) { return f(a) + f(b); }
    friend SmallFloat __hsub(const SmallFloat& a, const SmallFloat& b) { return f(a) - f(b); }
    friend SmallFloat __hmul(const SmallFloat& a, const SmallFloat& b) { return f(a) * f(b); }
    friend SmallFloat __hdiv(const SmallFloat& a, const SmallFloat& b) { return f(a) / f(b); }
    // The product of two 11-bit significands is exact in float, the sum is rounded in double first: close enough to
    // one rounding that only exact ties of a tie can differ.
    friend SmallFloat __hfma(const SmallFloat& a, const SmallFloat& b, const SmallFloat& c) {
        return static_cast<float>(static_cast<double>(f(a)) * f(b) + f(c));
    }
    friend SmallFloat __hneg(const SmallFloat& a) { return -a; }
    friend SmallFloat __habs(const SmallFloat& a) { return from_bits(a.x_bits & 0x7fffu); }
    friend SmallFloat __hmax(const SmallFloat& a, const SmallFloat& b) { return fmaxf(f(a), f(b)); }
    friend SmallFloat __hmin(const SmallFloat& a, const SmallFloat& b) { return fminf(f(a), f(b)); }
    friend bool __hisnan(const SmallFloat& a) { return f(a) != f(a); }
    friend int __hisinf(const SmallFloat& a) { return isinf(f(a)) ? (f(a) < 0 ? -1 : 1) : 0; }
#define STITCH_FUNCTION(NAME, EXPRESSION) \
    friend SmallFloat NAME(const SmallFloat& a) { const float x = f(a); return static_cast<float>(EXPRESSION); }
    STITCH_FUNCTION(hexp, expf(x))
    STITCH_FUNCTION(hexp2, exp2f(x))
    STITCH_FUNCTION(hexp10, powf(10.0f, x))
    STITCH_FUNCTION(hlog, logf(x))
    STITCH_FUNCTION(hlog2, log2f(x))
    STITCH_FUNCTION(hlog10, log10f(x))
    STITCH_FUNCTION(hsqrt, sqrtf(x))
    STITCH_FUNCTION(hrsqrt, 1.0f / sqrtf(x))
    STITCH_FUNCTION(hrcp, 1.0f / x)
    STITCH_FUNCTION(hsin, sinf(x))
    STITCH_FUNCTION(hcos, cosf(x))
    STITCH_FUNCTION(htanh, tanhf(x))
    STITCH_FUNCTION(hfloor, floorf(x))
    STITCH_FUNCTION(hceil, ceilf(x))
    STITCH_FUNCTION(htrunc, truncf(x))
    STITCH_FUNCTION(hrint, nearbyintf(x))
#undef STITCH_FUNCTION
};

template <class Format>
struct alignas(4) SmallFloat2 {
    typedef SmallFloat<Format> S;
    S x, y;

    SmallFloat2() = default;
    SmallFloat2(const S& a, const S& b) : x(a), y(b) {}

#define STITCH_BINARY(OP, NAME)                                                                                             \
    friend SmallFloat2 operator OP(const SmallFloat2& a, const SmallFloat2& b) { return {a.x OP b.x, a.y OP b.y}; }         \
    friend SmallFloat2 NAME(const SmallFloat2& a, const SmallFloat2& b) { return {a.x OP b.x, a.y OP b.y}; }                \
    SmallFloat2& operator OP##=(const SmallFloat2& b) { return *this = *this OP b; }
    STITCH_BINARY(+, __hadd2)
    STITCH_BINARY(-, __hsub2)
    STITCH_BINARY(*, __hmul2)
    STITCH_BINARY(/, __h2div)
#undef STITCH_BINARY
    friend SmallFloat2 operator-(const SmallFloat2& a) { return {-a.x, -a.y}; }
    friend bool operator==(const SmallFloat2& a, const SmallFloat2& b) { return a.x == b.x && a.y == b.y; }
    friend bool operator!=(const SmallFloat2& a, const SmallFloat2& b) { return !(a == b); }
    friend SmallFloat2 __hfma2(const SmallFloat2& a, const SmallFloat2& b, const SmallFloat2& c) {
        return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
    }
    friend SmallFloat2 __hneg2(const SmallFloat2& a) { return -a; }
    friend SmallFloat2 __habs2(const SmallFloat2& a) { return {__habs(a.x), __habs(a.y)}; }
    friend SmallFloat2 __hmax2(const SmallFloat2& a, const SmallFloat2& b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
    friend SmallFloat2 __hmin2(const SmallFloat2& a, const SmallFloat2& b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
#define STITCH_FUNCTION(NAME) \
    friend SmallFloat2 h2##NAME(const SmallFloat2& a) { return {h##NAME(a.x), h##NAME(a.y)}; }
    STITCH_FUNCTION(exp)
    STITCH_FUNCTION(exp2)
    STITCH_FUNCTION(log)
    STITCH_FUNCTION(log2)
    STITCH_FUNCTION(sqrt)
    STITCH_FUNCTION(rsqrt)
    STITCH_FUNCTION(rcp)
    STITCH_FUNCTION(sin)
    STITCH_FUNCTION(cos)
    STITCH_FUNCTION(tanh)
#undef STITCH_FUNCTION
    friend float __low2float(const SmallFloat2& a) { return a.x; }
    friend float __high2float(const SmallFloat2& a) { return a.y; }
    friend SmallFloat2 __lowhigh2highlow(const SmallFloat2& a) { return {a.y, a.x}; }
    friend SmallFloat2 __lows2(const SmallFloat2& a, const SmallFloat2& b) { return {a.x, b.x}; }
};

}  // namespace stitch

typedef stitch::SmallFloat<stitch::HalfFormat> __half;
typedef stitch::SmallFloat2<stitch::HalfFormat> __half2;
typedef stitch::SmallFloat<stitch::BfloatFormat> __nv_bfloat16;
typedef stitch::SmallFloat2<stitch::BfloatFormat> __nv_bfloat162;
struct __half_raw { unsigned short x; };
struct __nv_bfloat16_raw { unsigned short x; };

inline __half __float2half(float x) { return __half(x); }
inline __half __float2half_rn(float x) { return __half(x); }
inline __half __double2half(double x) { return __half(x); }
inline float __half2float(__half x) { return x; }
inline __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline __half2 __half2half2(__half x) { return {x, x}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
inline __half2 __low2half2(__half2 v) { return {v.x, v.x}; }
inline __half2 __high2half2(__half2 v) { return {v.y, v.y}; }
inline __half __int2half_rn(int x) { return __half(x); }
inline __half __uint2half_rn(unsigned x) { return __half(x); }
inline __half __ll2half_rn(long long x) { return __half(x); }
inline int __half2int_rn(__half x) { return __float2int_rn(x); }
inline int __half2int_rz(__half x) { return __float2int_rz(x); }
inline unsigned __half2uint_rn(__half x) { return __float2uint_rn(x); }
inline __half __ushort_as_half(unsigned short bits) { return __half::from_bits(bits); }
inline __half __short_as_half(short bits) { return __half::from_bits(static_cast<unsigned short>(bits)); }
inline unsigned short __half_as_ushort(__half x) { return x.x_bits; }
inline short __half_as_short(__half x) { return static_cast<short>(x.x_bits); }

inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
inline float __bfloat162float(__nv_bfloat16 x) { return x; }
inline __nv_bfloat162 __float2bfloat162_rn(float x) { return {__nv_bfloat16(x), __nv_bfloat16(x)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
inline __nv_bfloat162 __low2bfloat162(__nv_bfloat162 v) { return {v.x, v.x}; }
inline __nv_bfloat162 __high2bfloat162(__nv_bfloat162 v) { return {v.y, v.y}; }
inline __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
inline int __bfloat162int_rn(__nv_bfloat16 x) { return __float2int_rn(x); }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16::from_bits(bits); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.x_bits; }
