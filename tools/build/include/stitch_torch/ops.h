// Making, viewing and converting tensors.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "tensor.h"

namespace at {
namespace stitch_detail {

using Sizes = std::vector<int64_t>;

inline Sizes row_major(IntArrayRef sizes) {
  Sizes strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}
// Channels-last: C runs fastest, then the spatial axes, then N.
inline Sizes channels_last(IntArrayRef sizes) {
  Sizes strides(sizes.size());
  strides[1] = 1;
  int64_t step = sizes[1];
  for (size_t i = sizes.size(); i-- > 2;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  strides[0] = step;
  return strides;
}
inline Sizes strides_for(IntArrayRef sizes, MemoryFormat format) {
  if (format == MemoryFormat::ChannelsLast || format == MemoryFormat::ChannelsLast3d) {
    TORCH_CHECK(sizes.size() == (format == MemoryFormat::ChannelsLast ? 4u : 5u),
                "required rank ", format == MemoryFormat::ChannelsLast ? 4 : 5, " tensor to use channels_last format");
    return channels_last(sizes);
  }
  return row_major(sizes);
}
// The dense strides whose order of axes is that of `like`: what "preserve format" gives.
inline Sizes dense_like(const Tensor& like) {
  const IntArrayRef sizes = like.sizes(), strides = like.strides();
  if (like.is_contiguous()) return row_major(sizes);
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  Sizes result(sizes.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    result[order[i]] = step;
    step *= std::max<int64_t>(sizes[order[i]], 1);
  }
  return result;
}
inline Tensor make(IntArrayRef sizes, IntArrayRef strides, ScalarType type, Device where) {
  for (int64_t size : sizes) TORCH_CHECK(size >= 0, "Trying to create tensor with negative dimension ", size, ": ", sizes);
  AtenTensorHandle handle = nullptr;
  // An index of -1 means the current device.
  STITCH_REQUIRE(aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
                                          static_cast<int32_t>(type), static_cast<int32_t>(where.type()), where.index(),
                                          &handle));
  return Tensor::steal(handle);
}
inline Tensor window(const Tensor& self, const Sizes& sizes, const Sizes& strides, int64_t offset = 0) {
  AtenTensorHandle handle = nullptr;
  STITCH_REQUIRE(aoti_torch__reinterpret_tensor(self.handle(), static_cast<int64_t>(sizes.size()), sizes.data(),
                                                strides.data(), offset, &handle));
  return Tensor::steal(handle);
}
inline size_t axis_of(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    c10::stitch_detail::fail<IndexError>("", "Dimension out of range (expected to be in range of [", -rank, ", ", rank - 1,
                                         "], but got ", axis, ")");
  }
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}
// `sizes` with its -1 replaced.
inline Sizes inferred(IntArrayRef sizes, int64_t numel) {
  Sizes result = sizes.vec();
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < result.size(); ++i) {
    if (result[i] == -1) {
      TORCH_CHECK(open < 0, "only one dimension can be inferred");
      open = static_cast<int64_t>(i);
    } else {
      known *= result[i];
    }
  }
  const bool fits = open < 0 ? known == numel : known != 0 && numel % known == 0;
  TORCH_CHECK(fits, "shape '", sizes, "' is invalid for input of size ", numel);
  if (open >= 0) result[static_cast<size_t>(open)] = numel / known;
  return result;
}
// Strides that show `self` under `sizes` without a copy; false where a copy is needed.
inline bool view_strides(const Tensor& self, const Sizes& sizes, Sizes& strides) {
  if (self.is_contiguous() || self.numel() == 0) {
    strides = row_major(sizes);
    return true;
  }
  const IntArrayRef old_sizes = self.sizes(), old_strides = self.strides();
  strides.assign(sizes.size(), 1);
  int64_t to = static_cast<int64_t>(sizes.size()) - 1;
  int64_t base = old_strides.back(), chunk = 1, seen = 1;
  for (int64_t from = static_cast<int64_t>(old_sizes.size()) - 1; from >= 0; --from) {
    chunk *= old_sizes[static_cast<size_t>(from)];
    const bool ends = from == 0 || (old_sizes[static_cast<size_t>(from - 1)] != 1 &&
                                    old_strides[static_cast<size_t>(from - 1)] != chunk * base);
    if (!ends) continue;
    while (to >= 0 && (seen < chunk || sizes[static_cast<size_t>(to)] == 1)) {
      strides[static_cast<size_t>(to)] = seen * base;
      seen *= sizes[static_cast<size_t>(to)];
      --to;
    }
    if (seen != chunk) return false;
    if (from > 0) {
      base = old_strides[static_cast<size_t>(from - 1)];
      chunk = seen = 1;
    }
  }
  return to == -1;
}
}  // namespace stitch_detail

