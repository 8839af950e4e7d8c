// A borrowed row of values: c10::ArrayRef.
#pragma once

#include <array>
#include <initializer_list>
#include <vector>

#include "check.h"

#pragma GCC diagnostic push
// A borrowed initializer list is what `empty({n, m})` needs: it lives until the end of the call.
#pragma GCC diagnostic ignored "-Winit-list-lifetime"

namespace c10 {

template <class T>
class ArrayRef {
 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;
  using size_type = size_t;
  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(static_cast<size_t>(end - begin)) {}
  template <class A>
  ArrayRef(const std::vector<T, A>& values) : data_(values.data()), size_(values.size()) {}
  template <size_t N>
  constexpr ArrayRef(const std::array<T, N>& values) : data_(values.data()), size_(N) {}
  template <size_t N>
  constexpr ArrayRef(const T (&values)[N]) : data_(values), size_(N) {}
  constexpr ArrayRef(const std::initializer_list<T>& values)
      : data_(values.begin() == values.end() ? nullptr : values.begin()), size_(values.size()) {}
  constexpr iterator begin() const { return data_; }
  constexpr iterator end() const { return data_ + size_; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t index) const { return data_[index]; }
  const T& at(size_t index) const {
    TORCH_CHECK(index < size_, "ArrayRef: invalid index Index = ", index, "; Length = ", size_);
    return data_[index];
  }
  const T& front() const { return data_[0]; }
  const T& back() const { return data_[size_ - 1]; }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  constexpr ArrayRef<T> slice(size_t from, size_t count) const { return ArrayRef<T>(data_ + from, count); }
  constexpr ArrayRef<T> slice(size_t from) const { return ArrayRef<T>(data_ + from, size_ - from); }
  bool equals(ArrayRef<T> other) const {
    if (size_ != other.size_) return false;
    for (size_t i = 0; i < size_; ++i)
      if (!(data_[i] == other.data_[i])) return false;
    return true;
  }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};
template <class T>
bool operator==(ArrayRef<T> a, ArrayRef<T> b) {
  return a.equals(b);
}
template <class T>
bool operator!=(ArrayRef<T> a, ArrayRef<T> b) {
  return !a.equals(b);
}
template <class T>
bool operator==(ArrayRef<T> a, const std::vector<T>& b) {
  return a.equals(ArrayRef<T>(b));
}
template <class T>
bool operator==(const std::vector<T>& a, ArrayRef<T> b) {
  return ArrayRef<T>(a).equals(b);
}
#ifdef STITCH_PART_STD
template <class T>
std::ostream& operator<<(std::ostream& out, ArrayRef<T> values) {
  out << '[';
  for (size_t i = 0; i < values.size(); ++i) out << (i ? ", " : "") << values[i];
  return out << ']';
}
#endif
using IntArrayRef = ArrayRef<int64_t>;
inline stitch_detail::Piece::Piece(const ArrayRef<int64_t>& value)
    : kind(Kind::sizes), count(static_cast<int64_t>(value.size())), pointer(value.data()) {}
inline stitch_detail::Piece::Piece(const ArrayRef<double>& value)
    : kind(Kind::reals), count(static_cast<int64_t>(value.size())), pointer(value.data()) {}
}  // namespace c10

#pragma GCC diagnostic pop
