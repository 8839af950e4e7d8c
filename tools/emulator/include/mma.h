#pragma once
#include <stitch/cuda.h>
#include <stitch/wmma.h>
