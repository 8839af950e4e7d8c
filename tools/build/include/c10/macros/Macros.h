// Stands before torch's own header of this name; see stitch_torch/check.h.
#pragma once
#include <stitch_torch/check.h>
