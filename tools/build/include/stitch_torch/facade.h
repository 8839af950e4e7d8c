// Everything that the light facade offers, under the names that candidates use.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "binding.h"
#include "dispatch.h"
#include "library.h"
#include "ops.h"

namespace c10 {
template <class T>
using List = std::vector<T>;
using string_view = std::string_view;
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
