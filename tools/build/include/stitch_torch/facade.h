// What the light facade offers, under the names that candidates use; parts.h says which parts.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "parts.h"

#ifdef STITCH_PART_STD
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#endif

#include "dispatch.h"
#include "ops.h"

#ifdef STITCH_PART_BINDING
#include "binding.h"
#endif

namespace c10 {
template <class T>
using List = std::vector<T>;
#ifdef STITCH_PART_STD
using string_view = std::string_view;
#endif
}  // namespace c10

namespace at {
struct NoGradGuard {
  NoGradGuard() : before_(aoti_torch_grad_mode_is_enabled()) { aoti_torch_grad_mode_set_enabled(false); }
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;
  ~NoGradGuard() { aoti_torch_grad_mode_set_enabled(before_); }

 private:
  bool before_;
};
}  // namespace at

namespace torch {
using namespace at;
using Dtype = c10::ScalarType;
}  // namespace torch
