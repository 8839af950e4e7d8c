struct Sum {
  float total;
  static __device__ Sum empty() { return {0.0f}; }
  __device__ void add(float x) { total += x; }
  __device__ void merge(const Sum& other) { total += other.total; }
  __device__ Sum from_lane(int offset) const { return {__shfl_xor_sync(0xffffffffu, total, offset)}; }
  __device__ void save(float* scratch) const { scratch[0] = total; }
  __device__ void restore(const float* scratch) { total = scratch[0]; }
};
