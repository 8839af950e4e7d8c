// Stands before torch's own header of this name; see stitch_torch/accessor.h.
#pragma once
#include <stitch_torch/accessor.h>
