// Which memory there is: global allocations, in one table per process, and the extension's own image.
#pragma once
#define STITCH_SANITIZE 1  // the declarations of the other side; these files themselves are not checked
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

namespace {

using std::size_t;
using std::uintptr_t;

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
        // A process that also does other work with torch keeps its allocator; only memory that is noted is watched then.
        if (!first || std::getenv("STITCHCUDA_KEEP_ALLOCATOR") != nullptr) return;
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

}  // namespace
