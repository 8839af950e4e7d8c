// The checks of a sanitized build: g++ calls a function here before every load and store of candidate code
// (-fsanitize=kernel-address with calls only) and at misaligned or out-of-range expressions (alignment, bounds).
// Compiled without those flags, linked into each sanitized extension. Knows which memory there is from torch's CPU
// allocator, which it replaces, and from cudaMalloc.
#define STITCH_SANITIZE 1  // the declarations of the other side; this file itself is not checked
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <link.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <unistd.h>

#include <stitch/state.h>
#include <stitch/watch.h>
#include <stitch/where.h>

volatile bool stitch_watching = false;
volatile bool stitch_atomic = false;

namespace {

using std::size_t;
using std::uintptr_t;

// --- which global memory there is: one table per process -----------------------------------------------------------

struct Access {
    unsigned time = 0, block = 0, pc = 0;
    unsigned short thread = 0;
    unsigned char bytes = 0;  // mask over the four bytes of a word
    bool atomic = false;
};

struct Cell {  // the accesses to one word of four bytes that may still race with another
    Access write, read, other_read;
    bool same_value = false;  // a second writer stored what was there already
};

struct Range {
    size_t bytes;
    Cell* cells;
};

struct Table {
    std::mutex lock;
    std::map<uintptr_t, Range> ranges;
};

Table* table() {
    static Table* shared = [] {
        const char* name = "STITCHCUDA_MEMORY_TABLE";  // how the extensions of one process find each other
        unsigned long pid = 0, address = 0;
        const char* said = std::getenv(name);
        if (said != nullptr && std::sscanf(said, "%lu:%lx", &pid, &address) == 2 && pid == static_cast<unsigned long>(getpid()))
            return reinterpret_cast<Table*>(address);
        auto* fresh = new Table;
        char text[64];
        std::snprintf(text, sizeof text, "%lu:%lx", static_cast<unsigned long>(getpid()), reinterpret_cast<unsigned long>(fresh));
        setenv(name, text, 1);
        return fresh;
    }();
    return shared;
}

struct Found {
    uintptr_t begin = 1, end = 0;
    Cell** cells = nullptr;
};
Found last_found;

constexpr size_t gap_bytes = 256;
c10::Allocator* real_allocator = nullptr;

void give_back(void* context) {
    stitch_forget_memory(static_cast<char*>(context) + gap_bytes);
    real_allocator->raw_deallocate(context);
}

// torch's CPU memory with a gap on both sides that no tensor owns; filled with NaN, as nothing has been written.
struct WatchedAllocator final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
        auto* whole = static_cast<char*>(real_allocator->raw_allocate(bytes + 2 * gap_bytes));
        std::memset(whole, 0xff, bytes + 2 * gap_bytes);
        stitch_note_memory(whole + gap_bytes, bytes);
        return {whole + gap_bytes, whole, &give_back, c10::Device(c10::DeviceType::CPU)};
    }
    void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

struct Installed {
    Installed() {
        const char* said = std::getenv("STITCHCUDA_MEMORY_TABLE");
        unsigned long pid = 0;
        const bool first = said == nullptr || std::sscanf(said, "%lu:", &pid) != 1 || pid != static_cast<unsigned long>(getpid());
        table();
        if (!first) return;
        real_allocator = c10::GetCPUAllocator();
        c10::SetCPUAllocator(new WatchedAllocator, 100);
    }
} installed;

bool find_range(uintptr_t address) {
    if (address >= last_found.begin && address < last_found.end) return true;
    Table& all = *table();
    std::lock_guard<std::mutex> guard(all.lock);
    auto after = all.ranges.upper_bound(address);
    if (after == all.ranges.begin()) return false;
    --after;
    if (address >= after->first + after->second.bytes) return false;
    last_found = {after->first, after->first + after->second.bytes, &after->second.cells};
    return true;
}

// --- this shared object --------------------------------------------------------------------------------------------

struct Image {
    uintptr_t base = 0, begin = 0, end = 0;
    char path[1024] = {};
};

int find_image(dl_phdr_info* info, size_t, void* data) {
    auto& image = *static_cast<Image*>(data);
    const auto self = reinterpret_cast<uintptr_t>(&stitch_watching);
    uintptr_t low = ~uintptr_t(0), high = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = begin + info->dlpi_phdr[i].p_memsz;
        if (begin < low) low = begin;
        if (end > high) high = end;
    }
    if (self < low || self >= high) return 0;
    image.base = info->dlpi_addr;
    image.begin = low;
    image.end = high;
    std::snprintf(image.path, sizeof image.path, "%s", info->dlpi_name);
    return 1;
}

const Image& image() {
    static const Image found = [] {
        Image result;
        dl_iterate_phdr(find_image, &result);
        return result;
    }();
    return found;
}

unsigned relative(const void* pc) { return static_cast<unsigned>(reinterpret_cast<uintptr_t>(pc) - image().base); }

struct Place {
    char text[256];
    explicit Place(unsigned pc) { stitch::describe_place(image().path, pc, text, sizeof text); }
};

// --- the state of a launch -----------------------------------------------------------------------------------------

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
