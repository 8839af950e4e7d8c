// Stands before torch's own header of this name; see stitch_torch/dispatch.h.
#pragma once
#include <stitch_torch/dispatch.h>
