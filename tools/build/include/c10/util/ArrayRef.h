// Stands before torch's own header of this name; see stitch_torch/array_ref.h.
#pragma once
#include <stitch_torch/array_ref.h>
