#pragma once
#include <stitch/cuda.h>
#include <stitch/cublas.h>
