// Everything that nvcc makes known without an #include, for a g++ build of a rewritten source.
#pragma once
#include "atomics.h"
#include "host.h"
#include "intrinsics.h"
#include "language.h"
#include "launch.h"
#include "ptx.h"
#include "runtime.h"
#include "torch_host.h"
#include "warp.h"
