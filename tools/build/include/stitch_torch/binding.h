// PYBIND11_MODULE without pybind11: each bound function becomes a record with a signature string and a C entry.
//
// The Python side (loader.py) reads `stitch_functions`, checks arguments against the signature and calls through
// plain C. Codes of a signature, arguments then '>' then the result:
//   T tensor   O tensor or None   L list of tensors   i d b s  int, float, bool, str
//   I D B  the same or None   v w  list of int, of float   h dtype   S number   n nothing   (..) tuple
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "call.h"
#include "tensor.h"

// Hidden, so that two extensions in one process never share a registry.
namespace stitch_torch __attribute__((visibility("hidden"))) {

inline std::vector<Function>& registry() {
  static std::vector<Function> functions;
  return functions;
}
inline char* keep(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}
// The status and the text of the exception that is being handled.
int caught(char** error);

template <class T>
struct always_false : std::false_type {};

// --- arguments ---
template <class T, class = void>
struct Argument {
  static_assert(always_false<T>::value, "stitch: no light binding for this argument type");
};
template <>
struct Argument<at::Tensor> {
  static constexpr char code[] = "T";
  at::Tensor value;
  explicit Argument(Value& from) : value(at::Tensor::steal(static_cast<AtenTensorHandle>(from.pointer))) {
    from.pointer = nullptr;
  }
};
template <>
struct Argument<std::optional<at::Tensor>> {
  static constexpr char code[] = "O";
  std::optional<at::Tensor> value;
  explicit Argument(Value& from) {
    if (from.code == 'N') return;
    value = at::Tensor::steal(static_cast<AtenTensorHandle>(from.pointer));
    from.pointer = nullptr;
  }
};
template <>
struct Argument<std::vector<at::Tensor>> {
  static constexpr char code[] = "L";
  std::vector<at::Tensor> value;
  explicit Argument(Value& from) {
    void** handles = static_cast<void**>(from.pointer);
    value.reserve(static_cast<size_t>(from.count));
    for (int64_t i = 0; i < from.count; ++i) {
      value.push_back(at::Tensor::steal(static_cast<AtenTensorHandle>(handles[i])));
      handles[i] = nullptr;
    }
  }
};
template <>
struct Argument<at::TensorList> : Argument<std::vector<at::Tensor>> {
  using Argument<std::vector<at::Tensor>>::Argument;
};
template <class T>
inline T narrowed(int64_t wide) {
  const T value = static_cast<T>(wide);
  if (static_cast<int64_t>(value) != wide) throw c10::TypeError("integer argument " + std::to_string(wide) + " is out of range");
  return value;
}
template <class T>
struct Argument<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static constexpr char code[] = "i";
  T value;
  explicit Argument(Value& from) : value(narrowed<T>(from.integer)) {}
};
template <class T>
struct Argument<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static constexpr char code[] = "d";
  T value;
  explicit Argument(Value& from) : value(static_cast<T>(from.real)) {}
};
template <>
struct Argument<bool> {
  static constexpr char code[] = "b";
  bool value;
  explicit Argument(Value& from) : value(from.integer != 0) {}
};
template <>
struct Argument<std::string> {
  static constexpr char code[] = "s";
  std::string value;
  explicit Argument(Value& from) : value(static_cast<const char*>(from.pointer), static_cast<size_t>(from.count)) {}
};
template <>
struct Argument<c10::ScalarType> {
  static constexpr char code[] = "h";
  c10::ScalarType value;
  explicit Argument(Value& from) : value(static_cast<c10::ScalarType>(from.integer)) {}
};
template <class T>
struct Argument<std::vector<T>, std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>>> {
  static constexpr bool whole = std::is_integral_v<T>;
  static constexpr char code[] = {whole ? 'v' : 'w', '\0'};
  std::vector<T> value;
  explicit Argument(Value& from) {
    for (int64_t i = 0; i < from.count; ++i) {
      if constexpr (whole) {
        value.push_back(narrowed<T>(static_cast<const int64_t*>(from.pointer)[i]));
      } else {
        value.push_back(static_cast<T>(static_cast<const double*>(from.pointer)[i]));
      }
    }
  }
};
template <>
struct Argument<c10::IntArrayRef> : Argument<std::vector<int64_t>> {
  using Argument<std::vector<int64_t>>::Argument;
};
template <>
struct Argument<c10::Scalar> {
  static constexpr char code[] = "S";
  c10::Scalar value;
  explicit Argument(Value& from)
      : value(from.code == 'd' ? c10::Scalar(from.real)
                               : from.code == 'b' ? c10::Scalar(from.integer != 0) : c10::Scalar(from.integer)) {}
};
template <class T>
struct Argument<std::optional<T>, std::enable_if_t<std::is_arithmetic_v<T>>> {
  static constexpr char code[] = {static_cast<char>(Argument<T>::code[0] - 'a' + 'A'), '\0'};
  std::optional<T> value;
  explicit Argument(Value& from) {
    if (from.code != 'N') value = Argument<T>(from).value;
  }
};

