// Mean and sum of squared deviations by Welford's update: no cancellation when the mean is large.
struct Moments {
  float count, mean, squares;
  static __device__ Moments empty() { return {0.0f, 0.0f, 0.0f}; }
  __device__ void add(float x) {
    count += 1.0f;
    const float delta = x - mean;
    mean += delta / count;
    squares += delta * (x - mean);
  }
  __device__ void merge(const Moments& other) {
    const float all = count + other.count;
    if (all == 0.0f) return;
    const float delta = other.mean - mean, share = other.count / all;
    mean += delta * share;
    squares += other.squares + delta * delta * count * share;
    count = all;
  }
  __device__ Moments from_lane(int offset) const {
    return {__shfl_xor_sync(0xffffffffu, count, offset), __shfl_xor_sync(0xffffffffu, mean, offset),
            __shfl_xor_sync(0xffffffffu, squares, offset)};
  }
  __device__ void save(float* scratch) const { scratch[0] = count; scratch[1] = mean; scratch[2] = squares; }
  __device__ void restore(const float* scratch) { count = scratch[0]; mean = scratch[1]; squares = scratch[2]; }
};
