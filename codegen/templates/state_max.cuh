struct Max {
  float value;
  static __device__ Max empty() { return {-INFINITY}; }
  __device__ void add(float x) { value = nan_max(value, x); }
  __device__ void merge(const Max& other) { value = nan_max(value, other.value); }
  __device__ Max from_lane(int offset) const { return {__shfl_xor_sync(0xffffffffu, value, offset)}; }
  __device__ void save(float* scratch) const { scratch[0] = value; }
  __device__ void restore(const float* scratch) { value = scratch[0]; }
};
