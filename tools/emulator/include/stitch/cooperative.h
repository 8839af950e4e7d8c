// Cooperative launches: all blocks are alive at once, and take turns from one grid-wide sync() to the next.
#pragma once
#include "block.h"
#include "schedule.h"

namespace stitch {

constexpr unsigned max_cooperative_blocks = 256;  // each keeps a state of about 2 MB, and its own stacks

struct Parked {
    Device device;
    unsigned char fixed[static_shared_bytes];
    unsigned char dynamic[dynamic_shared_limit];
};
STITCH_STATE Parked* parked_blocks[max_cooperative_blocks];
STITCH_STATE Device home;

inline void begin_parked(Parked& parked) {
    Device& d = device;
    const std::size_t used = d.shared_used;
    const unsigned long long number = d.block_number;
    d = home;
    d.shared_used = used;
    d.block_number = number;
    d.fiber_count = parked.device.fiber_count;
    std::memcpy(static_cast<void*>(d.fiber_top), parked.device.fiber_top, sizeof d.fiber_top);
    reset_fibers();  // an earlier launch may have failed in the middle
    for (Warp& warp : d.warps) warp.meetings[0].mask = 0xffffffffu;
    std::memset(static_shared, 0xff, sizeof static_shared);
    start_block();
}

inline void resume_parked(const Parked& parked) {
    Device& d = device;
    const std::size_t used = d.shared_used;
    d = parked.device;
    d.shared_used = used;
    std::memcpy(static_shared, parked.fixed, sizeof parked.fixed);
    std::memcpy(dynamic_shared_memory, parked.dynamic, d.dynamic_used);
    d.grid_waiting = 0;
    for (unsigned t = 0; t < d.threads; ++t)
        if (d.wait[t] == Wait::grid) make_ready(t);
}

inline void run_cooperative(dim3 grid) {
    Device& d = device;
    const unsigned blocks = grid.x * grid.y * grid.z;
    d.block_number++;
    d.shared_used = d.shared_gaps = 0;
    home = d;
    for (unsigned b = 0; b < blocks; ++b)
        if (parked_blocks[b] == nullptr) parked_blocks[b] = new Parked();
    unsigned ended = 0;
    for (bool first = true; ended == 0 && !d.failed; first = false) {
        for (unsigned b = 0; b < blocks && !d.failed; ++b) {
            Parked& parked = *parked_blocks[b];
            blockIdx = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
            if (first) begin_parked(parked);
            else resume_parked(parked);
            go_on();
            ended += !d.failed && d.live == 0;
            parked.device = d;
            std::memcpy(parked.fixed, static_shared, sizeof parked.fixed);
            std::memcpy(parked.dynamic, dynamic_shared_memory, d.dynamic_used);
        }
        if (!d.failed && ended != 0 && ended != blocks) {
            std::snprintf(d.message, sizeof d.message,
                          "CUDA error: %s: kernel '%s' (launched in line %d): deadlock: %u of %u blocks have ended, the others wait at a grid-wide sync()",
                          cudaGetErrorString(cudaErrorLaunchFailure), d.kernel, d.launch_line, ended, blocks);
            d.failed = true;
            d.failure = cudaErrorLaunchFailure;
        }
    }
    home.failed = d.failed;
    home.failure = d.failure;
    home.thrown = d.thrown;
    home.cooperative = false;
    std::memcpy(home.message, d.message, sizeof d.message);
    d = home;
}

}  // namespace stitch
