// c10::Half and c10::BFloat16: 16-bit storage, arithmetic in float, as torch has it.
#pragma once

#include "check.h"

namespace c10 {
struct Half;
struct BFloat16;
}  // namespace c10

#ifdef STITCH_PART_HALF
#include <cstdint>
#include <cstring>
#include <limits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace c10 {

struct alignas(2) Half {
  uint16_t x;
  struct from_bits_t {};
  static constexpr C10_HOST_DEVICE from_bits_t from_bits() { return from_bits_t(); }
  Half() = default;
  constexpr C10_HOST_DEVICE Half(uint16_t bits, from_bits_t) : x(bits) {}
  C10_HOST_DEVICE Half(float value) {
    const __half rounded = __float2half(value);
    memcpy(&x, &rounded, sizeof(x));
  }
  C10_HOST_DEVICE Half(const __half& value) { memcpy(&x, &value, sizeof(x)); }
  C10_HOST_DEVICE operator float() const { return __half2float(static_cast<__half>(*this)); }
  C10_HOST_DEVICE operator __half() const {
    __half result;
    memcpy(static_cast<void*>(&result), &x, sizeof(x));
    return result;
  }
};

struct alignas(2) BFloat16 {
  uint16_t x;
  struct from_bits_t {};
  static constexpr C10_HOST_DEVICE from_bits_t from_bits() { return from_bits_t(); }
  BFloat16() = default;
  constexpr C10_HOST_DEVICE BFloat16(uint16_t bits, from_bits_t) : x(bits) {}
  C10_HOST_DEVICE BFloat16(float value) {
    const __nv_bfloat16 rounded = __float2bfloat16(value);
    memcpy(&x, &rounded, sizeof(x));
  }
  C10_HOST_DEVICE BFloat16(const __nv_bfloat16& value) { memcpy(&x, &value, sizeof(x)); }
  C10_HOST_DEVICE operator float() const { return __bfloat162float(static_cast<__nv_bfloat16>(*this)); }
  C10_HOST_DEVICE operator __nv_bfloat16() const {
    __nv_bfloat16 result;
    memcpy(static_cast<void*>(&result), &x, sizeof(x));
    return result;
  }
};

// The same overload set as torch: two 16-bit operands give 16 bits, a wider partner wins.
#define STITCH_NUMBER_OPERATOR(T, op)                                                                                \
  inline C10_HOST_DEVICE T operator op(const T& a, const T& b) {                                                     \
    return static_cast<float>(a) op static_cast<float>(b);                                                           \
  }                                                                                                                  \
  inline C10_HOST_DEVICE T& operator op##=(T & a, const T & b) {                                                     \
    a = a op b;                                                                                                      \
    return a;                                                                                                        \
  }                                                                                                                  \
  inline C10_HOST_DEVICE float operator op(T a, float b) { return static_cast<float>(a) op b; }                      \
  inline C10_HOST_DEVICE float operator op(float a, T b) { return a op static_cast<float>(b); }                      \
  inline C10_HOST_DEVICE double operator op(T a, double b) { return static_cast<double>(static_cast<float>(a)) op b; } \
  inline C10_HOST_DEVICE double operator op(double a, T b) { return a op static_cast<double>(static_cast<float>(b)); } \
  inline C10_HOST_DEVICE T operator op(T a, int b) { return a op static_cast<T>(static_cast<float>(b)); }            \
  inline C10_HOST_DEVICE T operator op(int a, T b) { return static_cast<T>(static_cast<float>(a)) op b; }            \
  inline C10_HOST_DEVICE T operator op(T a, int64_t b) { return a op static_cast<T>(static_cast<float>(b)); }        \
  inline C10_HOST_DEVICE T operator op(int64_t a, T b) { return static_cast<T>(static_cast<float>(a)) op b; }        \
  inline C10_HOST_DEVICE float& operator op##=(float& a, const T & b) { return a op##= static_cast<float>(b); }
#define STITCH_NUMBER(T)                                                        \
  STITCH_NUMBER_OPERATOR(T, +)                                                  \
  STITCH_NUMBER_OPERATOR(T, -)                                                  \
  STITCH_NUMBER_OPERATOR(T, *)                                                  \
  STITCH_NUMBER_OPERATOR(T, /)                                                  \
  inline C10_HOST_DEVICE T operator-(const T& a) { return -static_cast<float>(a); }
STITCH_NUMBER(Half)
STITCH_NUMBER(BFloat16)
#undef STITCH_NUMBER
#undef STITCH_NUMBER_OPERATOR
#ifdef STITCH_PART_STD
inline std::ostream& operator<<(std::ostream& out, const Half& value) { return out << static_cast<float>(value); }
inline std::ostream& operator<<(std::ostream& out, const BFloat16& value) { return out << static_cast<float>(value); }
#endif

}  // namespace c10

#define STITCH_LIMITS(T, digits_, lowest_, max_, min_, epsilon_, infinity_, nan_)                         \
  template <>                                                                                            \
  class numeric_limits<T> {                                                                              \
   public:                                                                                               \
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false; \
    static constexpr bool has_infinity = true, has_quiet_NaN = true;                                     \
    static constexpr int digits = digits_, radix = 2;                                                    \
    static constexpr T lowest() { return T(lowest_, T::from_bits()); }                                   \
    static constexpr T max() { return T(max_, T::from_bits()); }                                         \
    static constexpr T min() { return T(min_, T::from_bits()); }                                         \
    static constexpr T epsilon() { return T(epsilon_, T::from_bits()); }                                 \
    static constexpr T infinity() { return T(infinity_, T::from_bits()); }                               \
    static constexpr T quiet_NaN() { return T(nan_, T::from_bits()); }                                   \
  };
namespace std {
STITCH_LIMITS(c10::Half, 11, 0xFBFF, 0x7BFF, 0x0400, 0x1400, 0x7C00, 0x7E00)
STITCH_LIMITS(c10::BFloat16, 8, 0xFF7F, 0x7F7F, 0x0080, 0x3C00, 0x7F80, 0x7FC0)
}  // namespace std
#undef STITCH_LIMITS
#endif  // STITCH_PART_HALF
