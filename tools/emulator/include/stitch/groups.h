// Cooperative groups: the block, tiles of a warp, coalesced lanes; reduce and scan over them.
#pragma once
#include "warp.h"

namespace cooperative_groups {

namespace stitch_detail {
inline unsigned lane() { return stitch::device.current % stitch::lanes; }
inline unsigned lower(unsigned mask, unsigned lane) { return mask & ((1u << lane) - 1); }
inline unsigned nth_lane(unsigned mask, unsigned n) {
    for (; n != 0; --n) mask &= mask - 1;
    return mask == 0 ? 0 : static_cast<unsigned>(__builtin_ctz(mask));
}
}  // namespace stitch_detail

class thread_group {
  public:
    unsigned long long size() const { return __builtin_popcount(mask_); }
    unsigned long long num_threads() const { return size(); }
    unsigned long long thread_rank() const { return __builtin_popcount(stitch_detail::lower(mask_, stitch_detail::lane())); }
    void sync(int line = __builtin_LINE()) const { __syncwarp(mask_, line); }

  protected:
    explicit thread_group(unsigned mask) : mask_(mask) {}
    unsigned mask_;
};

class thread_block {
  public:
    static void sync(int line = __builtin_LINE()) { __syncthreads(line); }
    static void barrier_sync(int line = __builtin_LINE()) { __syncthreads(line); }
    static unsigned thread_rank() { return stitch::device.current; }
    static unsigned size() { return stitch::device.threads; }
    static unsigned num_threads() { return stitch::device.threads; }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

class grid_group {
  public:
    static bool is_valid() { return stitch::device.cooperative || gridDim.x * gridDim.y * gridDim.z == 1; }
    static void sync(int line = __builtin_LINE()) {
        if (gridDim.x * gridDim.y * gridDim.z == 1) return __syncthreads(line);
        if (!stitch::device.cooperative)
            stitch::abandon(cudaErrorLaunchFailure, "the grid-wide sync() in line %d needs cudaLaunchCooperativeKernel", line);
        stitch::device.grid_waiting++;
        stitch::wait_here(stitch::Wait::grid, line, 0);
    }
    static unsigned long long block_rank() { return (static_cast<unsigned long long>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
    static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long thread_rank() { return block_rank() * stitch::device.threads + stitch::device.current; }
    static unsigned long long size() { return num_blocks() * stitch::device.threads; }
    static unsigned long long num_threads() { return size(); }
    static dim3 group_dim() { return gridDim; }
};
inline grid_group this_grid() { return {}; }

// Operations of lanes that are named by a mask; ranks are positions in it.
class coalesced_group : public thread_group {
  public:
    explicit coalesced_group(unsigned mask) : thread_group(mask) {}
    unsigned stitch_mask() const { return mask_; }
    unsigned meta_group_rank() const { return 0; }
    unsigned meta_group_size() const { return 1; }
    template <class T>
    T shfl(T value, unsigned rank, int line = __builtin_LINE()) const {
        return __shfl_sync(mask_, value, static_cast<int>(stitch_detail::nth_lane(mask_, rank)), 32, line);
    }
    template <class T>
    T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
        const unsigned target = static_cast<unsigned>(thread_rank()) + delta;
        return shfl(value, target < size() ? target : static_cast<unsigned>(thread_rank()), line);
    }
    template <class T>
    T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
        const unsigned rank = static_cast<unsigned>(thread_rank());
        return shfl(value, rank >= delta ? rank - delta : rank, line);
    }
    int any(int predicate, int line = __builtin_LINE()) const { return __any_sync(mask_, predicate, line); }
    int all(int predicate, int line = __builtin_LINE()) const { return __all_sync(mask_, predicate, line); }
    unsigned ballot(int predicate, int line = __builtin_LINE()) const { return packed(__ballot_sync(mask_, predicate, line)); }
    template <class T>
    unsigned match_any(T value, int line = __builtin_LINE()) const { return packed(__match_any_sync(mask_, value, line)); }

  private:
    unsigned packed(unsigned lanes) const {
        unsigned result = 0, rank = 0;
        for (unsigned rest = mask_; rest != 0; rest &= rest - 1, ++rank)
            if (lanes >> __builtin_ctz(rest) & 1u) result |= 1u << rank;
        return result;
    }
};
inline coalesced_group coalesced_threads(int line = __builtin_LINE()) { return coalesced_group(__activemask(line)); }

template <unsigned Size, class Parent = void>
class thread_block_tile {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0, "the cpu device has tiles of 1, 2, 4, 8, 16 and 32 threads");

