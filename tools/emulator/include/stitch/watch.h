// What the checks of a sanitized build (STITCH_SANITIZE) are told; nothing of it costs anything in an ordinary build.
#pragma once
#include <cstddef>
#include <cstring>
#include <type_traits>

// Accesses in a function like this are told with the line of its caller.
#define STITCH_INLINED inline __attribute__((always_inline))

#if defined(STITCH_SANITIZE)

extern "C" {
__attribute__((visibility("hidden"))) void stitch_note_memory(const void* address, std::size_t bytes);
__attribute__((visibility("hidden"))) void stitch_forget_memory(const void* address);
__attribute__((visibility("hidden"))) void stitch_note_argument(const void* pointer);
__attribute__((visibility("hidden"))) void stitch_note_launch();
__attribute__((visibility("hidden"))) void stitch_note_block();
__attribute__((visibility("hidden"))) void stitch_note_shared(const void* address, std::size_t bytes);
__attribute__((visibility("hidden"))) void stitch_note_barrier();
__attribute__((visibility("hidden"))) void stitch_note_grid_barrier();
__attribute__((visibility("hidden"))) void stitch_note_meeting(unsigned warp, unsigned participants);
__attribute__((visibility("hidden"))) void stitch_note_fence();
__attribute__((visibility("hidden"))) void stitch_settle();
__attribute__((visibility("hidden"))) void stitch_copied(const void* address, std::size_t bytes, bool write, int line);
extern __attribute__((visibility("hidden"))) volatile bool stitch_watching;
extern __attribute__((visibility("hidden"))) volatile bool stitch_atomic;
}

inline void stitch_unwatch() { stitch_watching = false; }

namespace stitch {

constexpr bool sanitized = true;
constexpr std::size_t shared_gap_bytes = 64;  // between static variables, so that an overrun of one meets nobody

struct Watching {  // candidate code runs
    Watching() { stitch_watching = true; }
    ~Watching() { stitch_watching = false; }
};
struct NotWatching {  // the emulator's own work in between
    bool before = stitch_watching;
    NotWatching() { stitch_watching = false; }
    ~NotWatching() { stitch_watching = before; }
};
struct Atomic {
    Atomic() { stitch_atomic = true; }
    ~Atomic() { stitch_atomic = false; }
};

template <class T>
inline void note_argument(const T& argument) {
    if constexpr (std::is_pointer<T>::value) {
        stitch_note_argument((const void*)(argument));
    } else if constexpr (std::is_class<T>::value && sizeof(T) >= sizeof(void*)) {
        // An accessor or a struct of pointers: whatever looks like an address.
        for (std::size_t at = 0; at + sizeof(void*) <= sizeof(T); at += sizeof(void*)) {
            std::size_t word;
            std::memcpy(&word, reinterpret_cast<const char*>(&argument) + at, sizeof word);
            if (word >> 32 != 0 && word >> 47 == 0) stitch_note_argument(reinterpret_cast<const void*>(word));
        }
    }
}

}  // namespace stitch

#else

inline void stitch_note_memory(const void*, std::size_t) {}
inline void stitch_forget_memory(const void*) {}
inline void stitch_note_launch() {}
inline void stitch_note_block() {}
inline void stitch_note_shared(const void*, std::size_t) {}
inline void stitch_note_barrier() {}
inline void stitch_note_grid_barrier() {}
inline void stitch_note_meeting(unsigned, unsigned) {}
inline void stitch_note_fence() {}
inline void stitch_settle() {}
inline void stitch_unwatch() {}
inline void stitch_copied(const void*, std::size_t, bool, int) {}

namespace stitch {

constexpr bool sanitized = false;
constexpr std::size_t shared_gap_bytes = 0;
struct Watching {
    Watching() {}
};
struct NotWatching {
    NotWatching() {}
};
struct Atomic {
    Atomic() {}
};
template <class T>
inline void note_argument(const T&) {}

}  // namespace stitch

#endif
