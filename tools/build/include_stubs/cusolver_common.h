// Where the CUDA toolkit brings cusolver_common.h, that one is used; see cusolverDn.h.
#pragma once

#if __has_include_next(<cusolver_common.h>)
#include_next <cusolver_common.h>
#else
#include "cusolverDn.h"
#endif
