// The block- and warp-wide parts of CUB: reductions, scans, loads and stores. Temporary storage is really used, so that
// code which re-uses it without a barrier races here as well. Device-wide algorithms are not here.
#pragma once
#include "functional.h"
#include "warp.h"

namespace cub {

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm { BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE };
enum BlockStoreAlgorithm { BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE };

struct Sum {
    template <class T>
    T operator()(const T& a, const T& b) const { return a + b; }
};
struct Max {
    template <class T>
    T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
struct Min {
    template <class T>
    T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
template <class K, class V>
struct KeyValuePair {
    typedef K Key;
    typedef V Value;
    K key;
    V value;
    KeyValuePair() = default;
    KeyValuePair(const K& k, const V& v) : key(k), value(v) {}
};
struct ArgMax {
    template <class K, class V>
    KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a, const KeyValuePair<K, V>& b) const {
        return b.value > a.value || (b.value == a.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class K, class V>
    KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a, const KeyValuePair<K, V>& b) const {
        return b.value < a.value || (b.value == a.value && b.key < a.key) ? b : a;
    }
};

namespace stitch_detail {
template <class T>
union Raw {  // as CUB's, for types with constructors
    alignas(T) unsigned char bytes[sizeof(T)];
    T& get() { return *reinterpret_cast<T*>(bytes); }
    const T& get() const { return *reinterpret_cast<const T*>(bytes); }
};
inline unsigned rank() { return stitch::device.current; }
template <class T, int Items, class Combine>
inline T within(const T (&items)[Items], Combine combine) {
    T total = items[0];
    for (int i = 1; i < Items; ++i) total = combine(total, items[i]);
    return total;
}
// A result that CUB leaves undefined.
template <class T>
inline T undefined() {
    if constexpr (std::is_trivially_copyable<T>::value) return stitch::undefined_value<T>();
    else return T();
}
}  // namespace stitch_detail

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int = 0>
class BlockReduce {
    static constexpr int threads = X * Y * Z;

  public:
    struct TempStorage {
        stitch_detail::Raw<T> values[threads];
    };
    explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

    // The result is for thread 0 only.
    template <class Combine>
    T Reduce(const T& value, Combine combine, int valid, int line = __builtin_LINE()) {
        storage_.values[stitch_detail::rank()].get() = value;
        __syncthreads(line);
        if (stitch_detail::rank() != 0) return stitch_detail::undefined<T>();
        T total = storage_.values[0].get();
        for (int t = 1; t < valid; ++t) total = combine(total, storage_.values[t].get());
        return total;
    }
    template <class Combine>
    T Reduce(const T& value, Combine combine) { return Reduce(value, combine, threads); }
    template <int Items, class Combine>
    T Reduce(const T (&items)[Items], Combine combine) { return Reduce(stitch_detail::within(items, combine), combine, threads); }
    T Sum(const T& value) { return Reduce(value, cub::Sum(), threads); }
    T Sum(const T& value, int valid) { return Reduce(value, cub::Sum(), valid); }
    template <int Items>
    T Sum(const T (&items)[Items]) { return Reduce(items, cub::Sum()); }

  private:
    TempStorage& storage_;
};

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0>
class BlockScan {
    static constexpr int threads = X * Y * Z;

  public:
    struct TempStorage {
        stitch_detail::Raw<T> values[threads];
    };
    explicit BlockScan(TempStorage& storage) : storage_(storage) {}

