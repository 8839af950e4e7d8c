// Views of a tensor's elements, and copies where no view will do.
#include "shapes.h"

namespace at {

using namespace stitch_detail;

static Tensor window(const Tensor& self, const Sizes& sizes, const Sizes& strides, int64_t offset = 0) {
  AtenTensorHandle handle = nullptr;
  require(aoti_torch__reinterpret_tensor(self.handle(), static_cast<int64_t>(sizes.size()), sizes.data(),
                                         strides.data(), offset, &handle),
          "a view of a tensor");
  return Tensor::steal(handle);
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::Contiguous) return is_contiguous();
  const IntArrayRef shape = sizes(), actual = strides();
  if (dim() != (format == MemoryFormat::ChannelsLast ? 4 : 5)) return false;
  const std::vector<int64_t> wanted = channels_last(shape);
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 && wanted[i] != actual[i]) return false;
  return true;
}
Tensor Tensor::contiguous(MemoryFormat format) const {
  if (is_contiguous(format)) return *this;
  Tensor result = at::empty(sizes(), options(), format);
  result.copy_(*this);
  return result;
}
Tensor Tensor::clone() const {
  AtenTensorHandle result = nullptr;
  require(aoti_torch_clone(handle(), &result), "a copy of a tensor");
  return steal(result);
}
Tensor Tensor::as_strided(IntArrayRef shape, IntArrayRef steps) const {
  return window(*this, shape.vec(), steps.vec());
}
Tensor Tensor::view(IntArrayRef shape) const {
  const std::vector<int64_t> wanted = inferred(shape, numel());
  std::vector<int64_t> steps;
  TORCH_CHECK(view_strides(*this, wanted, steps),
              "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
              "two contiguous subspaces). Use .reshape(...) instead.");
  return window(*this, wanted, steps);
}
Tensor Tensor::reshape(IntArrayRef shape) const {
  const std::vector<int64_t> wanted = inferred(shape, numel());
  std::vector<int64_t> steps;
  if (view_strides(*this, wanted, steps)) return window(*this, wanted, steps);
  return contiguous().view(wanted);
}
Tensor Tensor::flatten(int64_t from, int64_t to) const {
  if (dim() == 0) return reshape({1});
  const size_t first = axis_of(from, dim()), last = axis_of(to, dim());
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
Tensor Tensor::expand(IntArrayRef shape) const {
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
  return window(*this, wanted, steps);
}
Tensor Tensor::permute(IntArrayRef axes) const {
  TORCH_CHECK(static_cast<int64_t>(axes.size()) == dim(), "permute: number of axes does not match the rank ", dim());
  std::vector<int64_t> shape, steps;
  for (int64_t axis : axes) {
    shape.push_back(size(axis));
    steps.push_back(stride(axis));
  }
  return window(*this, shape, steps);
}
Tensor Tensor::transpose(int64_t a, int64_t b) const {
  if (dim() == 0) return *this;
  std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
  std::swap(shape[axis_of(a, dim())], shape[axis_of(b, dim())]);
  std::swap(steps[axis_of(a, dim())], steps[axis_of(b, dim())]);
  return window(*this, shape, steps);
}
Tensor Tensor::t() const {
  TORCH_CHECK(dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ", dim(), "D");
  return dim() < 2 ? *this : transpose(0, 1);
}
Tensor Tensor::unsqueeze(int64_t axis) const {
  const size_t where = axis_of(axis, dim() + 1);
  std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
  const int64_t step = where < shape.size() ? shape[where] * steps[where] : 1;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(where), 1);
  steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(where), step);
  return window(*this, shape, steps);
}
Tensor Tensor::squeeze() const {
  std::vector<int64_t> shape, steps;
  for (size_t i = 0; i < sizes().size(); ++i) {
    if (sizes()[i] == 1) continue;
    shape.push_back(sizes()[i]);
    steps.push_back(strides()[i]);
  }
  return window(*this, shape, steps);
}
Tensor Tensor::squeeze(int64_t axis) const {
  if (size(axis) != 1) return *this;
  std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
  const auto where = static_cast<std::ptrdiff_t>(axis_of(axis, dim()));
  shape.erase(shape.begin() + where);
  steps.erase(steps.begin() + where);
  return window(*this, shape, steps);
}
Tensor Tensor::slice(int64_t axis, int64_t start, int64_t end, int64_t step) const {
  const size_t where = axis_of(axis, dim());
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
  return window(*this, shape, steps, offset);
}
Tensor Tensor::narrow(int64_t axis, int64_t start, int64_t length) const {
  TORCH_CHECK(length >= 0 && start >= 0 && start + length <= size(axis), "start (", start, ") + length (", length,
              ") exceeds dimension size (", size(axis), ").");
  return slice(axis, start, start + length);
}
Tensor Tensor::select(int64_t axis, int64_t index) const {
  const int64_t length = size(axis);
  TORCH_CHECK_INDEX(index >= -length && index < length, "select(): index ", index, " out of range for tensor of size ",
                    sizes(), " at dimension ", axis);
  if (index < 0) index += length;
  return slice(axis, index, index + 1).squeeze(axis);
}
}  // namespace at
