#pragma once
#include <stitch/cuda.h>
#include <stitch/small_float.h>
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
