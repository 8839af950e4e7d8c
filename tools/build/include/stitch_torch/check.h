// Errors and checks: TORCH_CHECK and its relatives, with the message as the user wrote it.
#pragma once

#include <cassert>
#include <sstream>
#include <stdexcept>
#include <string>

#include "shim.h"

namespace c10 {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
  const char* what_without_backtrace() const noexcept { return what(); }
};
class ValueError : public Error {
  using Error::Error;
};
class IndexError : public Error {
  using Error::Error;
};
class TypeError : public Error {
  using Error::Error;
};
class NotImplementedError : public Error {
  using Error::Error;
};

namespace stitch_detail {
template <class... Args>
std::string text(const Args&... args) {
  std::ostringstream stream;
  (void)(stream << ... << args);
  return stream.str();
}
template <class E, class... Args>
[[noreturn]] __attribute__((noinline, cold)) void fail(const char* fallback, const Args&... args) {
  if constexpr (sizeof...(Args) == 0) {
    throw E(fallback);
  } else {
    throw E(text(args...));
  }
}
// A call of the C interface that reports failure; newer versions of torch also keep the reason.
inline void require(int32_t status, const char* what) {
  if (status == 0) return;
  const char* reason =
      torch_exception_get_what_without_backtrace != nullptr ? torch_exception_get_what_without_backtrace() : nullptr;
  throw Error(reason != nullptr && *reason != '\0' ? std::string(reason) : std::string("torch failed in ") + what);
}
}  // namespace stitch_detail

template <class... Args>
inline std::string str(const Args&... args) {
  return stitch_detail::text(args...);
}
}  // namespace c10

#define STITCH_REQUIRE(call) ::c10::stitch_detail::require((call), #call)

#define STITCH_CHECK_AS(kind, cond, ...)                                                                   \
  do {                                                                                                     \
    if (__builtin_expect(!static_cast<bool>(cond), 0))                                                      \
      ::c10::stitch_detail::fail<::c10::kind>(                                                              \
          "Expected " #cond " to be true, but got false.  (Could this error message be improved?  If so, " \
          "please report an enhancement request to PyTorch.)",                                             \
          ##__VA_ARGS__);                                                                                  \
  } while (false)

#define TORCH_CHECK(cond, ...) STITCH_CHECK_AS(Error, cond, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(cond, ...) STITCH_CHECK_AS(ValueError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(cond, ...) STITCH_CHECK_AS(IndexError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(cond, ...) STITCH_CHECK_AS(TypeError, cond, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(cond, ...) STITCH_CHECK_AS(NotImplementedError, cond, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(cond, ...) STITCH_CHECK_AS(Error, cond, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(cond, ...) static_cast<void>(0)
#define TORCH_CHECK_WITH(error, cond, ...) STITCH_CHECK_AS(error, cond, ##__VA_ARGS__)
#define STD_TORCH_CHECK(cond, ...) STITCH_CHECK_AS(Error, cond, ##__VA_ARGS__)
#define AT_ASSERT(cond) STITCH_CHECK_AS(Error, cond)
#define AT_ASSERTM(cond, ...) STITCH_CHECK_AS(Error, cond, ##__VA_ARGS__)
#define AT_ERROR(...) ::c10::stitch_detail::fail<::c10::Error>("error", ##__VA_ARGS__)
#define TORCH_WARN(...) static_cast<void>(0)
#define TORCH_WARN_ONCE(...) static_cast<void>(0)
#define C10_UNLIKELY(expr) (__builtin_expect(static_cast<bool>(expr), 0))
#define C10_LIKELY(expr) (__builtin_expect(static_cast<bool>(expr), 1))
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#define C10_NOINLINE __attribute__((noinline))
#define C10_UNUSED [[maybe_unused]]
#define C10_RESTRICT __restrict
#define TORCH_API
#define C10_EXPORT __attribute__((visibility("default")))
#define C10_CONCATENATE_IMPL(a, b) a##b
#define C10_CONCATENATE(a, b) C10_CONCATENATE_IMPL(a, b)
#if defined(__CUDACC__) && !defined(STITCHCUDA_EMULATOR)
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#else
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#endif
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__((threads))
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__((threads), (blocks))
#ifndef CUDA_KERNEL_ASSERT
#define CUDA_KERNEL_ASSERT(condition) assert(condition)
#endif
