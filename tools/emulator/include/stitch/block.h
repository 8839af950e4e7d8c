// The life of a thread and of a block, and what is told when one of them cannot go on.
#pragma once
#include "barrier.h"
#include "meeting.h"
#include "state.h"

namespace stitch {

inline void finish_thread(unsigned thread) {
    stitch_settle();
    Device& d = device;
    d.live--;
    Warp& warp = d.warps[thread / lanes];
    warp.live &= ~(1u << thread % lanes);
    if (warp.waiting != 0) {
        for (Meeting& meeting : warp.meetings)
            if (meeting.arrived != 0 && meeting.arrived == (meeting.mask & warp.live))
                complete(warp, meeting, thread / lanes * lanes, max_threads);
    }
    if (d.barrier_waiting != 0 && d.barrier_waiting == d.live) open_barrier();
}

template <class Call>
void run_threads(void* functor) {
    Call& call = *static_cast<Call*>(functor);
    Device& d = device;
    while (d.next < d.threads) {
        const unsigned thread = thread_to_start();
        d.next++;
        become(thread);
        try {
            call();
        } catch (...) {
            d.thrown = std::current_exception();
        }
        if (d.thrown) abandon(cudaErrorLaunchFailure, "a C++ exception left the kernel");
        finish_thread(thread);
        if (d.ready_head != d.ready_tail) return;
    }
}

inline void describe_deadlock() {
    Device& d = device;
    char text[600];
    int used = std::snprintf(text, sizeof text, "deadlock:");
    bool told[max_threads] = {};
    for (unsigned first = 0; first < d.threads; ++first) {
        if (d.wait[first] == Wait::none || told[first] || used >= 480) continue;
        unsigned count = 0;
        for (unsigned t = first; t < d.threads; ++t) {
            if (d.wait[t] != d.wait[first] || d.wait_line[t] != d.wait_line[first] || d.wait_mask[t] != d.wait_mask[first])
                continue;
            told[t] = true;
            ++count;
        }
        used += std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used), "%s %u thread%s wait%s ",
                              used > 9 ? ";" : "", count, count == 1 ? "" : "s", count == 1 ? "s" : "");
        used += d.wait[first] == Wait::grid
                    ? std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used), "at the grid-wide sync() in line %d",
                                    d.wait_line[first])
                : d.wait[first] == Wait::barrier
                    ? std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used),
                                    "at the __syncthreads() in line %d", d.wait_line[first])
                    : std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used),
                                    "in a warp operation with mask 0x%08x in line %d", d.wait_mask[first], d.wait_line[first]);
    }
    std::snprintf(device.message, sizeof device.message, "CUDA error: %s: kernel '%s' (launched in line %d), block (%u, %u, %u): %s",
                  cudaGetErrorString(cudaErrorLaunchFailure), d.kernel, d.launch_line, blockIdx.x, blockIdx.y, blockIdx.z, text);
    d.failed = true;
    d.failure = cudaErrorLaunchFailure;
}

inline void start_block() {
    Device& d = device;
    d.next = 0;
    d.live = d.threads;
    d.ready_head = d.ready_tail = 0;
    d.ready_ranks = 0;
    std::memset(d.rank_head, 0, sizeof d.rank_head);
    std::memset(d.rank_tail, 0, sizeof d.rank_tail);
    d.barrier_waiting = 0;
    d.barrier_count = 0;
    d.active_waiting = 0;
    d.grid_waiting = 0;
    if (!d.cooperative) {  // blocks of a cooperative launch take turns, with their variables in the same places
        d.shared_used = d.shared_gaps = 0;
        d.block_number++;
    }
    for (unsigned w = 0; w * lanes < d.threads; ++w) {
        const unsigned in_warp = d.threads - w * lanes < lanes ? d.threads - w * lanes : lanes;
        d.warps[w].live = in_warp == lanes ? 0xffffffffu : (1u << in_warp) - 1;
        d.warps[w].waiting = 0;
        d.warps[w].barrier_line = 0;
    }
    if (d.dynamic_used != 0) std::memset(dynamic_shared_memory, 0xff, d.dynamic_used);
    stitch_note_block();
}

inline bool canary_died(const unsigned char* canary) {
    for (std::size_t i = 0; i < canary_bytes; ++i)
        if (canary[i] != 0xff) return true;
    return false;
}

inline void check_shared_bounds() {
    Device& d = device;
    const char* which = nullptr;
    if (canary_died(dynamic_shared_memory + d.dynamic_used)) which = "dynamic";
    if (d.shared_used != 0 && canary_died(static_shared + d.shared_used)) which = "static";
    if (which == nullptr) return;
    std::memset(dynamic_shared_memory + d.dynamic_used, 0xff, canary_bytes);
    std::snprintf(d.message, sizeof d.message,
                  "CUDA error: %s: kernel '%s' (launched in line %d), block (%u, %u, %u): a write past the end of %s shared memory (%zu bytes)",
                  cudaGetErrorString(cudaErrorIllegalAddress), d.kernel, d.launch_line, blockIdx.x, blockIdx.y, blockIdx.z, which,
                  which[0] == 'd' ? d.dynamic_used : d.shared_used);
    d.failed = true;
    d.failure = cudaErrorIllegalAddress;
}

// Until all threads have ended, or wait for the other blocks of a cooperative launch.
inline void go_on() {
    Device& d = device;
    while (!d.failed && d.live != 0) {
        Context& target = next_context();
        if (&target != &d.scheduler) {
            const Watching watching;
            if (d.cooperative) stitch_unwatch();  // the checks know one block at a time
            swap_context(d.scheduler, target);
        } else if (d.grid_waiting == d.live) {
            return;
        } else if (d.active_waiting == 0 || !settle_active_masks()) {
            describe_deadlock();
        }
    }
}

inline void run_block() {
    start_block();
    go_on();
    if (!device.failed) check_shared_bounds();
}

// After a failed launch the fibers hold frames of threads that will never go on.
inline void reset_fibers() {
    Device& d = device;
    d.free_count = 0;
    for (unsigned fiber = 0; fiber < d.fiber_count; ++fiber) {
        fresh_context(d.fiber_context[fiber], d.fiber_top[fiber], fiber_main);
        d.free_fibers[d.free_count++] = static_cast<unsigned short>(fiber);
    }
    std::memset(static_cast<void*>(d.warps), 0, sizeof d.warps);
    for (Wait& wait : d.wait) wait = Wait::none;
    d.failed = false;
}

}  // namespace stitch
