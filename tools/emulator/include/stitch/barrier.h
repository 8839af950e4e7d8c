// __syncthreads and its variants: threads of a block that have not exited meet.
#pragma once
#include "state.h"

namespace stitch {

inline void open_barrier() {
    stitch_note_barrier();
    Device& d = device;
    const unsigned round = d.barrier_generation++ & 1;
    d.barrier_result[round] = d.barrier_count;
    d.barrier_live[round] = static_cast<int>(d.live);
    d.barrier_count = 0;
    for (unsigned i = 0; i < d.barrier_waiting; ++i) make_ready(d.barrier_list[i]);
    d.barrier_waiting = 0;
    for (unsigned w = 0; w < (d.threads + lanes - 1) / lanes; ++w) d.warps[w].barrier_line = 0;
}

struct BarrierResult {
    int count, live;
};

inline BarrierResult barrier(int predicate, int line) {
    Device& d = device;
    if (!d.in_kernel) abandon(cudaErrorLaunchFailure, "__syncthreads() was called outside of a kernel (line %d)", line);
    Warp& warp = d.warps[d.current / lanes];
    if (warp.barrier_line == 0) {
        warp.barrier_line = line;
    } else if (warp.barrier_line != line) {
        abandon(cudaErrorLaunchFailure,
                "divergent barrier: threads of one warp wait at different __syncthreads(), in line %d and line %d",
                warp.barrier_line, line);
    }
    if (sanitized && d.barrier_waiting != 0 && d.wait_line[d.barrier_list[0]] != line)
        abandon(cudaErrorLaunchFailure,
                "divergent barrier: threads of different warps meet at different __syncthreads(), in line %d and line %d",
                d.wait_line[d.barrier_list[0]], line);
    const unsigned round = d.barrier_generation & 1;
    d.barrier_count += predicate != 0;
    if (d.barrier_waiting + 1 == d.live) {
        open_barrier();
    } else {
        d.barrier_list[d.barrier_waiting++] = static_cast<unsigned short>(d.current);
        wait_here(Wait::barrier, line, 0);
    }
    return {d.barrier_result[round], d.barrier_live[round]};
}

}  // namespace stitch
