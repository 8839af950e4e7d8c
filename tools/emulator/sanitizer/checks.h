// What one access is checked for: bounds, initialisation and races.
#pragma once
#include "memory.h"

namespace {

constexpr size_t arena_bytes = stitch::static_shared_bytes + stitch::dynamic_shared_limit + 2 * stitch::canary_bytes;
constexpr size_t max_raced_bytes = size_t(32) << 20;  // of one allocation; the cells take twelve times as much

enum class Byte : unsigned char { nobodys, empty, written };
Byte arena_state[arena_bytes];
Cell arena_cells[arena_bytes / 4];
unsigned now = 1, launch_began = 1, block_synced = 1;
unsigned pair_synced[stitch::max_threads / stitch::lanes][stitch::lanes][stitch::lanes];
bool foreign_argument = false, fenced = false;
int bounds_thread = -1;
char bounds_text[320];

struct Pending {
    bool active = false;
    const void* address;
    unsigned size;
    unsigned char before[16];
    Access first, second;
    bool first_wrote, shared;
    uint3 thread, block;
    Cell* cell;
} pending;

// g++ leaves out the call before a store to what it has just had checked for a load (`s[i] += v`): such a store is
// seen by its effect, when the thread's next call comes.
struct Recent {
    const void* address;
    unsigned size;
    unsigned char before[16];
    Access access;
    Cell* cell;
    bool shared;
};
constexpr unsigned max_recent = 16;
Recent recent[max_recent];
unsigned recent_count = 0, recent_next = 0;

unsigned block_rank() { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }

const char* thread_text(unsigned thread, char (&text)[48]) {
    const uint3 index = stitch::device.index[thread];
    std::snprintf(text, sizeof text, "(%u, %u, %u)", index.x, index.y, index.z);
    return text;
}

[[noreturn]] void tell(cudaError_t error, const char* text) {
    stitch_watching = false;
    stitch_atomic = false;
    pending.active = false;
    recent_count = recent_next = 0;
    stitch::abandon(error, "%s", text);
}

// The offset of an address in the block's shared memory, static variables first; -1 outside of it.
long arena_offset(uintptr_t address) {
    const auto fixed = reinterpret_cast<uintptr_t>(stitch::static_shared);
    if (address - fixed < sizeof stitch::static_shared) return static_cast<long>(address - fixed);
    const auto dynamic = reinterpret_cast<uintptr_t>(stitch::dynamic_shared_memory);
    if (address - dynamic < sizeof stitch::dynamic_shared_memory) return static_cast<long>(address - dynamic + sizeof stitch::static_shared);
    return -1;
}

bool ordered(const Access& earlier, unsigned block, unsigned thread, bool shared) {
    if (earlier.time < launch_began) return true;
    if (earlier.block != block) return shared || fenced;  // blocks that hand over with fences are trusted
    if (earlier.thread == thread || earlier.time < block_synced) return true;
    if (earlier.thread / stitch::lanes != thread / stitch::lanes) return false;
    return earlier.time < pair_synced[thread / stitch::lanes][earlier.thread % stitch::lanes][thread % stitch::lanes];
}

[[noreturn]] void tell_race(const Access& first, bool first_wrote, const Access& second, bool second_wrote, bool shared) {
    char text[680], one[48], two[48];
    const bool same_block = first.block == second.block;
    const bool same_warp = same_block && first.thread / stitch::lanes == second.thread / stitch::lanes;
    const Place first_place(first.pc), second_place(second.pc);
    std::snprintf(text, sizeof text, "race in %s memory: %s of thread %s in %s and %s of thread %s in %s, %s", shared ? "shared" : "global",
                  first_wrote ? "the write" : "the read", thread_text(first.thread, one), first_place.text,
                  second_wrote ? "the write" : "the read", thread_text(second.thread, two), second_place.text,
                  !same_block ? "in different blocks"
                  : same_warp ? "with no __syncwarp() or other barrier in between (one warp: undefined since Volta, though it often works)"
                              : "with no __syncthreads() in between");
    tell(cudaErrorLaunchFailure, text);
}

void check_race(Cell& cell, const void* address, unsigned size, Access access, bool write, bool shared, bool changed = false) {
    const auto clashes = [&](const Access& earlier) {
        return (earlier.bytes & access.bytes) != 0 && !ordered(earlier, access.block, access.thread, shared) && !(earlier.atomic && access.atomic);
    };
    const bool with_write = clashes(cell.write);
    if (!write) {
        if (with_write && !cell.same_value) tell_race(cell.write, true, access, false, shared);
        if (cell.read.thread == access.thread && cell.read.block == access.block) {
            access.bytes |= cell.read.time >= block_synced ? cell.read.bytes : 0;
            cell.read = access;
        } else {
            cell.other_read = cell.read;
            cell.read = access;
        }
        return;
    }
    const Access* reader = clashes(cell.read) ? &cell.read : clashes(cell.other_read) ? &cell.other_read : nullptr;
    if ((with_write || reader != nullptr) && changed) tell_race(with_write ? cell.write : *reader, with_write, access, true, shared);
    if (with_write || reader != nullptr) {
        // Storing what is there already hurts nobody: looked at when the store has been done.
        if (!pending.active && size <= sizeof pending.before) {
            pending.active = true;
            pending.address = address;
            pending.size = size;
            std::memcpy(pending.before, address, size);
            pending.first = with_write ? cell.write : *reader;
            pending.first_wrote = with_write;
            pending.second = access;
            pending.shared = shared;
            pending.cell = &cell;
        }
    } else {
        cell.same_value = false;
    }
    cell.write = access;
}

[[noreturn]] void tell_bounds(const char* what, unsigned size, bool write, const void* pc, const char* detail) {
    char text[640], thread[48];
    const Place place(relative(pc));
    std::snprintf(text, sizeof text, "%s %s of %u bytes by thread %s in %s: %s", what, write ? "write" : "read", size,
                  thread_text(stitch::device.current, thread), place.text, detail);
    tell(cudaErrorIllegalAddress, text);
}

void check_shared(long offset, const void* address, unsigned size, bool write, const void* pc) {
    char detail[200];
    for (unsigned i = 0; i < size; ++i) {
        Byte& state = arena_state[offset + i];
        if (state == Byte::nobodys) {
            const bool dynamic = offset >= static_cast<long>(sizeof stitch::static_shared);
            if (dynamic)
                std::snprintf(detail, sizeof detail, "dynamic shared memory has %zu bytes", stitch::device.dynamic_used);
            else
                std::snprintf(detail, sizeof detail, "no __shared__ variable lies there");
            tell_bounds("out-of-bounds shared", size, write, pc, detail);
        }
        if (!write && state == Byte::empty) tell_bounds("uninitialised shared", size, write, pc, "nothing was written there in this block");
    }
    if (write) std::memset(arena_state + offset, static_cast<int>(Byte::written), size);
    (void)address;
}

__attribute__((noinline)) void check_unknown(uintptr_t address, unsigned size, bool write, const void* pc) {
    const auto stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    if (address - (stack - 4096) < stitch::stack_bytes) {
        if (bounds_thread == static_cast<int>(stitch::device.current)) {
            char text[480], thread[48];
            std::snprintf(text, sizeof text, "out-of-bounds local %s by thread %s in %s", write ? "write" : "read",
                          thread_text(stitch::device.current, thread), bounds_text);
            tell(cudaErrorIllegalAddress, text);
        }
        return;
    }
    // The launch's arguments lie on the host's stack.
    const auto arguments = reinterpret_cast<uintptr_t>(stitch::device.functor);
    if (address - (arguments - 8192) < 16384) return;
    if (address >= image().begin && address < image().end) return;
    char detail[200];
    Table& all = *table();
    std::unique_lock<std::mutex> guard(all.lock);
    auto after = all.ranges.upper_bound(address);
    const size_t above = after == all.ranges.end() ? ~size_t(0) : after->first - address;
    if (after != all.ranges.begin()) {
        auto before = std::prev(after);
        const size_t past = address - (before->first + before->second.bytes);
        // Memory that nobody told us about may lie next to an allocation, but not inside of its gap.
        if (past < above && past < (foreign_argument ? gap_bytes : 4 * gap_bytes)) {
            std::snprintf(detail, sizeof detail, "%zu bytes behind the last byte of an allocation of %zu bytes", past, before->second.bytes);
            guard.unlock();
            tell_bounds("out-of-bounds global", size, write, pc, detail);
        }
    }
    if (above <= (foreign_argument ? gap_bytes : 4 * gap_bytes)) {
        std::snprintf(detail, sizeof detail, "%zu bytes before an allocation of %zu bytes", above, after->second.bytes);
        guard.unlock();
        tell_bounds("out-of-bounds global", size, write, pc, detail);
    }
    guard.unlock();
    if (foreign_argument && address >= 65536) return;  // memory that nobody told us about: torch was there first
    std::snprintf(detail, sizeof detail, "no device memory lies at 0x%zx", static_cast<size_t>(address));
    tell_bounds("illegal global", size, write, pc, detail);
}

void look_back() {
    if (pending.active) {
        pending.active = false;
        if (std::memcmp(pending.address, pending.before, pending.size) == 0)
            pending.cell->same_value = true;
        else
            tell_race(pending.first, pending.first_wrote, pending.second, true, pending.shared);
    }
    for (unsigned i = 0; i < recent_count; ++i) {
        Recent& load = recent[i];
        if (load.size == 0 || std::memcmp(load.address, load.before, load.size) == 0) continue;
        const Recent store = load;
        load.size = 0;
        check_race(*store.cell, store.address, store.size, store.access, true, store.shared, true);
    }
}

void remember(const void* address, unsigned size, const Access& access, Cell* cell, bool shared) {
    if (size > sizeof recent[0].before) return;
    Recent& slot = recent[recent_next];
    recent_next = (recent_next + 1) % max_recent;
    if (recent_count < max_recent) ++recent_count;
    slot = {address, size, {}, access, cell, shared};
    std::memcpy(slot.before, address, size);
}

void check_access(const void* pointer, unsigned size, bool write, const void* pc) {
    look_back();
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const long offset = arena_offset(address);
    Cell* cells = nullptr;
    size_t first = 0, count = 0;
    if (offset >= 0) {
        check_shared(offset, pointer, size, write, pc);
        cells = arena_cells;
        first = static_cast<size_t>(offset);
    } else if (find_range(address)) {
        if (address + size > last_found.end) {
            char detail[200];
            std::snprintf(detail, sizeof detail, "its end is %zu bytes behind the last byte of an allocation of %zu bytes",
                          address + size - last_found.end, last_found.end - last_found.begin);
            tell_bounds("out-of-bounds global", size, write, pc, detail);
        }
        const size_t bytes = last_found.end - last_found.begin;
        if (*last_found.cells == nullptr && bytes <= max_raced_bytes)
            *last_found.cells = static_cast<Cell*>(std::calloc(bytes / 4 + 1, sizeof(Cell)));
        cells = *last_found.cells;
        first = address - last_found.begin;
    } else {
        check_unknown(address, size, write, pc);
    }
    bounds_thread = -1;
    if (cells == nullptr) return;
    Access access;
    access.time = now;
    access.block = block_rank();
    access.pc = relative(pc);
    access.thread = static_cast<unsigned short>(stitch::device.current);
    access.atomic = stitch_atomic;
    for (size_t at = first; at < first + size; at += count) {
        count = 4 - at % 4 < first + size - at ? 4 - at % 4 : first + size - at;
        access.bytes = static_cast<unsigned char>(((1u << count) - 1) << at % 4);
        const char* part = static_cast<const char*>(pointer) + (at - first);
        const bool stores = write || stitch_atomic;
        check_race(cells[at / 4], part, static_cast<unsigned>(count), access, stores, offset >= 0);
        if (!stores) remember(part, static_cast<unsigned>(count), access, &cells[at / 4], offset >= 0);
    }
}

}  // namespace
