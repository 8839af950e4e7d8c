// Barriers, shuffles, votes and fences of device code.
#pragma once
#include <type_traits>

#include "runtime.h"

#define STITCH_LINE int line = __builtin_LINE()

inline void __syncthreads(STITCH_LINE) { stitch::barrier(0, line); }
inline int __syncthreads_count(int predicate, STITCH_LINE) { return stitch::barrier(predicate, line).count; }
inline int __syncthreads_or(int predicate, STITCH_LINE) { return stitch::barrier(predicate, line).count != 0; }
inline int __syncthreads_and(int predicate, STITCH_LINE) {
    const stitch::BarrierResult result = stitch::barrier(!predicate, line);
    return result.count == 0;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, STITCH_LINE) {
    stitch::meet(mask, 0, stitch::WarpOp::sync, line, [](const stitch::Round&, unsigned) { return 0; });
}

inline void __threadfence() { stitch_note_fence(); }
inline void __threadfence_block() {}
inline void __threadfence_system() { stitch_note_fence(); }
inline void __nanosleep(unsigned) {}
inline unsigned __activemask(STITCH_LINE) { return stitch::active_mask(line); }

namespace stitch {

enum class Direction { index, up, down, exclusive_or };

// One shuffle within segments of `width` lanes (1, 2, 4 … 32). A source lane that takes no part gives an undefined
// value; a source outside of the segment gives the caller's own.
template <class T>
inline T shuffle(unsigned mask, T value, int operand, int width, Direction direction, int line) {
    static_assert(std::is_trivially_copyable<T>::value, "a shuffle moves plain data");
    return meet(mask, value, WarpOp::shuffle, line, [=](const Round& round, unsigned lane) -> T {
        const int own = static_cast<int>(lane);
        const int first = own / width * width, last = first + width - 1;
        int source = own;
        switch (direction) {
            case Direction::index: source = first + (operand & (width - 1)); break;
            case Direction::up: source = own - operand < first ? own : own - operand; break;
            case Direction::down: source = operand > last - own ? own : own + operand; break;
            // CUDA: a lane may read from its own or an earlier segment, not from a later one
            case Direction::exclusive_or: source = (own ^ operand) > last ? own : (own ^ operand); break;
        }
        if (source < 0 || source >= static_cast<int>(lanes) || !(round.participants >> source & 1u)) return undefined_value<T>();
        return value_of<T>(round, static_cast<unsigned>(source));
    });
}

inline unsigned vote(unsigned mask, bool predicate, int line) {
    return meet(mask, static_cast<int>(predicate), WarpOp::vote, line, [](const Round& round, unsigned) {
        unsigned result = 0;
        for (unsigned rest = round.participants; rest != 0; rest &= rest - 1) {
            const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
            if (value_of<int>(round, lane)) result |= 1u << lane;
        }
        return result;
    });
}

template <class T, class Combine>
inline T warp_reduce(unsigned mask, T value, Combine combine, int line) {
    return meet(mask, value, WarpOp::reduce, line, [=](const Round& round, unsigned) {
        unsigned rest = round.participants;
        T total = value_of<T>(round, static_cast<unsigned>(__builtin_ctz(rest)));
        for (rest &= rest - 1; rest != 0; rest &= rest - 1)
            total = combine(total, value_of<T>(round, static_cast<unsigned>(__builtin_ctz(rest))));
        return total;
    });
}

template <class T>
inline unsigned match(unsigned mask, T value, int line) {
    return meet(mask, value, WarpOp::match, line, [=](const Round& round, unsigned) {
        unsigned same = 0;
        for (unsigned rest = round.participants; rest != 0; rest &= rest - 1) {
            const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
            if (std::memcmp(round.values[lane], &value, sizeof(T)) == 0) same |= 1u << lane;
        }
        return same;
    });
}

}  // namespace stitch

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, STITCH_LINE) {
    return stitch::shuffle(mask, value, source, width, stitch::Direction::index, line);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, STITCH_LINE) {
    return stitch::shuffle(mask, value, static_cast<int>(delta), width, stitch::Direction::up, line);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, STITCH_LINE) {
    return stitch::shuffle(mask, value, static_cast<int>(delta), width, stitch::Direction::down, line);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, STITCH_LINE) {
    return stitch::shuffle(mask, value, lane_mask, width, stitch::Direction::exclusive_or, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, STITCH_LINE) { return stitch::vote(mask, predicate != 0, line); }
inline int __any_sync(unsigned mask, int predicate, STITCH_LINE) { return stitch::vote(mask, predicate != 0, line) != 0; }
inline int __all_sync(unsigned mask, int predicate, STITCH_LINE) { return stitch::vote(mask, predicate == 0, line) == 0; }
template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, STITCH_LINE) {
    return stitch::match(mask, value, line);
}
template <class T>
inline unsigned __match_all_sync(unsigned mask, T value, int* predicate, STITCH_LINE) {
    const unsigned all = stitch::vote(mask, true, line);
    const bool same = stitch::match(mask, value, line) == all;
    *predicate = same;
    return same ? all : 0;
}

#define STITCH_REDUCE(NAME, EXPRESSION)                                                              \
    template <class T>                                                                               \
    inline T __reduce_##NAME##_sync(unsigned mask, T value, STITCH_LINE) {                           \
        static_assert(sizeof(T) == 4 && std::is_integral<T>::value, "int and unsigned only");        \
        return stitch::warp_reduce(mask, value, [](T a, T b) -> T { return EXPRESSION; }, line);     \
    }
STITCH_REDUCE(add, a + b)
STITCH_REDUCE(min, a < b ? a : b)
STITCH_REDUCE(max, a < b ? b : a)
STITCH_REDUCE(and, a & b)
STITCH_REDUCE(or, a | b)
STITCH_REDUCE(xor, a ^ b)
#undef STITCH_REDUCE

[[noreturn]] inline void __trap() { stitch::abandon(cudaErrorLaunchFailure, "__trap() was called"); }
