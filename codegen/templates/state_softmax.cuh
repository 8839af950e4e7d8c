// Running maximum and sum of exp(x - maximum), so that one pass over the row is enough.
struct Softmax {
  float maximum, total;
  static __device__ Softmax empty() { return {-INFINITY, 0.0f}; }
  __device__ void add(float x) {
    if (x > maximum) {
      total = total * expf(maximum - x) + (x == INFINITY ? NAN : 1.0f);
      maximum = x;
    } else {
      total += x == maximum ? 1.0f : expf(x - maximum);
    }
  }
  __device__ void merge(const Softmax& other) {
    const float top = fmaxf(maximum, other.maximum);
    const float mine = maximum == top ? total : total * expf(maximum - top);
    total = mine + (other.maximum == top ? other.total : other.total * expf(other.maximum - top));
    maximum = top;
  }
  __device__ Softmax from_lane(int offset) const {
    return {__shfl_xor_sync(0xffffffffu, maximum, offset), __shfl_xor_sync(0xffffffffu, total, offset)};
  }
  __device__ void save(float* scratch) const { scratch[0] = maximum; scratch[1] = total; }
  __device__ void restore(const float* scratch) { maximum = scratch[0]; total = scratch[1]; }
};