    template <class Combine>
    void InclusiveScan(T input, T& output, Combine combine, T& aggregate) {
        publish(input);
        output = prefix(stitch_detail::rank() + 1, combine);
        aggregate = prefix(threads, combine);
    }
    template <class Combine>
    void InclusiveScan(T input, T& output, Combine combine) {
        publish(input);
        output = prefix(stitch_detail::rank() + 1, combine);
    }
    template <class Combine>
    void ExclusiveScan(T input, T& output, T initial, Combine combine, T& aggregate) {
        publish(input);
        output = stitch_detail::rank() == 0 ? initial : combine(initial, prefix(stitch_detail::rank(), combine));
        aggregate = prefix(threads, combine);
    }
    template <class Combine>
    void ExclusiveScan(T input, T& output, T initial, Combine combine) {
        T unused;
        ExclusiveScan(input, output, initial, combine, unused);
    }
    template <int Items, class Combine>
    void InclusiveScan(T (&input)[Items], T (&output)[Items], Combine combine) {
        publish(stitch_detail::within(input, combine));
        T running = input[0];
        if (stitch_detail::rank() != 0) running = combine(prefix(stitch_detail::rank(), combine), running);
        for (int i = 0; i < Items; ++i) {
            const T next = i + 1 < Items ? input[i + 1] : T();
            output[i] = running;
            if (i + 1 < Items) running = combine(running, next);
        }
    }
    template <int Items, class Combine>
    void ExclusiveScan(T (&input)[Items], T (&output)[Items], T initial, Combine combine) {
        publish(stitch_detail::within(input, combine));
        T running = stitch_detail::rank() == 0 ? initial : combine(initial, prefix(stitch_detail::rank(), combine));
        for (int i = 0; i < Items; ++i) {
            const T own = input[i];
            output[i] = running;
            running = combine(running, own);
        }
    }
    void InclusiveSum(T input, T& output) { InclusiveScan(input, output, cub::Sum()); }
    void InclusiveSum(T input, T& output, T& aggregate) { InclusiveScan(input, output, cub::Sum(), aggregate); }
    void ExclusiveSum(T input, T& output) { ExclusiveScan(input, output, T(0), cub::Sum()); }
    void ExclusiveSum(T input, T& output, T& aggregate) { ExclusiveScan(input, output, T(0), cub::Sum(), aggregate); }
    template <int Items>
    void InclusiveSum(T (&input)[Items], T (&output)[Items]) { InclusiveScan(input, output, cub::Sum()); }
    template <int Items>
    void ExclusiveSum(T (&input)[Items], T (&output)[Items]) { ExclusiveScan(input, output, T(0), cub::Sum()); }

  private:
    void publish(const T& value) {
        storage_.values[stitch_detail::rank()].get() = value;
        __syncthreads();
    }
    template <class Combine>
    T prefix(int count, Combine combine) const {
        T total = storage_.values[0].get();
        for (int t = 1; t < count; ++t) total = combine(total, storage_.values[t].get());
        return total;
    }
    TempStorage& storage_;
};

namespace stitch_detail {
template <int Width>
inline unsigned segment_mask() {
    const unsigned lane = rank() % 32;
    return Width == 32 ? 0xffffffffu : ((1u << (Width % 32)) - 1) << (lane / Width * Width);
}
// combine() of the lanes of the caller's segment from its first to position `last`.
template <int Width, class T, class Combine>
inline T fold(const T& value, int last, Combine combine, int line) {
    return stitch::meet(segment_mask<Width>(), value, stitch::WarpOp::reduce, line, [&](const stitch::Round& round, unsigned lane) {
        const unsigned first = lane / Width * Width;
        T total = stitch::value_of<T>(round, first);
        for (int i = 1; i <= last && first + i < 32u; ++i)
            if (round.participants >> (first + i) & 1u) total = combine(total, stitch::value_of<T>(round, first + i));
        return total;
    });
}
}  // namespace stitch_detail

template <class T, int Width = 32, int = 0>
class WarpReduce {
    static_assert(Width >= 1 && Width <= 32 && (Width & (Width - 1)) == 0, "the cpu device has warps of 1, 2, 4, 8, 16 and 32 lanes");

