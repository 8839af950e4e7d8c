// Stands before torch's own header of this name; see stitch_torch/numbers.h.
#pragma once
#include <stitch_torch/numbers.h>
