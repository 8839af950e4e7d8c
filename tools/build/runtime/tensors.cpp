// What a tensor is, and new ones.
#include <cstring>


#include "shapes.h"

namespace at {

using namespace stitch_detail;

Tensor::Tensor(const Tensor& other) {
  if (other.handle_ != nullptr) require(aoti_torch_new_tensor_handle(other.handle_, &handle_), "a handle of a tensor");
}
Tensor& Tensor::operator=(const Tensor& other) & {
  Tensor copy(other);
  std::swap(handle_, copy.handle_);
  return *this;
}
AtenTensorHandle Tensor::handle() const {
  TORCH_CHECK(handle_ != nullptr, "an undefined Tensor was used");
  return handle_;
}
bool Tensor::defined() const {
  bool result = false;
  if (handle_ != nullptr) require(aoti_torch_is_defined(handle_, &result), "a property of a tensor");
  return result;
}

// Properties that the C interface gives one by one.
template <class T>
static T asked(int32_t (*property)(AtenTensorHandle, T*), AtenTensorHandle handle) {
  T result{};
  require(property(handle, &result), "a property of a tensor");
  return result;
}
int64_t Tensor::dim() const { return asked(aoti_torch_get_dim, handle()); }
int64_t Tensor::numel() const { return asked(aoti_torch_get_numel, handle()); }
IntArrayRef Tensor::sizes() const {
  return IntArrayRef(asked(aoti_torch_get_sizes, handle()), static_cast<size_t>(dim()));
}
IntArrayRef Tensor::strides() const {
  return IntArrayRef(asked(aoti_torch_get_strides, handle()), static_cast<size_t>(dim()));
}
int64_t Tensor::size(int64_t axis) const { return sizes()[axis_of(axis, dim())]; }
int64_t Tensor::stride(int64_t axis) const { return strides()[axis_of(axis, dim())]; }
int64_t Tensor::storage_offset() const { return asked(aoti_torch_get_storage_offset, handle()); }
bool Tensor::is_contiguous() const { return asked(aoti_torch_is_contiguous, handle()); }
ScalarType Tensor::scalar_type() const { return static_cast<ScalarType>(asked(aoti_torch_get_dtype, handle())); }
Device Tensor::device() const {
  return Device(static_cast<DeviceType>(asked(aoti_torch_get_device_type, handle())),
                static_cast<DeviceIndex>(asked(aoti_torch_get_device_index, handle())));
}
void* Tensor::data_ptr() const { return asked(aoti_torch_get_data_ptr, handle()); }
void* Tensor::data_of(ScalarType wanted) const {
  TORCH_CHECK(scalar_type() == wanted, "expected scalar type ", wanted, " but found ", scalar_type());
  return data_ptr();
}
void Tensor::check_rank(size_t rank, const char* what) const {
  TORCH_CHECK(dim() == static_cast<int64_t>(rank), what, " expected ", rank, " dims but tensor has ", dim());
}
void Tensor::check_index32() const {
  TORCH_CHECK(numel() <= 2147483647,
              "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
}
std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Device>(tensor.device()) : std::nullopt;
}
const Tensor& Tensor::zero_() const {
  require(aoti_torch_zero_(handle()), "zero_");
  return *this;
}
const Tensor& Tensor::fill_(const Scalar& value) const {
  require(aoti_torch_aten_fill__Scalar(handle(), value.toDouble()), "fill_");
  return *this;
}
const Tensor& Tensor::copy_(const Tensor& source, bool non_blocking) const {
  require(aoti_torch_copy_(handle(), source.handle(), non_blocking), "copy_");
  return *this;
}
Scalar Tensor::item() const {
  TORCH_CHECK(numel() == 1, "a Tensor with ", numel(), " elements cannot be converted to Scalar");
  if (isFloatingType(scalar_type())) {
    double value = 0;
    require(aoti_torch_item_float64(to(ScalarType::Double).handle(), &value), "item()");
    return value;
  }
  int64_t value = 0;
  require(aoti_torch_item_int64(to(ScalarType::Long).handle(), &value), "item()");
  return scalar_type() == ScalarType::Bool ? Scalar(value != 0) : Scalar(value);
}

Tensor stitch_detail::make(IntArrayRef sizes, IntArrayRef strides, ScalarType type, Device where) {
  for (int64_t size : sizes) TORCH_CHECK(size >= 0, "Trying to create tensor with negative dimension ", size, ": ", sizes);
  AtenTensorHandle handle = nullptr;
  const int32_t status =
      aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
                               static_cast<int32_t>(type), static_cast<int32_t>(where.type()), where.index(), &handle);
  if (status != 0) {
    int64_t last = 0, wanted_bytes = 0;
    bool empty = false, huge = false;
    for (size_t i = 0; i < sizes.size(); ++i) {
      empty = empty || sizes[i] == 0;
      int64_t step = 0;
      huge = __builtin_mul_overflow(std::max<int64_t>(sizes[i] - 1, 0), strides[i], &step) ||
             __builtin_add_overflow(last, step, &last) || huge;
    }
    huge = __builtin_mul_overflow(last + 1, static_cast<int64_t>(elementSize(type)), &wanted_bytes) || huge;
    c10::stitch_detail::refused_memory(empty ? 0 : huge ? INT64_MAX : wanted_bytes, where);
  }
  return Tensor::steal(handle);
}

