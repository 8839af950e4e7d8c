// Stands before torch's own header of this name; see stitch_torch/scalar_type.h.
#pragma once
#include <stitch_torch/scalar_type.h>