  public:
    static unsigned thread_rank() { return stitch::device.current % Size; }
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned meta_group_rank() { return stitch::device.current / Size; }
    static unsigned meta_group_size() { return (stitch::device.threads + Size - 1) / Size; }
    static unsigned stitch_mask() {
        return Size == 32 ? 0xffffffffu : ((1u << (Size % 32)) - 1) << (stitch_detail::lane() / Size * Size);
    }
    static void sync(int line = __builtin_LINE()) { __syncwarp(stitch_mask(), line); }
    template <class T>
    static T shfl(T value, int rank, int line = __builtin_LINE()) { return __shfl_sync(stitch_mask(), value, rank, Size, line); }
    template <class T>
    static T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) { return __shfl_down_sync(stitch_mask(), value, delta, Size, line); }
    template <class T>
    static T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) { return __shfl_up_sync(stitch_mask(), value, delta, Size, line); }
    template <class T>
    static T shfl_xor(T value, unsigned lane_mask, int line = __builtin_LINE()) {
        return __shfl_xor_sync(stitch_mask(), value, static_cast<int>(lane_mask), Size, line);
    }
    static int any(int predicate, int line = __builtin_LINE()) { return __any_sync(stitch_mask(), predicate, line); }
    static int all(int predicate, int line = __builtin_LINE()) { return __all_sync(stitch_mask(), predicate, line); }
    static unsigned ballot(int predicate, int line = __builtin_LINE()) {
        return __ballot_sync(stitch_mask(), predicate, line) >> (stitch_detail::lane() / Size * Size);
    }
    template <class T>
    static unsigned match_any(T value, int line = __builtin_LINE()) {
        return __match_any_sync(stitch_mask(), value, line) >> (stitch_detail::lane() / Size * Size);
    }
};

template <unsigned Size, class Parent>
inline thread_block_tile<Size, Parent> tiled_partition(const Parent&) { return {}; }
inline coalesced_group tiled_partition(const thread_block&, unsigned size) {
    const unsigned base = stitch_detail::lane() / size * size;
    return coalesced_group(size == 32 ? 0xffffffffu : ((1u << size) - 1) << base);
}

template <class Group>
inline void sync(const Group& group, int line = __builtin_LINE()) { group.sync(line); }

template <class T = void>
struct plus { T operator()(const T& a, const T& b) const { return a + b; } };
template <class T = void>
struct less { T operator()(const T& a, const T& b) const { return b < a ? b : a; } };
template <class T = void>
struct greater { T operator()(const T& a, const T& b) const { return a < b ? b : a; } };
template <class T = void>
struct bit_and { T operator()(const T& a, const T& b) const { return a & b; } };
template <class T = void>
struct bit_or { T operator()(const T& a, const T& b) const { return a | b; } };
template <class T = void>
struct bit_xor { T operator()(const T& a, const T& b) const { return a ^ b; } };

template <class Group, class T, class Combine>
inline T reduce(const Group& group, T value, Combine combine, int line = __builtin_LINE()) {
    return stitch::warp_reduce(group.stitch_mask(), value, [&](const T& a, const T& b) -> T { return combine(a, b); }, line);
}

namespace stitch_detail {
template <class T, class Combine>
inline T scan(unsigned mask, T value, Combine combine, bool inclusive, int line) {
    return stitch::meet(mask, value, stitch::WarpOp::reduce, line, [&](const stitch::Round& round, unsigned lane) {
        T total{};
        bool first = true;
        for (unsigned rest = round.participants; rest != 0; rest &= rest - 1) {
            const unsigned other = static_cast<unsigned>(__builtin_ctz(rest));
            if (other > lane || (other == lane && !inclusive)) break;
            const T next = stitch::value_of<T>(round, other);
            total = first ? next : combine(total, next);
            first = false;
        }
        return total;
    });
}
}  // namespace stitch_detail
template <class Group, class T, class Combine>
inline T inclusive_scan(const Group& group, T value, Combine combine, int line = __builtin_LINE()) {
    return stitch_detail::scan(group.stitch_mask(), value, combine, true, line);
}
template <class Group, class T>
inline T inclusive_scan(const Group& group, T value) { return inclusive_scan(group, value, plus<T>(), 0); }
template <class Group, class T, class Combine>
inline T exclusive_scan(const Group& group, T value, Combine combine, int line = __builtin_LINE()) {
    return stitch_detail::scan(group.stitch_mask(), value, combine, false, line);
}
template <class Group, class T>
inline T exclusive_scan(const Group& group, T value) { return exclusive_scan(group, value, plus<T>(), 0); }

}  // namespace cooperative_groups
