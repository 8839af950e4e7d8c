// Atomics. Only one CUDA thread runs at a time and none is interrupted, so a read-modify-write is enough.
#pragma once
#include <type_traits>

#include "watch.h"

namespace stitch {

template <class T>
struct Plain {
    typedef T type;
};
template <class T>
using plain = typename Plain<T>::type;   // stops deduction: the pointer alone decides the type

template <class T>
struct IsAtomicInteger {
    static constexpr bool value = std::is_integral<T>::value && (sizeof(T) == 4 || sizeof(T) == 8);
};

}  // namespace stitch

#define STITCH_ATOMIC(NAME, CONDITION, EXPRESSION)                                         \
    template <class T>                                                                     \
    STITCH_INLINED T NAME(T* address, stitch::plain<T> value) {                                    \
        static_assert(CONDITION, #NAME " has no overload for this type");                  \
        const ::stitch::Atomic atomic;                                                     \
        const T old = *address;                                                            \
        *address = static_cast<T>(EXPRESSION);                                             \
        return old;                                                                        \
    }                                                                                      \
    template <class T>                                                                     \
    STITCH_INLINED T NAME##_block(T* address, stitch::plain<T> value) {                            \
        return NAME(address, value);                                                       \
    }                                                                                      \
    template <class T>                                                                     \
    STITCH_INLINED T NAME##_system(T* address, stitch::plain<T> value) {                           \
        return NAME(address, value);                                                       \
    }

#define STITCH_INTEGER stitch::IsAtomicInteger<T>::value
// Signed 64-bit addition does not exist in CUDA: the cast to unsigned long long is the candidate's to write.
STITCH_ATOMIC(atomicAdd, (!std::is_integral<T>::value || (STITCH_INTEGER && !(sizeof(T) == 8 && std::is_signed<T>::value))), old + value)
STITCH_ATOMIC(atomicSub, (STITCH_INTEGER && sizeof(T) == 4), old - value)
STITCH_ATOMIC(atomicExch, (STITCH_INTEGER || std::is_same<T, float>::value), value)
STITCH_ATOMIC(atomicMin, STITCH_INTEGER, value < old ? value : old)
STITCH_ATOMIC(atomicMax, STITCH_INTEGER, old < value ? value : old)
STITCH_ATOMIC(atomicAnd, STITCH_INTEGER, old & value)
STITCH_ATOMIC(atomicOr, STITCH_INTEGER, old | value)
STITCH_ATOMIC(atomicXor, STITCH_INTEGER, old ^ value)
STITCH_ATOMIC(atomicInc, (std::is_same<T, unsigned>::value), old >= value ? 0u : old + 1)
STITCH_ATOMIC(atomicDec, (std::is_same<T, unsigned>::value), old == 0 || old > value ? value : old - 1)
#undef STITCH_ATOMIC
#undef STITCH_INTEGER

template <class T>
STITCH_INLINED T atomicCAS(T* address, stitch::plain<T> expected, stitch::plain<T> desired) {
    static_assert(std::is_integral<T>::value && sizeof(T) >= 2, "atomicCAS takes integers of 16, 32 or 64 bits");
    const stitch::Atomic atomic;
    const T old = *address;
    if (old == expected) *address = desired;
    return old;
}
template <class T>
STITCH_INLINED T atomicCAS_block(T* address, stitch::plain<T> expected, stitch::plain<T> desired) {
    return atomicCAS(address, expected, desired);
}
template <class T>
STITCH_INLINED T atomicCAS_system(T* address, stitch::plain<T> expected, stitch::plain<T> desired) {
    return atomicCAS(address, expected, desired);
}
