// Runs the CUDA threads of one block on one OS thread.
#pragma once
#include "barrier.h"
#include "block.h"
#include "meeting.h"
#include "schedule.h"
#include "shared.h"
#include "state.h"
