// Stands before torch's own header of this name; see stitch_torch/cuda.h.
#pragma once
#include <stitch_torch/cuda.h>
