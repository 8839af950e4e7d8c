// The function objects of libcu++ that reductions are given.
#pragma once
#include <functional>

namespace cuda {
namespace std {
using ::std::bit_and;
using ::std::bit_or;
using ::std::bit_xor;
using ::std::divides;
using ::std::greater;
using ::std::less;
using ::std::logical_and;
using ::std::logical_or;
using ::std::minus;
using ::std::multiplies;
using ::std::plus;
}  // namespace std
template <class T = void>
struct maximum {
    template <class A>
    A operator()(const A& a, const A& b) const { return a < b ? b : a; }
};
template <class T = void>
struct minimum {
    template <class A>
    A operator()(const A& a, const A& b) const { return b < a ? b : a; }
};
}  // namespace cuda
