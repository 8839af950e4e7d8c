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

namespace stitch {

constexpr unsigned max_threads = 1024;
constexpr unsigned lanes = 32;
constexpr unsigned max_meetings = 33;                     // full warp, and up to 32 sub-masks at a time
constexpr std::size_t static_shared_limit = 48 * 1024;
constexpr std::size_t dynamic_shared_limit = 227 * 1024;  // sm_90, per block, opt-in
constexpr std::size_t canary_bytes = 256;

enum class Wait : unsigned char { none, barrier, warp, active_mask };
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
    // __syncthreads
    unsigned barrier_waiting, barrier_generation;
    int barrier_count, barrier_result[2], barrier_live[2];
    unsigned short barrier_list[max_threads];
    // ready threads, oldest first
    unsigned ready_head, ready_tail;
    unsigned short ready[2 * max_threads];
    Warp warps[max_threads / lanes];
    // fibers
    Context scheduler, discard;
    Context thread_context[max_threads];
    Context fiber_context[max_threads + 1];
    unsigned char* fiber_top[max_threads + 1];
    unsigned short free_fibers[max_threads + 1];
    unsigned fiber_count, free_count, starting;
    // shared memory
    std::size_t shared_used, dynamic_used;
    unsigned long long block_number;                      // never 0, differs between shared objects
};

STITCH_STATE Device device;
STITCH_STATE pthread_mutex_t launch_lock = PTHREAD_MUTEX_INITIALIZER;
STITCH_STATE pthread_t launch_owner{};
STITCH_STATE unsigned long long launch_total = 0;
alignas(128) STITCH_STATE unsigned char static_shared[static_shared_limit + canary_bytes];
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
    device.wait[thread] = Wait::none;
    device.ready[device.ready_tail++ % (2 * max_threads)] = static_cast<unsigned short>(thread);
}

inline void become(unsigned thread) {
    device.current = thread;
    threadIdx = device.index[thread];
}

void fiber_main();