// --- factories ---
inline Tensor empty(IntArrayRef sizes, const TensorOptions& options = {}, std::optional<MemoryFormat> format = {}) {
  const MemoryFormat chosen = format.value_or(options.memory_format_opt().value_or(MemoryFormat::Contiguous));
  return stitch_detail::make(sizes, stitch_detail::strides_for(sizes, chosen), options.dtype(), options.device());
}
inline Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {}) {
  return stitch_detail::make(sizes, strides, options.dtype(), options.device());
}
inline Tensor empty_like(const Tensor& self, const TensorOptions& options = {}, std::optional<MemoryFormat> format = {}) {
  const TensorOptions merged = self.options().merge_in(options);
  const MemoryFormat chosen = format.value_or(options.memory_format_opt().value_or(MemoryFormat::Preserve));
  return stitch_detail::make(self.sizes(),
                             chosen == MemoryFormat::Preserve ? stitch_detail::dense_like(self)
                                                              : stitch_detail::strides_for(self.sizes(), chosen),
                             merged.dtype(), merged.device());
}
inline Tensor zeros(IntArrayRef sizes, const TensorOptions& options = {}) {
  Tensor result = empty(sizes, options);
  result.zero_();
  return result;
}
template <class T>
Tensor full(IntArrayRef sizes, T value, TensorOptions options = {}) {
  static_assert(std::is_arithmetic_v<T>, "full takes a number");
  if (!options.has_dtype() && !std::is_floating_point_v<T>)
    options = options.dtype(std::is_same_v<T, bool> ? ScalarType::Bool : ScalarType::Long);
  Tensor result = empty(sizes, options);
  result.fill_(static_cast<double>(value));
  return result;
}
inline Tensor ones(IntArrayRef sizes, const TensorOptions& options = {}) { return full(sizes, 1.0, options.dtype(options.dtype())); }
inline Tensor zeros_like(const Tensor& self, const TensorOptions& options = {}, std::optional<MemoryFormat> format = {}) {
  Tensor result = empty_like(self, options, format);
  result.zero_();
  return result;
}
template <class T>
Tensor full_like(const Tensor& self, T value, const TensorOptions& options = {}, std::optional<MemoryFormat> format = {}) {
  Tensor result = empty_like(self, options, format);
  result.fill_(static_cast<double>(value));
  return result;
}
inline Tensor ones_like(const Tensor& self, const TensorOptions& options = {}, std::optional<MemoryFormat> format = {}) {
  return full_like(self, 1.0, options, format);
}

inline Tensor Tensor::new_empty(IntArrayRef sizes) const { return at::empty(sizes, options()); }
inline Tensor Tensor::new_empty(IntArrayRef sizes, const TensorOptions& extra) const {
  return at::empty(sizes, options().merge_in(extra));
}
inline Tensor Tensor::new_zeros(IntArrayRef sizes) const { return at::zeros(sizes, options()); }
inline Tensor Tensor::new_zeros(IntArrayRef sizes, const TensorOptions& extra) const {
  return at::zeros(sizes, options().merge_in(extra));
}

