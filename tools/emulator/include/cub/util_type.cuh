#pragma once
#include <stitch/cuda.h>
#include <stitch/cub.h>
