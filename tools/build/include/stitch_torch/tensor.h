// at::Tensor over a handle of torch's C interface.
//
// Only what code around kernels uses. Anything else is missing on purpose: the builder then compiles the
// candidate against torch's own headers. What is only declared here is compiled once, in runtime/.
#pragma once

#include <utility>

#include "accessor.h"
#include "array_ref.h"
#include "scalar.h"
#include "scalar_type.h"

namespace at {

using namespace c10;

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(const Tensor& other) &;
  Tensor& operator=(Tensor&& other) & noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Tensor() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
  }
  // Takes over an owning handle.
  static Tensor steal(AtenTensorHandle handle) {
    Tensor result;
    result.handle_ = handle;
    return result;
  }
  AtenTensorHandle release() { return std::exchange(handle_, nullptr); }
  AtenTensorHandle handle() const;

  bool defined() const;
  void reset() { Tensor().swap(*this); }
  void swap(Tensor& other) noexcept { std::swap(handle_, other.handle_); }
  bool is_same(const Tensor& other) const { return handle_ == other.handle_; }

  // --- shape ---
  int64_t dim() const;
  int64_t ndimension() const { return dim(); }
  int64_t numel() const;
  IntArrayRef sizes() const;
  IntArrayRef strides() const;
  int64_t size(int64_t axis) const;
  int64_t stride(int64_t axis) const;
  int64_t storage_offset() const;
  size_t element_size() const { return elementSize(scalar_type()); }
  size_t itemsize() const { return element_size(); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * element_size(); }
  bool is_contiguous() const;
  bool is_contiguous(MemoryFormat format) const;

  // --- kind ---
  ScalarType scalar_type() const;
  ScalarType dtype() const { return scalar_type(); }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  Device device() const;
  DeviceIndex get_device() const { return device().index(); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_cpu() const { return device().is_cpu(); }
  Layout layout() const { return Layout::Strided; }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()); }

  // --- data ---
  void* data_ptr() const;
  void* data_of(ScalarType wanted) const;  // fails when the elements are of another type
  const void* const_data_ptr() const { return data_ptr(); }
  void* mutable_data_ptr() const { return data_ptr(); }
  template <class T>
  T* data_ptr() const {
    return static_cast<T*>(data_of(CppTypeToScalarType<std::remove_const_t<T>>::value));
  }
  template <class T>
  const std::remove_const_t<T>* const_data_ptr() const {
    return data_ptr<std::remove_const_t<T>>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  T* data() const {
    return data_ptr<T>();
  }
  Scalar item() const;
  template <class T>
  T item() const {
    return item().to<T>();
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    check_rank(N, "accessor");
    return TensorAccessor<T, N>(data_ptr<T>(), sizes().data(), strides().data());
  }
  template <class T, size_t N, template <class U> class Traits = DefaultPtrTraits, class index_t = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, index_t> generic_packed_accessor() const& {
    static_assert(N > 0, "accessor is used for indexing tensor, for scalars use *data_ptr<T>()");
    check_rank(N, "packed_accessor");
    return GenericPackedTensorAccessor<T, N, Traits, index_t>(data_ptr<std::remove_const_t<T>>(), sizes().data(),
                                                              strides().data());
  }
  template <class T, size_t N, template <class U> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, Traits> packed_accessor32() const& {
    check_index32();
    return generic_packed_accessor<T, N, Traits, int32_t>();
  }
  template <class T, size_t N, template <class U> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, Traits> packed_accessor64() const& {
    return generic_packed_accessor<T, N, Traits, int64_t>();
  }
  template <class T, size_t N, template <class U> class Traits = DefaultPtrTraits, class index_t = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, index_t> packed_accessor() const& {
    return generic_packed_accessor<T, N, Traits, index_t>();
  }

  // --- views and copies ---
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  Tensor clone() const;
  Tensor detach() const { return *this; }
  Tensor view(IntArrayRef sizes) const;
  Tensor reshape(IntArrayRef sizes) const;
  Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  Tensor reshape_as(const Tensor& other) const { return reshape(other.sizes()); }
  Tensor flatten(int64_t from = 0, int64_t to = -1) const;
  Tensor as_strided(IntArrayRef sizes, IntArrayRef strides) const;
  Tensor expand(IntArrayRef sizes) const;
  Tensor expand_as(const Tensor& other) const { return expand(other.sizes()); }
  Tensor permute(IntArrayRef axes) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor t() const;
  Tensor unsqueeze(int64_t axis) const;
  Tensor squeeze() const;
  Tensor squeeze(int64_t axis) const;
  Tensor select(int64_t axis, int64_t index) const;
  Tensor narrow(int64_t axis, int64_t start, int64_t length) const;
  Tensor slice(int64_t axis, int64_t start, int64_t end, int64_t step = 1) const;
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensor to(ScalarType type, bool non_blocking = false, bool copy = false) const;
  Tensor to(Device where, bool non_blocking = false, bool copy = false) const;
  Tensor to(const TensorOptions& options, bool non_blocking = false, bool copy = false) const;
  Tensor to(Device where, ScalarType type, bool non_blocking = false, bool copy = false) const;
  Tensor toType(ScalarType type) const { return to(type); }
  Tensor type_as(const Tensor& other) const { return to(other.options()); }
  Tensor cuda() const { return to(Device(DeviceType::CUDA)); }
  Tensor cpu() const { return to(Device(DeviceType::CPU)); }
  const Tensor& zero_() const;
  const Tensor& fill_(const Scalar& value) const;
  const Tensor& copy_(const Tensor& source, bool non_blocking = false) const;
  Tensor new_empty(IntArrayRef sizes, const TensorOptions& options = {}) const;
  Tensor new_zeros(IntArrayRef sizes, const TensorOptions& options = {}) const;

  // --- torch's operators ---
  Tensor sum() const;
  Tensor mean() const;
  Tensor max() const;
  Tensor min() const;
  Tensor relu() const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor abs() const;
  Tensor neg() const;
  Tensor softmax(int64_t axis) const;
  Tensor cumsum(int64_t axis) const;
  Tensor matmul(const Tensor& other) const;
  Tensor mm(const Tensor& other) const;
  Tensor bmm(const Tensor& other) const;
  Tensor add(const Tensor& other) const;
  Tensor add(const Scalar& other) const;
  Tensor sub(const Tensor& other) const;
  Tensor sub(const Scalar& other) const;
  Tensor mul(const Tensor& other) const;
  Tensor mul(const Scalar& other) const;
  Tensor div(const Tensor& other) const;
  Tensor div(const Scalar& other) const;

 private:
  void check_rank(size_t rank, const char* what) const;
  void check_index32() const;
  AtenTensorHandle handle_ = nullptr;
};

using TensorList = ArrayRef<Tensor>;
using ITensorListRef = TensorList;
std::optional<Device> device_of(const Tensor& tensor);

#define STITCH_OPERATOR(op, name)                                                                     \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return a.name(b); }                   \
  inline Tensor operator op(const Tensor& a, const Scalar& b) { return a.name(b); }
STITCH_OPERATOR(+, add)
STITCH_OPERATOR(-, sub)
STITCH_OPERATOR(*, mul)
STITCH_OPERATOR(/, div)
#undef STITCH_OPERATOR
inline Tensor operator+(const Scalar& a, const Tensor& b) { return b.add(a); }
inline Tensor operator*(const Scalar& a, const Tensor& b) { return b.mul(a); }
inline Tensor operator-(const Tensor& a) { return a.neg(); }
}  // namespace at