// The context to continue with when the running one stops: a ready thread, a thread not yet started, the scheduler.
inline Context& next_context() {
    Device& d = device;
    if (d.ready_head != d.ready_tail) {
        const unsigned thread = d.ready[d.ready_head++ % (2 * max_threads)];
        become(thread);
        return d.thread_context[thread];
    }
    if (d.next < d.threads) {
        if (d.free_count == 0) {
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

// --- __syncthreads ------------------------------------------------------------------------------------------------

inline void open_barrier() {
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

// --- warp operations ----------------------------------------------------------------------------------------------

inline void complete(Warp& warp, Meeting& meeting, unsigned first_thread, unsigned running) {
    const unsigned arrived = meeting.arrived;
    meeting.rounds[meeting.generation & 1].participants = arrived;
    meeting.generation++;
    meeting.readers += static_cast<unsigned>(__builtin_popcount(arrived));
    meeting.arrived = 0;
    warp.waiting &= ~arrived;
    for (unsigned rest = arrived; rest != 0; rest &= rest - 1) {
        const unsigned thread = first_thread + static_cast<unsigned>(__builtin_ctz(rest));
        if (thread != running) make_ready(thread);
    }
}

inline Meeting& find_meeting(Warp& warp, unsigned mask) {
    Meeting* unused = nullptr;
    for (unsigned i = 1; i < max_meetings; ++i) {
        Meeting& meeting = warp.meetings[i];
        if (meeting.mask == mask) return meeting;
        if (unused == nullptr && meeting.arrived == 0 && meeting.readers == 0) unused = &meeting;
    }
    if (unused == nullptr) abandon(cudaErrorNotSupported, "more than 32 masks are in use in one warp");
    unused->mask = mask;
    return *unused;
}

// Brings the lanes of `mask` that have not exited together, then gives `read(round, lane)` of each.
template <class T, class Read>
inline auto meet(unsigned mask, const T& value, WarpOp op, int line, Read read) {
    static_assert(sizeof(T) <= 32, "warp operations exchange at most 32 bytes per lane");
    Device& d = device;
    if (!d.in_kernel) abandon(cudaErrorLaunchFailure, "a warp operation was called outside of a kernel (line %d)", line);
    const unsigned thread = d.current;
    const unsigned lane = thread % lanes;
    Warp& warp = d.warps[thread / lanes];
    if (!(mask >> lane & 1u))
        abandon(cudaErrorLaunchFailure, "lane %u calls a warp operation (line %d) with mask 0x%08x, which leaves it out",
                lane, line, mask);
    Meeting& meeting = mask == 0xffffffffu ? warp.meetings[0] : find_meeting(warp, mask);
    if (meeting.arrived == 0) {
        meeting.op = op;
    } else if (meeting.op != op) {
        abandon(cudaErrorLaunchFailure,
                "lanes of mask 0x%08x call different warp operations at the same time (one of them in line %d)", mask, line);
    }
    Round& round = meeting.rounds[meeting.generation & 1];
    std::memcpy(round.values[lane], &value, sizeof(T));
    meeting.arrived |= 1u << lane;
    if (meeting.arrived == (mask & warp.live)) {
        warp.waiting |= 1u << lane;
        complete(warp, meeting, thread - lane, thread);
    } else {
        warp.waiting |= 1u << lane;
        wait_here(Wait::warp, line, mask);
    }
    auto result = read(round, lane);
    meeting.readers--;
    return result;
}

template <class T>
inline T value_of(const Round& round, unsigned lane) {
    T value;
    std::memcpy(static_cast<void*>(&value), round.values[lane], sizeof(T));
    return value;
}

// A value that a lane outside of the operation would have: undefined on a GPU, all bits set here.
template <class T>
inline T undefined_value() {
    T value;
    std::memset(static_cast<void*>(&value), 0xff, sizeof(T));
    return value;
}

// The lanes that reach the same __activemask() before the warp cannot go on without them: the most converged answer.
inline unsigned active_mask(int line) {
    Device& d = device;
    if (!d.in_kernel) return 1;
    d.active_waiting++;
    const unsigned thread = d.current;
    wait_here(Wait::active_mask, line, 0);
    return d.wait_mask[thread];
}

inline bool settle_active_masks() {
    Device& d = device;
    for (unsigned first = 0; first < d.threads; ++first) {
        if (d.wait[first] != Wait::active_mask) continue;
        const unsigned begin = first / lanes * lanes;
        unsigned mask = 0;
        for (unsigned t = begin; t < begin + lanes && t < d.threads; ++t)
            if (d.wait[t] == Wait::active_mask && d.wait_line[t] == d.wait_line[first]) mask |= 1u << (t - begin);
        for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
            const unsigned thread = begin + static_cast<unsigned>(__builtin_ctz(rest));
            d.wait_mask[thread] = mask;
            d.active_waiting--;
            make_ready(thread);
        }
        return true;
    }
    return false;
}

// --- the life of a thread -----------------------------------------------------------------------------------------

inline void finish_thread(unsigned thread) {
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
        const unsigned thread = d.next++;
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
        used += d.wait[first] == Wait::barrier
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
    d.barrier_waiting = 0;
    d.barrier_count = 0;
    d.active_waiting = 0;
    d.shared_used = 0;
    d.block_number++;
    for (unsigned w = 0; w * lanes < d.threads; ++w) {
        const unsigned in_warp = d.threads - w * lanes < lanes ? d.threads - w * lanes : lanes;
        d.warps[w].live = in_warp == lanes ? 0xffffffffu : (1u << in_warp) - 1;
        d.warps[w].waiting = 0;
        d.warps[w].barrier_line = 0;
    }
    if (d.dynamic_used != 0) std::memset(dynamic_shared_memory, 0xff, d.dynamic_used);
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

inline void run_block() {
    Device& d = device;
    start_block();
    while (!d.failed && d.live != 0) {
        Context& target = next_context();
        if (&target != &d.scheduler) {
            swap_context(d.scheduler, target);
        } else if (d.active_waiting == 0 || !settle_active_masks()) {
            describe_deadlock();
        }
    }
    if (!d.failed) check_shared_bounds();
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

// --- shared memory ------------------------------------------------------------------------------------------------

// The place of one __shared__ variable; one static object per declaration and template instance.
struct Slot {
    unsigned long long block;
    void* place;

    template <class T>
    T& get(std::size_t align, const char* name, int line) {
        if (__builtin_expect(block != device.block_number, 0)) claim(sizeof(T), align > alignof(T) ? align : alignof(T), name, line);
        return *static_cast<T*>(place);
    }

    __attribute__((noinline)) void claim(std::size_t bytes, std::size_t align, const char* name, int line) {
        Device& d = device;
        if (align < 16) align = 16;
        const std::size_t begin = (d.shared_used + align - 1) / align * align;
        if (begin + bytes > static_shared_limit)
            abandon(cudaErrorLaunchOutOfResources,
                    "__shared__ variable '%s' (line %d) brings static shared memory to %zu bytes, 49152 is the limit", name, line,
                    begin + bytes);
        if (d.dynamic_used + begin + bytes > dynamic_shared_limit)
            abandon(cudaErrorLaunchOutOfResources,
                    "static and dynamic shared memory together take %zu bytes (with '%s', line %d), 232448 is the limit",
                    d.dynamic_used + begin + bytes, name, line);
        std::memset(static_shared + d.shared_used, 0xff, begin + bytes + canary_bytes - d.shared_used);
        d.shared_used = begin + bytes;
        place = static_shared + begin;
        block = d.block_number;
    }
};

template <class T>
struct DynamicShared {
    static T& get() { return *reinterpret_cast<T*>(dynamic_shared_memory); }
};

}  // namespace stitch
