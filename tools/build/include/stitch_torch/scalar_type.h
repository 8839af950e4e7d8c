// Element types, devices, layouts and the options of a new tensor.
#pragma once

#include <optional>

#include "check.h"
#include "numbers.h"

namespace c10 {

using std::nullopt;
using std::nullopt_t;
using std::optional;
template <class T>
constexpr auto make_optional(T&& value) {
  return std::make_optional(std::forward<T>(value));
}

// The numbers are those of torch; its C interface hands them out unchanged.
enum class ScalarType : int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  ComplexHalf = 8,
  ComplexFloat = 9,
  ComplexDouble = 10,
  Bool = 11,
  BFloat16 = 15,
  Float8_e5m2 = 23,
  Float8_e4m3fn = 24,
  UInt16 = 27,
  UInt32 = 28,
  UInt64 = 29,
};

const char* toString(ScalarType type);
size_t elementSize(ScalarType type);
#ifdef STITCH_PART_STD
inline std::ostream& operator<<(std::ostream& out, ScalarType type) { return out << toString(type); }
#endif
inline bool isFloatingType(ScalarType t) {
  return t == ScalarType::Half || t == ScalarType::Float || t == ScalarType::Double || t == ScalarType::BFloat16;
}
inline bool isIntegralType(ScalarType t, bool include_bool) {
  return (t >= ScalarType::Byte && t <= ScalarType::Long) || (include_bool && t == ScalarType::Bool);
}
template <class T>
struct CppTypeToScalarType;
template <ScalarType N>
struct ScalarTypeToCPPType;
#define STITCH_ELEMENT_TYPES(_) \
  _(uint8_t, Byte)              \
  _(int8_t, Char)               \
  _(int16_t, Short)             \
  _(int32_t, Int)               \
  _(int64_t, Long)              \
  _(Half, Half)                 \
  _(float, Float)               \
  _(double, Double)             \
  _(bool, Bool)                 \
  _(BFloat16, BFloat16)         \
  _(uint16_t, UInt16)           \
  _(uint32_t, UInt32)           \
  _(uint64_t, UInt64)
#define STITCH_ELEMENT(T, name)                                  \
  template <>                                                    \
  struct CppTypeToScalarType<T> {                                \
    static constexpr ScalarType value = ScalarType::name;        \
  };                                                             \
  template <>                                                    \
  struct ScalarTypeToCPPType<ScalarType::name> {                 \
    using type = T;                                              \
  };
STITCH_ELEMENT_TYPES(STITCH_ELEMENT)
#undef STITCH_ELEMENT
template <ScalarType N>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<N>::type;

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, Meta = 9 };
constexpr DeviceType kCPU = DeviceType::CPU;
constexpr DeviceType kCUDA = DeviceType::CUDA;
constexpr DeviceType kMeta = DeviceType::Meta;
using DeviceIndex = int8_t;

struct Device {
#ifdef STITCHCUDA_EMULATOR
  // There is host memory only, and it counts as the GPU's.
  Device(DeviceType, DeviceIndex = -1) : type_(DeviceType::CPU), index_(-1) {}
#else
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
#endif
  Device(const char* text);
  template <class Text, class = decltype(static_cast<const char*>(std::declval<const Text&>().c_str()))>
  Device(const Text& text) : Device(text.c_str()) {}
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ >= 0; }
#ifdef STITCHCUDA_EMULATOR
  bool is_cuda() const { return true; }
#else
  bool is_cuda() const { return type_ == DeviceType::CUDA; }
#endif
  bool is_cpu() const { return type_ == DeviceType::CPU; }
  bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const { return !(*this == other); }
#ifdef STITCH_PART_STRING
  std::string str() const { return c10::str(*this); }
#endif

 private:
  DeviceType type_;
  DeviceIndex index_;
};
#ifdef STITCH_PART_STD
inline std::ostream& operator<<(std::ostream& out, DeviceType type) { return out << str(type); }
inline std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }
#endif

enum class Layout : int8_t { Strided = 0 };
constexpr Layout kStrided = Layout::Strided;
enum class MemoryFormat : int8_t { Contiguous = 0, Preserve = 1, ChannelsLast = 2, ChannelsLast3d = 3 };

struct TensorOptions {
  TensorOptions() = default;
  TensorOptions(ScalarType type) : dtype_(type) {}
  TensorOptions(DeviceType type) : device_(Device(type)) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(Layout) {}
  TensorOptions(MemoryFormat format) : format_(format) {}
  [[nodiscard]] TensorOptions dtype(std::optional<ScalarType> type) const {
    TensorOptions result = *this;
    result.dtype_ = type;
    return result;
  }
  template <class T>
  [[nodiscard]] TensorOptions dtype() const {
    return dtype(CppTypeToScalarType<T>::value);
  }
  [[nodiscard]] TensorOptions device(Device device) const {
    TensorOptions result = *this;
    result.device_ = device;
    return result;
  }
  [[nodiscard]] TensorOptions device(DeviceType type, DeviceIndex index = -1) const {
    return device(Device(type, index));
  }
  [[nodiscard]] TensorOptions device_index(DeviceIndex index) const { return device(Device(DeviceType::CUDA, index)); }
  [[nodiscard]] TensorOptions layout(Layout) const { return *this; }
  [[nodiscard]] TensorOptions requires_grad(bool wanted) const {
    TORCH_CHECK(!wanted, "requires_grad is not supported for tensors made in an extension");
    return *this;
  }
  [[nodiscard]] TensorOptions memory_format(MemoryFormat format) const {
    TensorOptions result = *this;
    result.format_ = format;
    return result;
  }
  ScalarType dtype() const { return dtype_.value_or(ScalarType::Float); }
  Device device() const { return device_.value_or(Device(DeviceType::CPU)); }
  Layout layout() const { return Layout::Strided; }
  bool requires_grad() const { return false; }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_device() const { return device_.has_value(); }
  std::optional<MemoryFormat> memory_format_opt() const { return format_; }
  TensorOptions merge_in(const TensorOptions& other) const {
    TensorOptions result = *this;
    if (other.dtype_) result.dtype_ = other.dtype_;
    if (other.device_) result.device_ = other.device_;
    if (other.format_) result.format_ = other.format_;
    return result;
  }

 private:
  std::optional<ScalarType> dtype_;
  std::optional<Device> device_;
  std::optional<MemoryFormat> format_;
};
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions device(Device where) { return TensorOptions(where); }
inline TensorOptions layout(Layout) { return TensorOptions(); }
inline TensorOptions requires_grad(bool wanted = true) { return TensorOptions().requires_grad(wanted); }

constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = ScalarType::Byte;
constexpr ScalarType kChar = ScalarType::Char, kInt8 = ScalarType::Char;
constexpr ScalarType kShort = ScalarType::Short, kInt16 = ScalarType::Short;
constexpr ScalarType kInt = ScalarType::Int, kInt32 = ScalarType::Int;
constexpr ScalarType kLong = ScalarType::Long, kInt64 = ScalarType::Long;
constexpr ScalarType kHalf = ScalarType::Half, kFloat16 = ScalarType::Half;
constexpr ScalarType kFloat = ScalarType::Float, kFloat32 = ScalarType::Float;
constexpr ScalarType kDouble = ScalarType::Double, kFloat64 = ScalarType::Double;
constexpr ScalarType kBFloat16 = ScalarType::BFloat16;
constexpr ScalarType kBool = ScalarType::Bool;
constexpr ScalarType kUInt16 = ScalarType::UInt16, kUInt32 = ScalarType::UInt32, kUInt64 = ScalarType::UInt64;
}  // namespace c10
