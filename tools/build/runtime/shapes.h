// Sizes and strides: the arithmetic behind views and new tensors. For runtime/ only.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include <stitch_torch/ops.h>

#include "failure.h"

namespace at::stitch_detail {

using c10::stitch_detail::Raised;
using c10::stitch_detail::require;
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
inline size_t axis_of(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    c10::stitch_detail::fail(Raised::IndexError, "", "Dimension out of range (expected to be in range of [", -rank, ", ", rank - 1,
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
// New, uninitialised elements. A device index of -1 means the current device.
Tensor make(IntArrayRef sizes, IntArrayRef strides, ScalarType type, Device where);
}  // namespace at::stitch_detail
