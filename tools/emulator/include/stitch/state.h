// One block of CUDA threads on one OS thread.
//
// A fiber runs CUDA threads one after another until one of them has to wait; only then is another fiber started, so
// that a kernel without barriers is a plain loop on a single stack. A waiting thread hands over to the next ready
// one; when nobody is ready and all threads have started, the scheduler settles __activemask() or reports a deadlock.
#pragma once
#include <pthread.h>

#include <cstring>

#include "errors.h"
#include "fiber.h"
#include "language.h"
#include "watch.h"

namespace stitch {

constexpr unsigned max_threads = 1024;
constexpr unsigned lanes = 32;
constexpr unsigned max_meetings = 33;                     // full warp, and up to 32 sub-masks at a time
constexpr std::size_t static_shared_limit = 48 * 1024;
constexpr std::size_t dynamic_shared_limit = 227 * 1024;  // sm_90, per block, opt-in
constexpr std::size_t canary_bytes = 256;
constexpr std::size_t static_shared_bytes = static_shared_limit + (sanitized ? 64 * 1024 : 0);  // gaps included

enum class Wait : unsigned char { none, barrier, warp, active_mask, grid };
enum class Schedule : unsigned char { ascending, descending, warps };
enum class WarpOp : unsigned char { none, sync, shuffle, vote, match, reduce };

// Values of one warp operation. Two rounds alternate: a lane can enter the next operation only after it has read
// this one, and the one after that only when all lanes have.
struct Round {
    unsigned participants;
    alignas(32) unsigned char values[lanes][32];
};

struct Meeting {
    unsigned mask, arrived, readers, generation;
    WarpOp op;
    Round rounds[2];
};

struct Warp {
    unsigned live;
    unsigned waiting;                                     // lanes inside a warp operation
    int barrier_line;
    Meeting meetings[max_meetings];                       // [0] is the full warp
};

struct Device {
    // the launch
    const char* kernel;
    int launch_line;
    void (*run)(void*);
    void* functor;
    bool in_kernel;
    cudaError_t last_error;
    cudaError_t failure;
    bool failed;
    char message[900];
    std::exception_ptr thrown;
    // the block
    unsigned threads, next, live, current;
    unsigned index_x, index_y, index_z;                   // block shape that `index` was filled for
    uint3 index[max_threads];
    Wait wait[max_threads];
    int wait_line[max_threads];
    unsigned wait_mask[max_threads];
    unsigned active_waiting;
    // a cooperative launch of several blocks: threads that wait for the whole grid
    bool cooperative;
    unsigned grid_waiting;
    // the order of threads, when it is not ascending
    Schedule schedule;
    unsigned short order[max_threads];
    unsigned warp_rank[max_threads / lanes], warp_at[max_threads / lanes];  // rank of a warp; warp of a rank
    // __syncthreads
    unsigned barrier_waiting, barrier_generation;
    int barrier_count, barrier_result[2], barrier_live[2];
    unsigned short barrier_list[max_threads];
    // ready threads, oldest first
    unsigned ready_head, ready_tail;
    unsigned short ready[2 * max_threads];
    // the same when warps have priorities: a queue for each rank (head and tail above then only count)
    unsigned ready_ranks;                                 // bit r: a thread of the warp of rank r is ready
    unsigned char rank_head[max_threads / lanes], rank_tail[max_threads / lanes];
    unsigned char rank_ready[max_threads / lanes][lanes];
    Warp warps[max_threads / lanes];
    // fibers
    Context scheduler, discard;
    Context thread_context[max_threads];
    Context fiber_context[max_threads + 1];
    unsigned char* fiber_top[max_threads + 1];
    unsigned short free_fibers[max_threads + 1];
    unsigned fiber_count, free_count, starting;
    // shared memory
    std::size_t shared_used, shared_gaps, dynamic_used;
    unsigned long long block_number;                      // never 0, differs between shared objects
};

STITCH_STATE Device device;
STITCH_STATE pthread_mutex_t launch_lock = PTHREAD_MUTEX_INITIALIZER;
STITCH_STATE pthread_t launch_owner{};
STITCH_STATE unsigned long long launch_total = 0;
alignas(128) STITCH_STATE unsigned char static_shared[static_shared_bytes + canary_bytes];
alignas(128) STITCH_STATE unsigned char dynamic_shared_memory[dynamic_shared_limit + canary_bytes];

// Ends the running launch: control goes back to the scheduler, which throws. Outside of a kernel it throws at once.
[[noreturn]] inline void abandon(cudaError_t error, const char* format, ...) __attribute__((format(printf, 2, 3)));
[[noreturn]] inline void abandon(cudaError_t error, const char* format, ...) {
    char text[700];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!device.in_kernel) throw CudaError("%s", text);
    std::snprintf(device.message, sizeof device.message, "CUDA error: %s: kernel '%s' (launched in line %d), block (%u, %u, %u): %s",
                  cudaGetErrorString(error), device.kernel, device.launch_line, blockIdx.x, blockIdx.y, blockIdx.z, text);
    device.failed = true;
    device.failure = error;
    swap_context(device.discard, device.scheduler);
    __builtin_unreachable();
}

