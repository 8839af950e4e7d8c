// The arguments of a message in a form that compiled code can join: no stream is instantiated at a check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "parts.h"

#ifdef STITCH_PART_STD
#include <sstream>
#endif

namespace c10 {
enum class ScalarType : int8_t;
enum class DeviceType : int8_t;
struct Device;
template <class T>
class ArrayRef;

namespace stitch_detail {

struct Piece {
  enum class Kind : char { text, whole, natural, real, letter, pointer, type, device_type, device, sizes, reals, stream };
  using Writer = void (*)(void* stream, const void* value);

  Kind kind;
  int64_t count = 0;
  union {
    const void* pointer;
    int64_t whole;
    uint64_t natural;
    double real;
  };
  Writer writer = nullptr;

  Piece(const char* value) : kind(Kind::text), count(-1), pointer(value) {}
  Piece(char value) : kind(Kind::letter), whole(value) {}
  Piece(ScalarType value) : kind(Kind::type), whole(static_cast<int64_t>(value)) {}
  Piece(DeviceType value) : kind(Kind::device_type), whole(static_cast<int64_t>(value)) {}
  Piece(const Device& value) : kind(Kind::device), pointer(&value) {}
  Piece(const ArrayRef<int64_t>& value);  // in array_ref.h
  Piece(const ArrayRef<double>& value);
  template <class T>
  Piece(const T& value) {
    if constexpr (std::is_integral_v<T> || (std::is_enum_v<T> && std::is_convertible_v<T, int64_t>)) {
      if constexpr (std::is_signed_v<T>) {
        kind = Kind::whole;
        whole = static_cast<int64_t>(value);
      } else {
        kind = Kind::natural;
        natural = static_cast<uint64_t>(value);
      }
    } else if constexpr (std::is_floating_point_v<T>) {
      kind = Kind::real;
      real = static_cast<double>(value);
    } else if constexpr (std::is_convertible_v<const T&, const char*>) {
      kind = Kind::text;
      count = -1;
      pointer = static_cast<const char*>(value);
    } else if constexpr (std::is_pointer_v<T>) {
      kind = Kind::pointer;
      pointer = value;
    } else if constexpr (is_text<T>(0)) {
      kind = Kind::text;
      count = static_cast<int64_t>(value.size());
      pointer = value.data();
    } else if constexpr (std::is_class_v<T> && std::is_convertible_v<const T&, float>) {
      kind = Kind::real;
      real = static_cast<float>(value);
    } else {
#ifdef STITCH_PART_STD
      kind = Kind::stream;
      pointer = &value;
      writer = [](void* out, const void* from) { *static_cast<std::ostream*>(out) << *static_cast<const T*>(from); };
#else
      static_assert(std::is_void_v<T>, "stitch: no light printing for this type");
#endif
    }
  }

 private:
  template <class T, class = std::enable_if_t<std::is_same_v<decltype(std::declval<const T&>().data()), const char*>>>
  static constexpr bool is_text(int) {
    return true;
  }
  template <class T>
  static constexpr bool is_text(...) {
    return false;
  }
};

// The joined text, to be given to `free`.
char* joined(const Piece* pieces, size_t count);
}  // namespace stitch_detail
}  // namespace c10
