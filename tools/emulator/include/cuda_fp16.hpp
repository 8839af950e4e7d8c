#pragma once
#include <stitch/cuda.h>
#include <stitch/small_float.h>
typedef __half half;
typedef __half2 half2;