Tensor empty(IntArrayRef sizes, const TensorOptions& options, std::optional<MemoryFormat> format) {
  const MemoryFormat chosen = format.value_or(options.memory_format_opt().value_or(MemoryFormat::Contiguous));
  return make(sizes, strides_for(sizes, chosen), options.dtype(), options.device());
}
Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options) {
  return make(sizes, strides, options.dtype(), options.device());
}
Tensor empty_like(const Tensor& self, const TensorOptions& options, std::optional<MemoryFormat> format) {
  const TensorOptions merged = self.options().merge_in(options);
  const MemoryFormat chosen = format.value_or(options.memory_format_opt().value_or(MemoryFormat::Preserve));
  return make(self.sizes(),
                             chosen == MemoryFormat::Preserve ? dense_like(self)
                                                              : strides_for(self.sizes(), chosen),
                             merged.dtype(), merged.device());
}
Tensor zeros(IntArrayRef sizes, const TensorOptions& options) {
  Tensor result = empty(sizes, options);
  result.zero_();
  return result;
}
Tensor zeros_like(const Tensor& self, const TensorOptions& options, std::optional<MemoryFormat> format) {
  Tensor result = empty_like(self, options, format);
  result.zero_();
  return result;
}
Tensor full(IntArrayRef sizes, const Scalar& value, const TensorOptions& options) {
  const ScalarType own = value.isFloatingPoint() ? ScalarType::Float : value.type();
  Tensor result = empty(sizes, options.has_dtype() ? options : options.dtype(own));
  result.fill_(value);
  return result;
}
Tensor full_like(const Tensor& self, const Scalar& value, const TensorOptions& options,
                 std::optional<MemoryFormat> format) {
  Tensor result = empty_like(self, options, format);
  result.fill_(value);
  return result;
}
Tensor ones(IntArrayRef sizes, const TensorOptions& options) { return full(sizes, 1.0, options); }
Tensor ones_like(const Tensor& self, const TensorOptions& options, std::optional<MemoryFormat> format) {
  return full_like(self, 1.0, options, format);
}
Tensor Tensor::new_empty(IntArrayRef sizes, const TensorOptions& extra) const {
  return at::empty(sizes, options().merge_in(extra));
}
Tensor Tensor::new_zeros(IntArrayRef sizes, const TensorOptions& extra) const {
  return at::zeros(sizes, options().merge_in(extra));
}

Tensor Tensor::to(Device where, ScalarType type, bool non_blocking, bool copy) const {
  const Device here = device();
  const bool stays = here.type() == where.type() && (!where.has_index() || where.index() == here.index());
  if (stays && type == scalar_type() && !copy) return *this;
  Tensor result = make(sizes(), dense_like(*this), type, stays ? here : where);
  result.copy_(*this, non_blocking);
  return result;
}
Tensor Tensor::to(ScalarType type, bool non_blocking, bool copy) const { return to(device(), type, non_blocking, copy); }
Tensor Tensor::to(Device where, bool non_blocking, bool copy) const {
  return to(where, scalar_type(), non_blocking, copy);
}
Tensor Tensor::to(const TensorOptions& wanted, bool non_blocking, bool copy) const {
  const TensorOptions merged = options().merge_in(wanted);
  return to(merged.device(), merged.dtype(), non_blocking, copy);
}
}  // namespace at
