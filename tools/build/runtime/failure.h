// What the runtime's files share: how a refused call of torch's C interface is told.
#pragma once

#include <stitch_torch/scalar_type.h>

extern "C" __attribute__((weak)) int cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes);

namespace c10::stitch_detail {
// Throws torch's own reason for a call that failed.
[[noreturn]] void refused(const char* what);
// The same for a new tensor of `wanted_bytes`: running out of memory is recognised also where torch keeps no reason.
[[noreturn]] void refused_memory(int64_t wanted_bytes, const Device& device);
inline void require(int32_t status, const char* what) {
  if (status != 0) refused(what);
}
}  // namespace c10::stitch_detail