  public:
    struct TempStorage {
        char unused;
    };
    explicit WarpReduce(TempStorage&) {}
    template <class Combine>
    T Reduce(T value, Combine combine, int valid, int line = __builtin_LINE()) {
        const T total = stitch_detail::fold<Width>(value, valid - 1, combine, line);
        return stitch_detail::rank() % Width == 0 ? total : stitch_detail::undefined<T>();
    }
    template <class Combine>
    T Reduce(T value, Combine combine) { return Reduce(value, combine, Width); }
    T Sum(T value) { return Reduce(value, cub::Sum(), Width); }
    T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }
};

template <class T, int Width = 32, int = 0>
class WarpScan {
  public:
    struct TempStorage {
        char unused;
    };
    explicit WarpScan(TempStorage&) {}
    template <class Combine>
    void InclusiveScan(T input, T& output, Combine combine, int line = __builtin_LINE()) {
        output = stitch_detail::fold<Width>(input, static_cast<int>(stitch_detail::rank() % Width), combine, line);
    }
    template <class Combine>
    void ExclusiveScan(T input, T& output, T initial, Combine combine, int line = __builtin_LINE()) {
        const int position = static_cast<int>(stitch_detail::rank() % Width);
        const T before = stitch_detail::fold<Width>(input, position - 1, combine, line);
        output = position == 0 ? initial : combine(initial, before);
    }
    void InclusiveSum(T input, T& output) { InclusiveScan(input, output, cub::Sum()); }
    void InclusiveSum(T input, T& output, T& aggregate) {
        InclusiveScan(input, output, cub::Sum());
        aggregate = Broadcast(output, Width - 1);
    }
    void ExclusiveSum(T input, T& output) { ExclusiveScan(input, output, T(0), cub::Sum()); }
    void ExclusiveSum(T input, T& output, T& aggregate) {
        ExclusiveScan(input, output, T(0), cub::Sum());
        aggregate = Broadcast(output + input, Width - 1);
    }
    T Broadcast(T value, unsigned source) { return __shfl_sync(stitch_detail::segment_mask<Width>(), value, static_cast<int>(source), Width); }
};

// Striped: thread t has items t, t + threads, …; otherwise blocked: items t * Items, t * Items + 1, ….
template <class T, int X, int Items, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1>
class BlockLoad {
    static constexpr int threads = X * Y * Z;

  public:
    struct TempStorage {
        char unused;
    };
    BlockLoad() {}
    explicit BlockLoad(TempStorage&) {}
    template <class Iterator>
    void Load(Iterator from, T (&items)[Items]) { Load(from, items, threads * Items); }
    template <class Iterator>
    void Load(Iterator from, T (&items)[Items], int valid) {
        for (int i = 0; i < Items; ++i)
            if (place(i) < valid) items[i] = from[place(i)];
    }
    template <class Iterator, class Default>
    void Load(Iterator from, T (&items)[Items], int valid, Default missing) {
        for (int i = 0; i < Items; ++i) items[i] = place(i) < valid ? static_cast<T>(from[place(i)]) : static_cast<T>(missing);
    }

  private:
    static int place(int i) {
        const int t = static_cast<int>(stitch_detail::rank());
        return Algorithm == BLOCK_LOAD_STRIPED ? i * threads + t : t * Items + i;
    }
};

template <class T, int X, int Items, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1>
class BlockStore {
    static constexpr int threads = X * Y * Z;

  public:
    struct TempStorage {
        char unused;
    };
    BlockStore() {}
    explicit BlockStore(TempStorage&) {}
    template <class Iterator>
    void Store(Iterator to, T (&items)[Items]) { Store(to, items, threads * Items); }
    template <class Iterator>
    void Store(Iterator to, T (&items)[Items], int valid) {
        const int t = static_cast<int>(stitch_detail::rank());
        for (int i = 0; i < Items; ++i) {
            const int place = Algorithm == BLOCK_STORE_STRIPED ? i * threads + t : t * Items + i;
            if (place < valid) to[place] = items[i];
        }
    }
};

}  // namespace cub
