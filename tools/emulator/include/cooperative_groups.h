#pragma once
#include <stitch/cuda.h>
#include <stitch/groups.h>
