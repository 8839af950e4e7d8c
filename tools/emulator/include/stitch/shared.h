// The memory of a block: static variables are placed when they are first met, dynamic memory has a fixed place.
#pragma once
#include "state.h"

namespace stitch {

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
        if (begin + bytes > static_shared_limit + d.shared_gaps)
            abandon(cudaErrorLaunchOutOfResources,
                    "__shared__ variable '%s' (line %d) brings static shared memory to %zu bytes, 49152 is the limit", name, line,
                    begin + bytes - d.shared_gaps);
        if (d.dynamic_used + begin + bytes > dynamic_shared_limit)
            abandon(cudaErrorLaunchOutOfResources,
                    "static and dynamic shared memory together take %zu bytes (with '%s', line %d), 232448 is the limit",
                    d.dynamic_used + begin + bytes, name, line);
        const NotWatching not_watching;
        const std::size_t gap = d.shared_gaps + shared_gap_bytes > 48 * 1024 ? 0 : shared_gap_bytes;
        std::memset(static_shared + d.shared_used, 0xff, begin + bytes + gap + canary_bytes - d.shared_used);
        stitch_note_shared(static_shared + begin, bytes);
        d.shared_gaps += gap;
        d.shared_used = begin + bytes + gap;
        place = static_shared + begin;
        block = d.block_number;
    }
};

template <class T>
struct DynamicShared {
    static T& get() { return *reinterpret_cast<T*>(dynamic_shared_memory); }
};

}  // namespace stitch
