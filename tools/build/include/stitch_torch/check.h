// Errors and checks: TORCH_CHECK and its relatives, with the message as the user wrote it.
#pragma once

#include <cassert>
#include <exception>

#include "message.h"
#include "shim.h"

#ifdef STITCH_PART_STRING
#include <stdexcept>
#include <string>
#endif

namespace c10 {

class Error : public std::exception {
 public:
  explicit Error(const char* text);
  template <class Text, class = decltype(static_cast<const char*>(std::declval<const Text&>().c_str()))>
  explicit Error(const Text& text) : Error(text.c_str()) {}
  Error(const Error& other);
  Error& operator=(const Error& other) = delete;
  ~Error() override;
  const char* what() const noexcept override { return text_; }
  const char* what_without_backtrace() const noexcept { return text_; }
  const char* msg() const noexcept { return text_; }

 private:
  char* text_;
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
class OutOfMemoryError : public Error {
  using Error::Error;
};

namespace stitch_detail {
enum class Raised { Error, ValueError, IndexError, TypeError, NotImplementedError, OutOfMemoryError };
// Throws the joined pieces, or `otherwise` when there are none.
[[noreturn]] void raise(Raised kind, const char* otherwise, const Piece* pieces, size_t count);
template <class... Args>
[[noreturn]] __attribute__((noinline, cold)) void fail(Raised kind, const char* otherwise, const Args&... args) {
  if constexpr (sizeof...(Args) == 0) {
    raise(kind, otherwise, nullptr, 0);
  } else {
    const Piece pieces[] = {Piece(args)...};
    raise(kind, otherwise, pieces, sizeof...(Args));
  }
}
}  // namespace stitch_detail

#ifdef STITCH_PART_STRING
template <class... Args>
std::string str(const Args&... args) {
  if constexpr (sizeof...(Args) == 0) {
    return std::string();
  } else {
    const stitch_detail::Piece pieces[] = {stitch_detail::Piece(args)...};
    char* text = stitch_detail::joined(pieces, sizeof...(Args));
    std::string result(text);
    __builtin_free(text);
    return result;
  }
}
#endif
}  // namespace c10

#define STITCH_CHECK_AS(kind, cond, ...)                                                                   \
  do {                                                                                                     \
    if (__builtin_expect(!static_cast<bool>(cond), 0))                                                      \
      ::c10::stitch_detail::fail(::c10::stitch_detail::Raised::kind,                                        \
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
#define AT_ERROR(...) ::c10::stitch_detail::fail(::c10::stitch_detail::Raised::Error, "error", ##__VA_ARGS__)
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
