// The checks of a sanitized build: g++ calls a function here before every load and store of candidate code
// (-fsanitize=kernel-address with calls only) and at misaligned or out-of-range expressions (alignment, bounds).
// Compiled without those flags, linked into each sanitized extension. Knows which memory there is from torch's CPU
// allocator, which it replaces, and from cudaMalloc.
#include "checks.h"

volatile bool stitch_watching = false;
volatile bool stitch_atomic = false;

// --- what the runtime tells ------------------------------------------------------------------------------------------

extern "C" {

void stitch_note_memory(const void* address, size_t bytes) {
    Table& all = *table();
    std::lock_guard<std::mutex> guard(all.lock);
    all.ranges[reinterpret_cast<uintptr_t>(address)] = {bytes, nullptr};
}

void stitch_forget_memory(const void* address) {
    Table& all = *table();
    std::lock_guard<std::mutex> guard(all.lock);
    auto found = all.ranges.find(reinterpret_cast<uintptr_t>(address));
    if (found == all.ranges.end()) return;
    std::free(found->second.cells);
    all.ranges.erase(found);
}

void stitch_note_launch() {
    foreign_argument = fenced = false;
    last_found = {};
    pending.active = false;
    recent_count = recent_next = 0;
    launch_began = ++now;
}

void stitch_note_argument(const void* pointer) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (pointer == nullptr || (address >= image().begin && address < image().end)) return;
    last_found = {};
    // One past the end is a fine pointer too.
    if (!find_range(address) && !find_range(address - 1)) foreign_argument = true;
}

void stitch_note_block() {
    std::memset(arena_state, 0, sizeof arena_state);
    std::memset(arena_state + sizeof stitch::static_shared, static_cast<int>(Byte::empty), stitch::device.dynamic_used);
    block_synced = ++now;
    bounds_thread = -1;
}

void stitch_note_shared(const void* address, size_t bytes) {
    std::memset(arena_state + arena_offset(reinterpret_cast<uintptr_t>(address)), static_cast<int>(Byte::empty), bytes);
}

void stitch_note_barrier() { block_synced = ++now; }
void stitch_note_grid_barrier() { launch_began = block_synced = ++now; }
void stitch_note_fence() { fenced = true; }

void stitch_note_meeting(unsigned warp, unsigned participants) {
    ++now;
    for (unsigned rest = participants; rest != 0; rest &= rest - 1) {
        unsigned* row = pair_synced[warp][__builtin_ctz(rest)];
        for (unsigned other = participants; other != 0; other &= other - 1) row[__builtin_ctz(other)] = now;
    }
}

// The thread stops or waits: the stores that a clash waited for have been done, and clash if they changed something.
void stitch_settle() {
    look_back();
    recent_count = recent_next = 0;
}

void stitch_copied(const void* address, size_t bytes, bool write, int line) {
    if (!stitch_watching) return;
    (void)line;
    check_access(address, static_cast<unsigned>(bytes), write, __builtin_return_address(0));
}

// --- what g++ calls --------------------------------------------------------------------------------------------------

#define STITCH_HOOKS(SIZE)                                                                                                   \
    __attribute__((visibility("hidden"))) void __asan_load##SIZE##_noabort(const void* address) {                           \
        if (stitch_watching) check_access(address, SIZE, false, __builtin_return_address(0));                               \
    }                                                                                                                        \
    __attribute__((visibility("hidden"))) void __asan_store##SIZE##_noabort(const void* address) {                          \
        if (stitch_watching) check_access(address, SIZE, true, __builtin_return_address(0));                                \
    }
STITCH_HOOKS(1)
STITCH_HOOKS(2)
STITCH_HOOKS(4)
STITCH_HOOKS(8)
STITCH_HOOKS(16)
__attribute__((visibility("hidden"))) void __asan_loadN_noabort(const void* address, size_t bytes) {
    if (stitch_watching) check_access(address, static_cast<unsigned>(bytes), false, __builtin_return_address(0));
}
__attribute__((visibility("hidden"))) void __asan_storeN_noabort(const void* address, size_t bytes) {
    if (stitch_watching) check_access(address, static_cast<unsigned>(bytes), true, __builtin_return_address(0));
}
__attribute__((visibility("hidden"))) void __asan_handle_no_return() {}
__attribute__((visibility("hidden"))) void __asan_before_dynamic_init(const char*) {}
__attribute__((visibility("hidden"))) void __asan_after_dynamic_init() {}

struct SourceLocation {
    const char* file;
    unsigned line, column;
};
struct TypeName {
    unsigned short kind, info;
    char name[1];
};
struct Misaligned {
    SourceLocation where;
    const TypeName* type;
    unsigned char log_alignment, access;
};
struct OutOfBounds {
    SourceLocation where;
    const TypeName *array, *index;
};

__attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(const Misaligned* data, const void* address) {
    if (!stitch_watching) return;
    char text[640], thread[48];
    const Place place(relative(__builtin_return_address(0)));
    const bool ours = stitch::in_a_header(data->where.file);
    char where[300];
    std::snprintf(where, sizeof where, "%s:%u", stitch::base_name(data->where.file), data->where.line);
    std::snprintf(text, sizeof text, "misaligned %s of %s by thread %s in %s: the address is no multiple of %u",
                  data->access == 1 ? "write" : "read", data->type->name, thread_text(stitch::device.current, thread), ours ? place.text : where,
                  1u << data->log_alignment);
    (void)address;
    tell(cudaErrorMisalignedAddress, text);
}

// Only noted: the access that follows tells whether it leaves a local array, or one row of shared memory for the next.
__attribute__((visibility("hidden"))) void __ubsan_handle_out_of_bounds(const OutOfBounds* data, size_t index) {
    if (!stitch_watching) return;
    bounds_thread = static_cast<int>(stitch::device.current);
    std::snprintf(bounds_text, sizeof bounds_text, "%s:%u: index %ld of %s", stitch::base_name(data->where.file), data->where.line,
                  static_cast<long>(index), data->array->name);
}

}  // extern "C"
