#pragma once
#include <stitch/cuda.h>
