// Where the CUDA toolkit brings cusparse.h, that one is used. Where it lacks the library (a compiler-only installation),
// these declarations let a candidate be compiled, never linked.
#pragma once

#if __has_include_next(<cusparse.h>)
#include_next <cusparse.h>
#else
#include <cuda_runtime_api.h>
#include <library_types.h>

typedef struct cusparseContext* cusparseHandle_t;
typedef enum { CUSPARSE_STATUS_SUCCESS = 0 } cusparseStatus_t;
extern "C" const char* cusparseGetErrorString(cusparseStatus_t status);
#endif
