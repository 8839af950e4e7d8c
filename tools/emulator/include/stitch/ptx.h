// What the rewriter makes of inline PTX. Fragments of ldmatrix and mma lie as the PTX manual says: lane = 4 * group + t.
#pragma once
#include "pipeline.h"
#include "small_float.h"

namespace stitch {
namespace ptx {

inline unsigned lane() { return device.current % lanes; }
inline unsigned warp() { return device.current / lanes; }

// --- operands: registers are untyped, so that a float may be written through a "r" constraint and the reverse ---------

template <class T>
inline unsigned bits(const T& value) {
    static_assert(sizeof(T) == 4, "a register of 32 bits");
    unsigned result;
    std::memcpy(&result, &value, 4);
    return result;
}
template <class T>
inline unsigned* pointer(T& value) {
    static_assert(sizeof(T) == 4, "a register of 32 bits");
    return reinterpret_cast<unsigned*>(&value);
}
template <class To, class From>
inline void put(To& to, From from) {
    if constexpr (sizeof(To) == sizeof(From)) std::memcpy(static_cast<void*>(&to), &from, sizeof to);
    else to = static_cast<To>(from);
}
template <class To, class From>
inline void move(To& to, From from) {
    if constexpr (std::is_pointer<From>::value && !std::is_pointer<To>::value) to = static_cast<To>(reinterpret_cast<std::uintptr_t>(from));
    else put(to, from);
}
template <class T>
inline float as_float(T value) {
    return bits_as<float>(bits(value));
}

template <class T>
inline unsigned char* global_address(T address, long long offset) {
    if constexpr (std::is_pointer<T>::value) return reinterpret_cast<unsigned char*>(const_cast<std::remove_cv_t<std::remove_pointer_t<T>>*>(address)) + offset;
    else return reinterpret_cast<unsigned char*>(static_cast<std::uintptr_t>(address)) + offset;
}
// An address as __cvta_generic_to_shared gives it: the distance from the dynamic shared memory.
template <class T>
inline unsigned char* shared_address(T address, long long offset) {
    return dynamic_shared_memory + static_cast<int>(static_cast<unsigned>(address)) + offset;
}
template <class T, int Count>
inline T* aligned(unsigned char* address) {
    if (reinterpret_cast<std::uintptr_t>(address) % (sizeof(T) * Count) != 0)
        abandon(cudaErrorMisalignedAddress, "a load or store of %zu bytes by inline PTX is not aligned", sizeof(T) * Count);
    return reinterpret_cast<T*>(address);
}

// --- math -------------------------------------------------------------------------------------------------------------

inline float ex2(float x) { return exp2f(x); }
inline float lg2(float x) { return log2f(x); }
inline float rcp(float x) { return 1.0f / x; }
inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
inline float sqrt(float x) { return sqrtf(x); }
inline float tanh(float x) { return tanhf(x); }
inline float sin(float x) { return sinf(x); }
inline float cos(float x) { return cosf(x); }
inline float neg(float x) { return -x; }
inline float abs(float x) { return fabsf(x); }
inline unsigned lop3(unsigned a, unsigned b, unsigned c, unsigned table) {
    unsigned result = 0;
    for (unsigned row = 0; row < 8; ++row)
        if (table >> row & 1u) result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
    return result;
}
// To nearest, ties away from zero: 10 bits of mantissa stay.
inline float to_tf32(float x) {
    const unsigned raw = bits(x);
    return (raw & 0x7f800000u) == 0x7f800000u ? x : bits_as<float>((raw + 0x1000u) & 0xffffe000u);
}

struct Half {
    static constexpr unsigned per_register = 2;
    static float value(unsigned word, unsigned i) { return HalfFormat::decode(static_cast<unsigned short>(word >> 16 * i)); }
    static unsigned encode(float x) { return HalfFormat::encode(x); }
};
struct Bfloat {
    static constexpr unsigned per_register = 2;
    static float value(unsigned word, unsigned i) { return BfloatFormat::decode(static_cast<unsigned short>(word >> 16 * i)); }
    static unsigned encode(float x) { return BfloatFormat::encode(x); }
};
struct Tf32 {
    static constexpr unsigned per_register = 1;
    static float value(unsigned word, unsigned) { return bits_as<float>(word & 0xffffe000u); }
};
template <class Format>
inline unsigned pack(float low, float high) { return Format::encode(low) | Format::encode(high) << 16; }

// --- matrices -----------------------------------------------------------------------------------------------------------

struct Row {
    unsigned short element[8];
};

template <unsigned Count, bool Transposed>
inline void ldmatrix(unsigned* (&to)[Count], const unsigned char* address, int line) {
    Row own{};
    if (lane() < 8 * Count) {
        if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) abandon(cudaErrorMisalignedAddress, "ldmatrix (line %d): a row is not aligned to 16 bytes", line);
        std::memcpy(&own, address, sizeof own);
        stitch_copied(address, sizeof own, false, line);
    }
    meet(0xffffffffu, own, WarpOp::shuffle, line, [&](const Round& round, unsigned self) {
        const unsigned group = self / 4, pair = self % 4 * 2;
        for (unsigned m = 0; m < Count; ++m) {
            unsigned low, high;
            if (Transposed) {
                low = value_of<Row>(round, 8 * m + pair).element[group];
                high = value_of<Row>(round, 8 * m + pair + 1).element[group];
            } else {
                const Row row = value_of<Row>(round, 8 * m + group);
                low = row.element[pair];
                high = row.element[pair + 1];
            }
            *to[m] = low | high << 16;
        }
        return 0;
    });
}

// D[16, 8] = A[16, K] B[K, 8] + C in float; with half results every sum is rounded once.
template <class Format, unsigned K, bool FloatResult>
inline void mma(unsigned* const* d, const unsigned* a, const unsigned* b, const unsigned* c, int line) {
    constexpr unsigned per = Format::per_register, steps = K / (4 * per);  // registers of B in a lane
    struct Registers {
        unsigned a[2 * steps], b[steps];
    } own;
    std::memcpy(own.a, a, sizeof own.a);
    std::memcpy(own.b, b, sizeof own.b);
    float result[4];
    meet(0xffffffffu, own, WarpOp::shuffle, line, [&](const Round& round, unsigned self) {
        const unsigned group = self / 4, t = self % 4;
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned row = group + i / 2 * 8, column = 2 * t + i % 2;
            float sum = FloatResult ? bits_as<float>(c[i]) : Half::value(c[i / 2], i % 2);
            for (unsigned step = 0; step < steps; ++step)
                for (unsigned other = 0; other < 4; ++other) {
                    const unsigned word_a = value_of<Registers>(round, row % 8 * 4 + other).a[2 * step + row / 8];
                    const unsigned word_b = value_of<Registers>(round, column * 4 + other).b[step];
                    for (unsigned e = 0; e < per; ++e) sum += Format::value(word_a, e) * Format::value(word_b, e);
                }
            result[i] = sum;
        }
        return 0;
    });
    if (FloatResult)
        for (unsigned i = 0; i < 4; ++i) *d[i] = bits(result[i]);
    else
        for (unsigned i = 0; i < 2; ++i) *d[i] = pack<Half>(result[2 * i], result[2 * i + 1]);
}

}  // namespace ptx
}  // namespace stitch
