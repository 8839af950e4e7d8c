// Tensor core operations of <mma.h>. A fragment's elements are spread over the lanes in an order of our own: CUDA leaves
// it open, so that code may only treat all of them alike.
#pragma once
#include "ptx.h"

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}

namespace stitch_detail {
template <class Use, int M, int N, int K>
struct Shape {
    static constexpr int rows = M, columns = N;
};
template <int M, int N, int K>
struct Shape<matrix_a, M, N, K> {
    static constexpr int rows = M, columns = K;
};
template <int M, int N, int K>
struct Shape<matrix_b, M, N, K> {
    static constexpr int rows = K, columns = N;
};
template <class T>
struct Storage {
    typedef T type;
    static float value(const T& x) { return static_cast<float>(x); }
};
template <>
struct Storage<precision::tf32> {
    typedef float type;
    static float value(float x) { return stitch::ptx::Tf32::value(stitch::ptx::bits(x), 0); }
};
inline unsigned lane() { return stitch::device.current % stitch::lanes; }
}  // namespace stitch_detail

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
    typedef stitch_detail::Shape<Use, M, N, K> shape;
    typedef typename stitch_detail::Storage<T>::type element_type;
    static constexpr int num_elements = shape::rows * shape::columns / 32;
    static constexpr int num_storage_elements = num_elements;
    element_type x[num_elements];
};

template <class Use, int M, int N, int K, class T, class Layout, class Value>
inline void fill_fragment(fragment<Use, M, N, K, T, Layout>& to, const Value& value) {
    for (auto& element : to.x) element = static_cast<typename fragment<Use, M, N, K, T, Layout>::element_type>(value);
}

namespace stitch_detail {
template <class Fragment, class Move>
inline void each(Fragment&, unsigned stride, bool by_rows, Move move) {
    for (int i = 0; i < Fragment::num_elements; ++i) {
        const unsigned flat = lane() * Fragment::num_elements + static_cast<unsigned>(i);
        const unsigned row = flat / Fragment::shape::columns, column = flat % Fragment::shape::columns;
        move(i, by_rows ? row * stride + column : column * stride + row);
    }
}
}  // namespace stitch_detail

template <class Use, int M, int N, int K, class T, class Layout, class Element>
STITCH_INLINED void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& to, const Element* from, unsigned stride) {
    stitch_detail::each(to, stride, std::is_same<Layout, row_major>::value, [&](int i, unsigned at) { to.x[i] = from[at]; });
}
template <int M, int N, int K, class T, class Element>
STITCH_INLINED void load_matrix_sync(fragment<accumulator, M, N, K, T>& to, const Element* from, unsigned stride, layout_t layout) {
    stitch_detail::each(to, stride, layout == mem_row_major, [&](int i, unsigned at) { to.x[i] = from[at]; });
}
template <int M, int N, int K, class T, class Element>
STITCH_INLINED void store_matrix_sync(Element* to, const fragment<accumulator, M, N, K, T>& from, unsigned stride, layout_t layout) {
    stitch_detail::each(from, stride, layout == mem_row_major, [&](int i, unsigned at) { to[at] = from.x[i]; });
}

namespace stitch_detail {
template <class T, class Fragment>
inline void gather(const Fragment& from, float* values, int line) {
    struct Own {
        typename Fragment::element_type x[Fragment::num_elements];
    } own;
    std::memcpy(static_cast<void*>(&own), from.x, sizeof own);
    stitch::meet(0xffffffffu, own, stitch::WarpOp::shuffle, line, [&](const stitch::Round& round, unsigned) {
        for (unsigned other = 0; other < 32; ++other) {
            const Own theirs = stitch::value_of<Own>(round, other);
            for (int i = 0; i < Fragment::num_elements; ++i) values[other * Fragment::num_elements + i] = Storage<T>::value(theirs.x[i]);
        }
        return 0;
    });
}
}  // namespace stitch_detail

template <int M, int N, int K, class T, class LayoutA, class LayoutB, class D, class C>
inline void mma_sync(fragment<accumulator, M, N, K, D>& d, const fragment<matrix_a, M, N, K, T, LayoutA>& a,
                     const fragment<matrix_b, M, N, K, T, LayoutB>& b, const fragment<accumulator, M, N, K, C>& c,
                     int line = __builtin_LINE()) {
    static_assert(!std::is_integral<T>::value, "the cpu device has half, bfloat16 and tf32 fragments");
    float left[M * K], right[K * N];
    stitch_detail::gather<T>(a, left, line);
    stitch_detail::gather<T>(b, right, line);
    for (int i = 0; i < d.num_elements; ++i) {
        const int flat = static_cast<int>(stitch_detail::lane()) * d.num_elements + i, row = flat / N, column = flat % N;
        float sum = static_cast<float>(c.x[i]);
        for (int k = 0; k < K; ++k) sum += left[row * K + k] * right[k * N + column];
        d.x[i] = static_cast<D>(sum);
    }
}

inline float __float_to_tf32(float x) { return stitch::ptx::to_tf32(x); }

}  // namespace wmma
}  // namespace nvcuda
