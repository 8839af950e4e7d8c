// Where the CUDA toolkit brings cublasLt.h, that one is used. Where it lacks the library (a compiler-only installation),
// these declarations let a candidate be compiled, never linked.
#pragma once

#if __has_include_next(<cublasLt.h>)
#include_next <cublasLt.h>
#else
#include "cublas_v2.h"

typedef struct cublasLtContext* cublasLtHandle_t;
#endif
