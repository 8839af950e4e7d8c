// Stands before torch's own header of this name; see stitch_torch/facade.h.
#pragma once
#include <stitch_torch/facade.h>
