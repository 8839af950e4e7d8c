// at::Tensor over a handle of torch's C interface.
//
// Only what code around kernels uses. Anything else is missing on purpose: the builder then compiles the
// candidate against torch's own headers.
#pragma once

#include <utility>

#include "accessor.h"
#include "array_ref.h"
#include "scalar_type.h"

namespace at {

using namespace c10;

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) {
    if (other.handle_ != nullptr) STITCH_REQUIRE(aoti_torch_new_tensor_handle(other.handle_, &handle_));
  }
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(const Tensor& other) & {
    Tensor copy(other);
    std::swap(handle_, copy.handle_);
    return *this;
  }
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
  AtenTensorHandle handle() const {
    TORCH_CHECK(handle_ != nullptr, "an undefined Tensor was used");
    return handle_;
  }

  bool defined() const {
    bool result = false;
    if (handle_ != nullptr) STITCH_REQUIRE(aoti_torch_is_defined(handle_, &result));
    return result;
  }
  void reset() { Tensor().swap(*this); }
  void swap(Tensor& other) noexcept { std::swap(handle_, other.handle_); }
  bool is_same(const Tensor& other) const { return handle_ == other.handle_; }

  // --- shape ---
  int64_t dim() const {
    int64_t result = 0;
    STITCH_REQUIRE(aoti_torch_get_dim(handle(), &result));
    return result;
  }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const {
    int64_t result = 0;
    STITCH_REQUIRE(aoti_torch_get_numel(handle(), &result));
    return result;
  }
  IntArrayRef sizes() const {
    int64_t* result = nullptr;
    STITCH_REQUIRE(aoti_torch_get_sizes(handle(), &result));
    return IntArrayRef(result, static_cast<size_t>(dim()));
  }
  IntArrayRef strides() const {
    int64_t* result = nullptr;
    STITCH_REQUIRE(aoti_torch_get_strides(handle(), &result));
    return IntArrayRef(result, static_cast<size_t>(dim()));
  }
  int64_t size(int64_t axis) const { return sizes()[wrap(axis)]; }
  int64_t stride(int64_t axis) const { return strides()[wrap(axis)]; }
  int64_t storage_offset() const {
    int64_t result = 0;
    STITCH_REQUIRE(aoti_torch_get_storage_offset(handle(), &result));
    return result;
  }
  size_t element_size() const { return elementSize(scalar_type()); }
  size_t itemsize() const { return element_size(); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * element_size(); }
  bool is_contiguous() const {
    bool result = false;
    STITCH_REQUIRE(aoti_torch_is_contiguous(handle(), &result));
    return result;
  }
  bool is_contiguous(MemoryFormat format) const;

  // --- kind ---
  ScalarType scalar_type() const {
    int32_t result = 0;
    STITCH_REQUIRE(aoti_torch_get_dtype(handle(), &result));
    return static_cast<ScalarType>(result);
  }
  ScalarType dtype() const { return scalar_type(); }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  Device device() const {
    int32_t type = 0, index = 0;
    STITCH_REQUIRE(aoti_torch_get_device_type(handle(), &type));
    STITCH_REQUIRE(aoti_torch_get_device_index(handle(), &index));
    return Device(static_cast<DeviceType>(type), static_cast<DeviceIndex>(index));
  }
  DeviceIndex get_device() const { return device().index(); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_cpu() const { return device().is_cpu(); }
  Layout layout() const { return Layout::Strided; }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()); }

  // --- data ---
  void* data_ptr() const {
    void* result = nullptr;
    STITCH_REQUIRE(aoti_torch_get_data_ptr(handle(), &result));
    return result;
  }
  const void* const_data_ptr() const { return data_ptr(); }
  void* mutable_data_ptr() const { return data_ptr(); }
  template <class T>
  T* data_ptr() const {
    using Plain = std::remove_const_t<T>;
    const ScalarType wanted = CppTypeToScalarType<Plain>::value;
    TORCH_CHECK(scalar_type() == wanted, "expected scalar type ", wanted, " but found ", scalar_type());
    return static_cast<T*>(data_ptr());
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
  template <class T>
  T item() const;
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    check_rank<N>("accessor");
    return TensorAccessor<T, N>(data_ptr<T>(), sizes().data(), strides().data());
  }
  template <class T, size_t N, template <class U> class Traits = DefaultPtrTraits, class index_t = int64_t>
  GenericPackedTensorAccessor<T, N, Traits, index_t> generic_packed_accessor() const& {
    check_rank<N>("packed_accessor");
    return GenericPackedTensorAccessor<T, N, Traits, index_t>(data_ptr<std::remove_const_t<T>>(), sizes().data(),
                                                              strides().data());
  }
  template <class T, size_t N, template <class U> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, Traits> packed_accessor32() const& {
    TORCH_CHECK(numel() <= 2147483647, "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
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

  // --- new tensors; defined in ops.h ---
  Tensor contiguous() const;
  Tensor contiguous(MemoryFormat format) const;
  Tensor clone() const;
  Tensor detach() const { return *this; }
  Tensor view(IntArrayRef sizes) const;
  Tensor reshape(IntArrayRef sizes) const;
  Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  Tensor reshape_as(const Tensor& other) const { return reshape(other.sizes()); }
  Tensor flatten(int64_t from = 0, int64_t to = -1) const;
  Tensor as_strided(IntArrayRef sizes, IntArrayRef strides) const;
  Tensor expand(IntArrayRef sizes) const;
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
  Tensor cpu() const;
  const Tensor& zero_() const {
    STITCH_REQUIRE(aoti_torch_zero_(handle()));
    return *this;
  }
  const Tensor& fill_(double value) const {
    STITCH_REQUIRE(aoti_torch_aten_fill__Scalar(handle(), value));
    return *this;
  }
  const Tensor& copy_(const Tensor& source, bool non_blocking = false) const {
    STITCH_REQUIRE(aoti_torch_copy_(handle(), source.handle(), non_blocking));
    return *this;
  }
  Tensor new_empty(IntArrayRef sizes) const;
  Tensor new_empty(IntArrayRef sizes, const TensorOptions& options) const;
  Tensor new_zeros(IntArrayRef sizes) const;
  Tensor new_zeros(IntArrayRef sizes, const TensorOptions& options) const;
  // through the dispatcher
  Tensor sum() const;
  Tensor relu() const;
  Tensor exp() const;
  Tensor matmul(const Tensor& other) const;
  Tensor mm(const Tensor& other) const;
  Tensor bmm(const Tensor& other) const;

 private:
  size_t wrap(int64_t axis) const {
    const int64_t rank = dim();
    if (axis < -rank || axis >= rank) {
      stitch_detail::fail<IndexError>("", "Dimension out of range (expected to be in range of [", -rank, ", ", rank - 1,
                                      "], but got ", axis, ")");
    }
    return static_cast<size_t>(axis < 0 ? axis + rank : axis);
  }
  template <size_t N>
  void check_rank(const char* what) const {
    static_assert(N > 0, "accessor is used for indexing tensor, for scalars use *data_ptr<T>()");
    TORCH_CHECK(dim() == static_cast<int64_t>(N), what, " expected ", N, " dims but tensor has ", dim());
  }
  AtenTensorHandle handle_ = nullptr;
};

using TensorList = ArrayRef<Tensor>;
using ITensorListRef = TensorList;
inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Device>(tensor.device()) : std::nullopt;
}
}  // namespace at
