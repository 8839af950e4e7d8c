// A few operators of torch through its dispatcher, for candidates that leave a GEMM to the library.
#pragma once

#include <cstring>

#include "ops.h"

namespace at {
namespace stitch_detail {

// One argument on the dispatcher's stack, which takes over the handles of tensors.
struct StackItem {
  uint64_t bits = 0;
  StackItem(const Tensor& tensor) {
    AtenTensorHandle handle = nullptr;
    STITCH_REQUIRE(aoti_torch_new_tensor_handle(tensor.handle(), &handle));
    std::memcpy(&bits, &handle, sizeof(handle));
  }
  StackItem(int64_t value) { std::memcpy(&bits, &value, sizeof(value)); }
  StackItem(double value) { std::memcpy(&bits, &value, sizeof(value)); }
  StackItem(bool value) { std::memcpy(&bits, &value, sizeof(value)); }
  StackItem(std::nullopt_t) {}
};
template <class... Args>
Tensor call(const char* op, const char* overload, const Args&... args) {
  uint64_t stack[sizeof...(Args)] = {StackItem(args).bits...};
  c10::stitch_detail::require(aoti_torch_call_dispatcher(op, overload, stack), op);
  AtenTensorHandle handle = nullptr;
  std::memcpy(&handle, &stack[0], sizeof(handle));
  return Tensor::steal(handle);
}
}  // namespace stitch_detail

#define STITCH_UNARY(name) \
  inline Tensor name(const Tensor& self) { return stitch_detail::call("aten::" #name, "", self); }
#define STITCH_BINARY(name) \
  inline Tensor name(const Tensor& self, const Tensor& other) { return stitch_detail::call("aten::" #name, "", self, other); }
STITCH_UNARY(relu)
STITCH_UNARY(exp)
STITCH_UNARY(log)
STITCH_UNARY(sqrt)
STITCH_UNARY(rsqrt)
STITCH_UNARY(tanh)
STITCH_UNARY(sigmoid)
STITCH_UNARY(silu)
STITCH_UNARY(abs)
STITCH_BINARY(matmul)
STITCH_BINARY(mm)
STITCH_BINARY(bmm)
STITCH_BINARY(mv)
STITCH_BINARY(dot)
#undef STITCH_UNARY
#undef STITCH_BINARY
inline Tensor sum(const Tensor& self) { return stitch_detail::call("aten::sum", "", self, std::nullopt); }
inline Tensor transpose(const Tensor& self, int64_t a, int64_t b) { return self.transpose(a, b); }

inline Tensor Tensor::sum() const { return at::sum(*this); }
inline Tensor Tensor::relu() const { return at::relu(*this); }
inline Tensor Tensor::exp() const { return at::exp(*this); }
inline Tensor Tensor::matmul(const Tensor& other) const { return at::matmul(*this, other); }
inline Tensor Tensor::mm(const Tensor& other) const { return at::mm(*this, other); }
inline Tensor Tensor::bmm(const Tensor& other) const { return at::bmm(*this, other); }
}  // namespace at
