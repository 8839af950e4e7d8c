// assert() of device code ends the launch, as on a GPU, not the process.
#pragma once
#include "runtime.h"

namespace stitch {
[[noreturn]] __attribute__((visibility("hidden"), noinline)) inline void assertion_failed(const char* text, int line) {
    abandon(cudaErrorAssert, "assertion `%s` failed in line %d, thread (%u, %u, %u)", text, line, threadIdx.x, threadIdx.y, threadIdx.z);
}
}  // namespace stitch
