// New tensors, and a few of torch's operators for candidates that leave, say, a GEMM to the library.
#pragma once

#include "tensor.h"

namespace at {

Tensor empty(IntArrayRef sizes, const TensorOptions& options = {}, std::optional<MemoryFormat> format = {});
Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {});
Tensor empty_like(const Tensor& self, const TensorOptions& options = {}, std::optional<MemoryFormat> format = {});
Tensor zeros(IntArrayRef sizes, const TensorOptions& options = {});
Tensor zeros_like(const Tensor& self, const TensorOptions& options = {}, std::optional<MemoryFormat> format = {});
Tensor ones(IntArrayRef sizes, const TensorOptions& options = {});
Tensor ones_like(const Tensor& self, const TensorOptions& options = {}, std::optional<MemoryFormat> format = {});
Tensor full(IntArrayRef sizes, const Scalar& value, const TensorOptions& options = {});
Tensor full_like(const Tensor& self, const Scalar& value, const TensorOptions& options = {},
                 std::optional<MemoryFormat> format = {});

#define STITCH_UNARY(name) Tensor name(const Tensor& self);
#define STITCH_BINARY(name) Tensor name(const Tensor& self, const Tensor& other);
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
STITCH_UNARY(sum)
STITCH_UNARY(mean)
STITCH_UNARY(max)
STITCH_UNARY(min)
STITCH_BINARY(matmul)
STITCH_BINARY(mm)
STITCH_BINARY(bmm)
STITCH_BINARY(mv)
STITCH_BINARY(dot)
STITCH_BINARY(add)
STITCH_BINARY(sub)
STITCH_BINARY(mul)
STITCH_BINARY(div)
STITCH_BINARY(maximum)
STITCH_BINARY(minimum)
#undef STITCH_UNARY
#undef STITCH_BINARY
Tensor softmax(const Tensor& self, int64_t axis);
Tensor log_softmax(const Tensor& self, int64_t axis);
Tensor cumsum(const Tensor& self, int64_t axis);
Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias = {});
inline Tensor transpose(const Tensor& self, int64_t a, int64_t b) { return self.transpose(a, b); }
#if STITCH_TORCH_MINOR >= 10
Tensor cat(TensorList tensors, int64_t axis = 0);
Tensor stack(TensorList tensors, int64_t axis = 0);
#endif
}  // namespace at