// --- layout ---
inline bool Tensor::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::Contiguous) return is_contiguous();
  const IntArrayRef shape = sizes(), actual = strides();
  if (dim() != (format == MemoryFormat::ChannelsLast ? 4 : 5)) return false;
  const std::vector<int64_t> wanted = stitch_detail::channels_last(shape);
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 && wanted[i] != actual[i]) return false;
  return true;
}
inline Tensor Tensor::contiguous() const { return contiguous(MemoryFormat::Contiguous); }
inline Tensor Tensor::contiguous(MemoryFormat format) const {
  if (is_contiguous(format)) return *this;
  Tensor result = at::empty(sizes(), options(), format);
  result.copy_(*this);
  return result;
}
inline Tensor Tensor::clone() const {
  AtenTensorHandle result = nullptr;
  STITCH_REQUIRE(aoti_torch_clone(handle(), &result));
  return steal(result);
}
inline Tensor Tensor::as_strided(IntArrayRef shape, IntArrayRef steps) const {
  return stitch_detail::window(*this, shape.vec(), steps.vec());
}
inline Tensor Tensor::view(IntArrayRef shape) const {
  const std::vector<int64_t> wanted = stitch_detail::inferred(shape, numel());
  std::vector<int64_t> steps;
  TORCH_CHECK(stitch_detail::view_strides(*this, wanted, steps),
              "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
              "two contiguous subspaces). Use .reshape(...) instead.");
  return stitch_detail::window(*this, wanted, steps);
}
inline Tensor Tensor::reshape(IntArrayRef shape) const {
  const std::vector<int64_t> wanted = stitch_detail::inferred(shape, numel());
  std::vector<int64_t> steps;
  if (stitch_detail::view_strides(*this, wanted, steps)) return stitch_detail::window(*this, wanted, steps);
  return contiguous().view(wanted);
}
inline Tensor Tensor::flatten(int64_t from, int64_t to) const {
  if (dim() == 0) return reshape({1});
  const size_t first = wrap(from), last = wrap(to);
  std::vector<int64_t> shape;
  for (size_t i = 0; i < sizes().size(); ++i) {
    if (i > first && i <= last) {
      shape.back() *= sizes()[i];
    } else {
      shape.push_back(sizes()[i]);
    }
  }
  return reshape(shape);
}
inline Tensor Tensor::expand(IntArrayRef shape) const {
  std::vector<int64_t> wanted = shape.vec(), steps(shape.size(), 0);
  const size_t extra = shape.size() - sizes().size();
  TORCH_CHECK(shape.size() >= sizes().size(), "expand: the number of sizes provided must be at least the number of dimensions");
  for (size_t i = extra; i < shape.size(); ++i) {
    const int64_t had = sizes()[i - extra];
    if (wanted[i] == -1) wanted[i] = had;
    TORCH_CHECK(wanted[i] == had || had == 1, "The expanded size of the tensor (", wanted[i],
                ") must match the existing size (", had, ") at non-singleton dimension ", i);
    steps[i] = wanted[i] == had ? strides()[i - extra] : 0;
  }
  return stitch_detail::window(*this, wanted, steps);
}
inline Tensor Tensor::permute(IntArrayRef axes) const {
  TORCH_CHECK(static_cast<int64_t>(axes.size()) == dim(), "permute: number of axes does not match the rank ", dim());
  std::vector<int64_t> shape, steps;
  for (int64_t axis : axes) {
    shape.push_back(size(axis));
    steps.push_back(stride(axis));
  }
  return stitch_detail::window(*this, shape, steps);
}
inline Tensor Tensor::transpose(int64_t a, int64_t b) const {
  if (dim() == 0) return *this;
  std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
  std::swap(shape[wrap(a)], shape[wrap(b)]);
  std::swap(steps[wrap(a)], steps[wrap(b)]);
  return stitch_detail::window(*this, shape, steps);
}
inline Tensor Tensor::t() const {
  TORCH_CHECK(dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ", dim(), "D");
  return dim() < 2 ? *this : transpose(0, 1);
}
inline Tensor Tensor::unsqueeze(int64_t axis) const {
  const size_t where = stitch_detail::axis_of(axis, dim() + 1);
  std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
  const int64_t step = where < shape.size() ? shape[where] * steps[where] : 1;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(where), 1);
  steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(where), step);
  return stitch_detail::window(*this, shape, steps);
}
inline Tensor Tensor::squeeze() const {
  std::vector<int64_t> shape, steps;
  for (size_t i = 0; i < sizes().size(); ++i) {
    if (sizes()[i] == 1) continue;
    shape.push_back(sizes()[i]);
    steps.push_back(strides()[i]);
  }
  return stitch_detail::window(*this, shape, steps);
}
inline Tensor Tensor::squeeze(int64_t axis) const {
  if (size(axis) != 1) return *this;
  std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
  const auto where = static_cast<std::ptrdiff_t>(wrap(axis));
  shape.erase(shape.begin() + where);
  steps.erase(steps.begin() + where);
  return stitch_detail::window(*this, shape, steps);
}
inline Tensor Tensor::slice(int64_t axis, int64_t start, int64_t end, int64_t step) const {
  const size_t where = wrap(axis);
  TORCH_CHECK(step > 0, "slice step must be positive");
  std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
  const int64_t length = shape[where];
  if (start < 0) start += length;
  if (end < 0) end += length;
  start = std::min(std::max<int64_t>(start, 0), length);
  end = std::min(std::max(end, start), length);
  shape[where] = (end - start + step - 1) / step;
  const int64_t offset = start * steps[where];
  steps[where] *= step;
  return stitch_detail::window(*this, shape, steps, offset);
}
inline Tensor Tensor::narrow(int64_t axis, int64_t start, int64_t length) const {
  TORCH_CHECK(length >= 0 && start >= 0 && start + length <= size(axis), "start (", start, ") + length (", length,
              ") exceeds dimension size (", size(axis), ").");
  return slice(axis, start, start + length);
}
inline Tensor Tensor::select(int64_t axis, int64_t index) const {
  const int64_t length = size(axis);
  TORCH_CHECK_INDEX(index >= -length && index < length, "select(): index ", index, " out of range for tensor of size ",
                    sizes(), " at dimension ", axis);
  if (index < 0) index += length;
  return slice(axis, index, index + 1).squeeze(axis);
}

