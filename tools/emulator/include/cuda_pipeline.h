#pragma once
#include <stitch/cuda.h>
#include <stitch/pipeline.h>
