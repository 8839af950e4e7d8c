// c10::Scalar: a number of any of the kinds that Python has.
#pragma once

#include <cstdint>
#include <type_traits>

#include "scalar_type.h"

namespace c10 {

class Scalar {
 public:
  Scalar() : Scalar(int64_t{0}) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>>>
  Scalar(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      type_ = ScalarType::Bool;
      whole_ = value;
    } else if constexpr (std::is_integral_v<T>) {
      type_ = ScalarType::Long;
      whole_ = static_cast<int64_t>(value);
    } else {
      type_ = ScalarType::Double;
      real_ = static_cast<double>(value);
    }
  }
  bool isFloatingPoint() const { return type_ == ScalarType::Double; }
  bool isBoolean() const { return type_ == ScalarType::Bool; }
  bool isIntegral(bool include_bool) const { return type_ == ScalarType::Long || (include_bool && isBoolean()); }
  ScalarType type() const { return type_; }
  template <class T>
  T to() const {
    return isFloatingPoint() ? static_cast<T>(real_) : static_cast<T>(whole_);
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int64_t toLong() const { return to<int64_t>(); }
  int toInt() const { return to<int>(); }
  bool toBool() const { return to<bool>(); }

 private:
  ScalarType type_;
  union {
    int64_t whole_;
    double real_;
  };
};
}  // namespace c10