// --- results ---
template <class T, class = void>
struct Result {
  static_assert(always_false<T>::value, "stitch: no light binding for this result type");
};
inline Value whole_value(int64_t code, int64_t integer) {
  Value value{};
  value.code = code;
  value.integer = integer;
  return value;
}
template <>
struct Result<at::Tensor> {
  static std::string code() { return "T"; }
  static void give(at::Tensor tensor, std::vector<Value>& out) {
    Value value{};
    value.code = tensor.defined() ? 'T' : 'N';
    if (value.code == 'T') value.pointer = tensor.release();
    out.push_back(value);
  }
};
template <class T>
struct Result<T, std::enable_if_t<std::is_integral_v<T>>> {
  static std::string code() { return std::is_same_v<T, bool> ? "b" : "i"; }
  static void give(T value, std::vector<Value>& out) { out.push_back(whole_value(code()[0], static_cast<int64_t>(value))); }
};
template <class T>
struct Result<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static std::string code() { return "d"; }
  static void give(T real, std::vector<Value>& out) {
    Value value{};
    value.code = 'd';
    value.real = static_cast<double>(real);
    out.push_back(value);
  }
};
template <>
struct Result<std::string> {
  static std::string code() { return "s"; }
  static void give(const std::string& text, std::vector<Value>& out) {
    Value value{};
    value.code = 's';
    value.count = static_cast<int64_t>(text.size());
    value.pointer = keep(text);
    out.push_back(value);
  }
};
template <class T>
struct Result<std::optional<T>> {
  static std::string code() { return "?" + Result<T>::code(); }
  static void give(std::optional<T> value, std::vector<Value>& out) {
    if (value) {
      Result<T>::give(std::move(*value), out);
    } else {
      out.push_back(whole_value('N', 0));
    }
  }
};
template <class T>
struct Result<std::vector<T>> {
  static std::string code() { return "[" + Result<T>::code() + "]"; }
  static void give(std::vector<T> values, std::vector<Value>& out) {
    Value head{};
    head.code = '[';
    head.count = static_cast<int64_t>(values.size());
    out.push_back(head);
    for (auto&& value : values) Result<T>::give(std::move(value), out);
  }
};
template <class... T>
struct Result<std::tuple<T...>> {
  static std::string code() { return "(" + (Result<std::decay_t<T>>::code() + ... + std::string()) + ")"; }
  static void give(std::tuple<T...> values, std::vector<Value>& out) {
    Value head{};
    head.code = '(';
    head.count = sizeof...(T);
    out.push_back(head);
    std::apply([&](auto&&... value) { (Result<std::decay_t<T>>::give(std::move(value), out), ...); }, std::move(values));
  }
};
template <class A, class B>
struct Result<std::pair<A, B>> : Result<std::tuple<A, B>> {};

