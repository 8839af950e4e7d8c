// Asynchronous copies (__pipeline_memcpy_async): they happen as late as allowed, when their group is waited for, so that
// a missing wait reads the poison of shared memory.
#pragma once
#include "warp.h"

namespace stitch {

constexpr unsigned max_copies = 64;

struct Copy {
    void* to;
    const void* from;
    unsigned bytes, zero_bytes, group;
};

struct CopyQueue {
    unsigned long long block;
    unsigned first, count, group;
    Copy copies[max_copies];
};

STITCH_STATE CopyQueue copy_queues[max_threads];

inline CopyQueue& copy_queue() {
    CopyQueue& queue = copy_queues[device.current];
    if (queue.block != device.block_number) {
        queue.block = device.block_number;
        queue.first = queue.count = queue.group = 0;
    }
    return queue;
}

inline void copy_later(void* to, const void* from, std::size_t bytes, std::size_t zero_bytes, int line) {
    if (bytes != 4 && bytes != 8 && bytes != 16)
        abandon(cudaErrorInvalidValue, "an asynchronous copy of %zu bytes (line %d): 4, 8 and 16 are possible", bytes, line);
    if (reinterpret_cast<std::uintptr_t>(to) % bytes != 0 || reinterpret_cast<std::uintptr_t>(from) % bytes != 0)
        abandon(cudaErrorIllegalAddress, "an asynchronous copy of %zu bytes is not aligned to its size (line %d)", bytes, line);
    CopyQueue& queue = copy_queue();
    if (queue.count == max_copies) abandon(cudaErrorNotSupported, "not supported by the cpu device: more than 64 open copies per thread");
    queue.copies[(queue.first + queue.count++) % max_copies] = {to, from, static_cast<unsigned>(bytes), static_cast<unsigned>(zero_bytes), queue.group};
}

inline void commit_copies() { copy_queue().group++; }

// Finishes every group but the newest `open` ones that were committed.
STITCH_INLINED void wait_for_copies(unsigned open) {
    CopyQueue& queue = copy_queue();
    while (queue.count != 0) {
        const Copy& copy = queue.copies[queue.first];
        if (copy.group + open >= queue.group) break;
        if (copy.bytes != copy.zero_bytes) stitch_copied(copy.from, copy.bytes - copy.zero_bytes, false, 0);
        stitch_copied(copy.to, copy.bytes, true, 0);
        std::memcpy(copy.to, copy.from, copy.bytes - copy.zero_bytes);
        std::memset(static_cast<unsigned char*>(copy.to) + copy.bytes - copy.zero_bytes, 0, copy.zero_bytes);
        queue.first = (queue.first + 1) % max_copies;
        queue.count--;
    }
}

}  // namespace stitch

inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes, std::size_t zero_bytes = 0, STITCH_LINE) {
    stitch::copy_later(to, from, bytes, zero_bytes, line);
}
inline void __pipeline_commit() { stitch::commit_copies(); }
STITCH_INLINED void __pipeline_wait_prior(unsigned open) { stitch::wait_for_copies(open); }