inline void make_ready(unsigned thread) {
    Device& d = device;
    d.wait[thread] = Wait::none;
    if (d.schedule == Schedule::warps) {
        const unsigned rank = d.warp_rank[thread / lanes];
        d.rank_ready[rank][d.rank_tail[rank]++ % lanes] = static_cast<unsigned char>(thread % lanes);
        d.ready_ranks |= 1u << rank;
        d.ready_tail++;
        return;
    }
    d.ready[d.ready_tail++ % (2 * max_threads)] = static_cast<unsigned short>(thread);
}

inline void become(unsigned thread) {
    device.current = thread;
    threadIdx = device.index[thread];
}

void fiber_main();

inline unsigned thread_to_start() { return device.schedule == Schedule::ascending ? device.next : device.order[device.next]; }

// The ready thread that goes on: the oldest, or with priorities the oldest of the first warp. False when there is none,
// or when a thread of an earlier warp has not started yet. The ranks fit one word: 1024 threads are 32 warps.
inline bool take_ready(unsigned& thread) {
    Device& d = device;
    if (d.ready_head == d.ready_tail) return false;
    if (d.schedule != Schedule::warps) {
        thread = d.ready[d.ready_head++ % (2 * max_threads)];
        return true;
    }
    const unsigned rank = static_cast<unsigned>(__builtin_ctz(d.ready_ranks));
    if (d.next < d.threads && d.warp_rank[thread_to_start() / lanes] < rank) return false;
    const unsigned lane = d.rank_ready[rank][d.rank_head[rank]++ % lanes];
    if (d.rank_head[rank] == d.rank_tail[rank]) d.ready_ranks &= ~(1u << rank);
    d.ready_head++;
    thread = d.warp_at[rank] * lanes + lane;
    return true;
}

// The context to continue with when the running one stops: a ready thread, a thread not yet started, the scheduler.
inline Context& next_context() {
    Device& d = device;
    if (unsigned thread; take_ready(thread)) {
        become(thread);
        return d.thread_context[thread];
    }
    if (d.next < d.threads) {
        if (d.free_count == 0) {
            const NotWatching not_watching;
            const unsigned fiber = d.fiber_count;
            d.fiber_top[fiber] = new_stack_top(fiber);
            fresh_context(d.fiber_context[fiber], d.fiber_top[fiber], fiber_main);
            d.free_fibers[d.free_count++] = static_cast<unsigned short>(fiber);
            d.fiber_count++;
        }
        d.starting = d.free_fibers[--d.free_count];
        return d.fiber_context[d.starting];
    }
    return d.scheduler;
}

inline void wait_here(Wait reason, int line, unsigned mask) {
    stitch_settle();
    Device& d = device;
    const unsigned thread = d.current;
    d.wait[thread] = reason;
    d.wait_line[thread] = line;
    d.wait_mask[thread] = mask;
    Context& target = next_context();
    swap_context(d.thread_context[thread], target);
}

__attribute__((visibility("hidden"))) inline void fiber_main() {
    Device& d = device;
    const unsigned self = d.starting;
    for (;;) {
        d.run(d.functor);
        d.free_fibers[d.free_count++] = static_cast<unsigned short>(self);
        // A fiber that has nothing to do must not start itself: run() returns only when somebody is ready or no
        // thread is left to start.
        Context& target = next_context();
        swap_context(d.fiber_context[self], target);
    }
}

}  // namespace stitch
