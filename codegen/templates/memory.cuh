#include <array>
#include <cstdint>
#include <vector>

constexpr int MAX_DIMS = 8;

// ---- memory access ----------------------------------------------------------------------------------------

// VEC neighbouring elements: one 128-bit access for four floats.
template <typename T, int VEC>
struct alignas(sizeof(T) * VEC) Pack {
  T at[VEC];
};

// Loads VEC elements that lie `step` apart: 1 for dense data, 0 for a value that is broadcast.
template <int VEC, typename T>
__device__ __forceinline__ Pack<T, VEC> load(const T* source, long long step) {
  if (VEC > 1 && step == 1) return *reinterpret_cast<const Pack<T, VEC>*>(source);
  Pack<T, VEC> pack;
#pragma unroll
  for (int k = 0; k < VEC; ++k) pack.at[k] = source[k * step];
  return pack;
}

template <int VEC, typename T>
__device__ __forceinline__ void store(T* target, const Pack<T, VEC>& pack) {
  *reinterpret_cast<Pack<T, VEC>*>(target) = pack;
}

// Arithmetic is done in float; integers and booleans keep their type.
__device__ __forceinline__ float value_of(float x) { return x; }
__device__ __forceinline__ long long value_of(long long x) { return x; }
__device__ __forceinline__ int value_of(int x) { return x; }
__device__ __forceinline__ bool value_of(bool x) { return x; }
template <typename T, typename V>
__device__ __forceinline__ void put(T& slot, V value) { slot = static_cast<T>(value); }