// --- calls ---
template <class R, class... Args>
struct Call {
  static const char* signature() {
    static const std::string text = [] {
      std::string codes;
      ((codes += Argument<std::decay_t<Args>>::code), ...);
      if constexpr (std::is_void_v<R>) return codes + ">n";
      else return codes + ">" + Result<std::decay_t<R>>::code();
    }();
    return text.c_str();
  }
  template <class F, size_t... I>
  static void run(F& function, Value* values, std::vector<Value>& out, std::index_sequence<I...>) {
    // Braces: converted from left to right.
    std::tuple<Argument<std::decay_t<Args>>...> held{Argument<std::decay_t<Args>>(values[I])...};
    (void)held;
    (void)values;
    if constexpr (std::is_void_v<R>) {
      function(static_cast<Args>(std::get<I>(held).value)...);
      out.push_back(whole_value('N', 0));
    } else {
      Result<std::decay_t<R>>::give(function(static_cast<Args>(std::get<I>(held).value)...), out);
    }
  }
  template <class F>
  static int entry(const Function* self, Value* values, Value** results, int64_t* count, char** error) {
    try {
      std::vector<Value> out;
      run(*static_cast<F*>(const_cast<void*>(self->target)), values, out, std::index_sequence_for<Args...>());
      *count = static_cast<int64_t>(out.size());
      *results = static_cast<Value*>(std::malloc(out.size() * sizeof(Value)));
      std::memcpy(*results, out.data(), out.size() * sizeof(Value));
      return 0;
    } catch (...) {
      return caught(error);
    }
  }
};
template <class F>
struct Shape : Shape<decltype(&F::operator())> {};
template <class R, class... Args>
struct Shape<R (*)(Args...)> {
  using type = Call<R, Args...>;
};
template <class R, class... Args>
struct Shape<R (*)(Args...) noexcept> : Shape<R (*)(Args...)> {};
template <class C, class R, class... Args>
struct Shape<R (C::*)(Args...) const> : Shape<R (*)(Args...)> {};
template <class C, class R, class... Args>
struct Shape<R (C::*)(Args...)> : Shape<R (*)(Args...)> {};

template <class T>
std::string default_text(const T& value) {
  if constexpr (std::is_same_v<T, bool>) return value ? "True" : "False";
  else if constexpr (std::is_same_v<T, std::nullopt_t> || std::is_same_v<T, std::nullptr_t>) return "None";
  else if constexpr (std::is_floating_point_v<T>) {
    char digits[40];
    std::snprintf(digits, sizeof(digits), "%.17g", static_cast<double>(value));
    return std::string("float('") + digits + "')";
  } else if constexpr (std::is_arithmetic_v<T>) return std::to_string(value);
  else if constexpr (std::is_convertible_v<T, std::string>) return "'" + std::string(value) + "'";
  else if constexpr (std::is_same_v<T, std::optional<at::Tensor>>) return "None";
  else static_assert(always_false<T>::value, "stitch: no light binding for this default value");
}
}  // namespace stitch_torch

namespace pybind11 {
struct arg_v {
  std::string name, value;
};
struct arg {
  std::string name;
  explicit arg(const char* text) : name(text) {}
  template <class T>
  arg_v operator=(const T& value) const {
    return {name, stitch_torch::default_text(std::decay_t<const T&>(value))};
  }
  arg& noconvert(bool = true) { return *this; }
  arg& none(bool = true) { return *this; }
};
inline std::nullopt_t none() { return std::nullopt; }
struct kw_only {};
namespace literals {
inline arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals
template <class... T>
struct call_guard {};
struct gil_scoped_release {};

class __attribute__((visibility("hidden"))) module_ {
 public:
  template <class F, class... Extra>
  module_& def(const char* name, F function, const Extra&... extra) {
    std::string doc, arguments;
    (note(extra, doc, arguments), ...);
    using Form = typename stitch_torch::Shape<std::decay_t<F>>::type;
    stitch_torch::registry().push_back({stitch_torch::keep(name), stitch_torch::keep(doc), Form::signature(), stitch_torch::keep(arguments),
                                  &Form::template entry<F>, new F(std::move(function))});
    return *this;
  }
  std::string& doc() { return doc_; }

 private:
  static void note(const char* text, std::string& doc, std::string&) { doc = text; }
  static void note(const arg& given, std::string&, std::string& all) { all += given.name + "\n"; }
  static void note(const arg_v& given, std::string&, std::string& all) { all += given.name + "=" + given.value + "\n"; }
  template <class... T>
  static void note(const call_guard<T...>&, std::string&, std::string&) {}
  std::string doc_;
};
using module = module_;
}  // namespace pybind11
namespace py = pybind11;

#define PYBIND11_MODULE(name, variable)                                        \
  static void stitch_bind(::pybind11::module_& variable);                      \
  [[maybe_unused]] static const bool stitch_bound = [] {                       \
    ::pybind11::module_ module;                                                \
    stitch_bind(module);                                                       \
    return true;                                                               \
  }();                                                                         \
  static void stitch_bind(::pybind11::module_& variable)

// One copy per extension: an inline C function with the same body in every file of it.
extern "C" __attribute__((visibility("default"), used)) inline const ::stitch_torch::Function* stitch_functions(int64_t* count) {
  *count = static_cast<int64_t>(::stitch_torch::registry().size());
  return ::stitch_torch::registry().data();
}
