// Where the CUDA toolkit brings cusolverDn.h, that one is used. Where it lacks the library (a compiler-only installation),
// these declarations let a candidate be compiled, never linked.
#pragma once

#if __has_include_next(<cusolverDn.h>)
#include_next <cusolverDn.h>
#else
#include <cuda_runtime_api.h>
#include <library_types.h>

#include "cublas_v2.h"

typedef struct cusolverDnContext* cusolverDnHandle_t;
typedef enum {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_NOT_INITIALIZED = 1,
  CUSOLVER_STATUS_ALLOC_FAILED = 2,
  CUSOLVER_STATUS_INVALID_VALUE = 3,
  CUSOLVER_STATUS_ARCH_MISMATCH = 4,
  CUSOLVER_STATUS_MAPPING_ERROR = 5,
  CUSOLVER_STATUS_EXECUTION_FAILED = 6,
  CUSOLVER_STATUS_INTERNAL_ERROR = 7,
  CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED = 8
} cusolverStatus_t;
#endif