// --- conversion ---
inline Tensor Tensor::to(Device where, ScalarType type, bool non_blocking, bool copy) const {
  const Device here = device();
  const bool stays = here.type() == where.type() && (!where.has_index() || where.index() == here.index());
  if (stays && type == scalar_type() && !copy) return *this;
  Tensor result = stitch_detail::make(sizes(), stitch_detail::dense_like(*this), type, stays ? here : where);
  result.copy_(*this, non_blocking);
  return result;
}
inline Tensor Tensor::to(ScalarType type, bool non_blocking, bool copy) const { return to(device(), type, non_blocking, copy); }
inline Tensor Tensor::to(Device where, bool non_blocking, bool copy) const {
  return to(where, scalar_type(), non_blocking, copy);
}
inline Tensor Tensor::to(const TensorOptions& wanted, bool non_blocking, bool copy) const {
  const TensorOptions merged = options().merge_in(wanted);
  return to(merged.device(), merged.dtype(), non_blocking, copy);
}
inline Tensor Tensor::cpu() const {
  return to(Device(DeviceType::CPU));
}
template <class T>
T Tensor::item() const {
  TORCH_CHECK(numel() == 1, "a Tensor with ", numel(), " elements cannot be converted to Scalar");
  const Tensor wide = to(isFloatingType(scalar_type()) ? ScalarType::Double : ScalarType::Long);
  if (wide.scalar_type() == ScalarType::Double) {
    double value = 0;
    STITCH_REQUIRE(aoti_torch_item_float64(wide.handle(), &value));
    return static_cast<T>(value);
  }
  int64_t value = 0;
  STITCH_REQUIRE(aoti_torch_item_int64(wide.handle(), &value));
  return static_cast<T>(value);
}
}  // namespace at
