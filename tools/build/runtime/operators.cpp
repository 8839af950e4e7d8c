// Some of torch's operators, through its dispatcher.
#include <cstring>
#include <new>


#include "shapes.h"

namespace at {

using namespace stitch_detail;

namespace {
// One argument on the dispatcher's stack, which takes over the handles of tensors.
struct StackItem {
  uint64_t bits = 0;
  StackItem(const Tensor& tensor) {
    const AtenTensorHandle handle = Tensor(tensor).release();
    std::memcpy(&bits, &handle, sizeof(handle));
  }
  StackItem(int64_t value) { std::memcpy(&bits, &value, sizeof(value)); }
  StackItem(bool value) { std::memcpy(&bits, &value, sizeof(value)); }
  StackItem(std::nullopt_t) {}
  // An optional value lies in a word of its own, which torch deletes.
  StackItem(const std::optional<Tensor>& tensor) {
    if (!tensor.has_value() || !tensor->defined()) return;
    const auto* word = new uint64_t(StackItem(*tensor).bits);
    std::memcpy(&bits, &word, sizeof(word));
  }
#if STITCH_TORCH_MINOR >= 10
  StackItem(TensorList tensors) {
    StableListOpaque* list = nullptr;
    require(torch_new_list_reserve_size(tensors.size(), &list), "a list of tensors");
    for (const Tensor& tensor : tensors) require(torch_list_push_back(list, StackItem(tensor).bits), "a list of tensors");
    std::memcpy(&bits, &list, sizeof(list));
  }
#endif
};
template <class... Args>
Tensor call(const char* op, const char* overload, const Args&... args) {
  uint64_t stack[sizeof...(Args)] = {StackItem(args).bits...};
  require(aoti_torch_call_dispatcher(op, overload, stack), op);
  AtenTensorHandle handle = nullptr;
  std::memcpy(&handle, &stack[0], sizeof(handle));
  return Tensor::steal(handle);
}
// A number as a tensor without dimensions, of a type that does not change that of the result.
Tensor number(const Scalar& value, const Tensor& beside) {
  AtenTensorHandle handle = nullptr;
  const bool whole = !isFloatingType(beside.scalar_type());
  if (!value.isFloatingPoint()) {
    require(aoti_torch_scalar_to_tensor_int64(value.toLong(), &handle), "a number as a tensor");
  } else if (whole) {
    require(aoti_torch_scalar_to_tensor_float32(value.toFloat(), &handle), "a number as a tensor");
  } else {
    require(aoti_torch_scalar_to_tensor_float64(value.toDouble(), &handle), "a number as a tensor");
    if (beside.dim() == 0) return Tensor::steal(handle).to(beside.scalar_type());
  }
  return Tensor::steal(handle);
}
Tensor floating_sum(const Tensor& self, const Tensor& other, double sign) {
  AtenTensorHandle handle = nullptr;
  require(aoti_torch_aten_subtract_Tensor(self.handle(), other.handle(), -sign, &handle), "a sum of tensors");
  return Tensor::steal(handle);
}
// The C interface adds with a factor that integers refuse: their halves are added as floating-point numbers, exactly.
Tensor whole_sum(const Tensor& self, const Tensor& other) {
  const ScalarType type = call("aten::mul", "Tensor", self, other).scalar_type();
  const Tensor a = self.to(ScalarType::Long), b = other.to(ScalarType::Long);
  const Tensor mask = number(int64_t{0xffffffff}, a), half = number(int64_t{32}, a);
  const auto real = [](const Tensor& x) { return x.to(ScalarType::Double); };
  const auto low = [&](const Tensor& x) { return call("aten::bitwise_and", "Tensor", x, mask); };
  const auto high = [&](const Tensor& x) { return call("aten::bitwise_right_shift", "Tensor", x, half); };
  const Tensor lows = floating_sum(real(low(a)), real(low(b)), 1.0).to(ScalarType::Long);
  const Tensor highs = floating_sum(floating_sum(real(high(a)), real(high(b)), 1.0), real(high(lows)), 1.0);
  const Tensor shifted = call("aten::bitwise_left_shift", "Tensor", highs.to(ScalarType::Long), half);
  return call("aten::bitwise_or", "Tensor", shifted, low(lows)).to(type);
}
Tensor plus(const Tensor& self, const Tensor& other, double sign) {
  if (isFloatingType(self.scalar_type()) || isFloatingType(other.scalar_type())) return floating_sum(self, other, sign);
  return whole_sum(self, sign > 0 ? other : neg(other));
}
}  // namespace

#define STITCH_UNARY(name) \
  Tensor name(const Tensor& self) { return call("aten::" #name, "", self); }
#define STITCH_BINARY(name, overload) \
  Tensor name(const Tensor& self, const Tensor& other) { return call("aten::" #name, overload, self, other); }
STITCH_UNARY(relu)
STITCH_UNARY(exp)
STITCH_UNARY(log)
STITCH_UNARY(sqrt)
STITCH_UNARY(rsqrt)
STITCH_UNARY(tanh)
STITCH_UNARY(sigmoid)
STITCH_UNARY(silu)
STITCH_UNARY(erf)
STITCH_UNARY(abs)
STITCH_UNARY(neg)
STITCH_UNARY(max)
STITCH_UNARY(min)
STITCH_BINARY(matmul, "")
STITCH_BINARY(mm, "")
STITCH_BINARY(bmm, "")
STITCH_BINARY(mv, "")
STITCH_BINARY(dot, "")
STITCH_BINARY(mul, "Tensor")
STITCH_BINARY(div, "Tensor")
STITCH_BINARY(maximum, "")
STITCH_BINARY(minimum, "")
Tensor sum(const Tensor& self) { return call("aten::sum", "", self, std::nullopt); }
Tensor mean(const Tensor& self) { return call("aten::mean", "", self, std::nullopt); }
Tensor softmax(const Tensor& self, int64_t axis) { return call("aten::softmax", "int", self, axis, std::nullopt); }
Tensor log_softmax(const Tensor& self, int64_t axis) {
  return call("aten::log_softmax", "int", self, axis, std::nullopt);
}
Tensor cumsum(const Tensor& self, int64_t axis) { return call("aten::cumsum", "", self, axis, std::nullopt); }
Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias) {
  return call("aten::linear", "", input, weight, bias);
}
#if STITCH_TORCH_MINOR >= 10
Tensor cat(TensorList tensors, int64_t axis) { return call("aten::cat", "", tensors, axis); }
Tensor stack(TensorList tensors, int64_t axis) { return call("aten::stack", "", tensors, axis); }
#endif
Tensor add(const Tensor& self, const Tensor& other) { return plus(self, other, 1.0); }
Tensor sub(const Tensor& self, const Tensor& other) { return plus(self, other, -1.0); }

#define STITCH_MEMBER(name) \
  Tensor Tensor::name() const { return at::name(*this); }
#define STITCH_MEMBER_OF_TWO(name) \
  Tensor Tensor::name(const Tensor& other) const { return at::name(*this, other); }
#define STITCH_MEMBER_WITH_NUMBER(name) \
  Tensor Tensor::name(const Scalar& other) const { return at::name(*this, number(other, *this)); }
STITCH_MEMBER(sum)
STITCH_MEMBER(mean)
STITCH_MEMBER(max)
STITCH_MEMBER(min)
STITCH_MEMBER(relu)
STITCH_MEMBER(exp)
STITCH_MEMBER(log)
STITCH_MEMBER(sqrt)
STITCH_MEMBER(rsqrt)
STITCH_MEMBER(tanh)
STITCH_MEMBER(sigmoid)
STITCH_MEMBER(abs)
STITCH_MEMBER(neg)
STITCH_MEMBER_OF_TWO(matmul)
STITCH_MEMBER_OF_TWO(mm)
STITCH_MEMBER_OF_TWO(bmm)
STITCH_MEMBER_OF_TWO(add)
STITCH_MEMBER_OF_TWO(sub)
STITCH_MEMBER_OF_TWO(mul)
STITCH_MEMBER_OF_TWO(div)
STITCH_MEMBER_WITH_NUMBER(add)
STITCH_MEMBER_WITH_NUMBER(sub)
STITCH_MEMBER_WITH_NUMBER(mul)
STITCH_MEMBER_WITH_NUMBER(div)
Tensor Tensor::softmax(int64_t axis) const { return at::softmax(*this, axis); }
Tensor Tensor::cumsum(int64_t axis) const { return at::cumsum(*this, axis); }
}  // namespace at
