"""The C++ that every candidate starts with: memory access, layouts and checks shared by its kernels.

Pieces are written into a candidate only when one of its kernels needs them.
"""

from __future__ import annotations

__all__ = ["preamble"]

_INCLUDES = """\
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>
"""

_COMMON = """\
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
"""

_HALF = """\
__device__ __forceinline__ float value_of(__half x) { return __half2float(x); }
__device__ __forceinline__ void put(__half& slot, float value) { slot = __float2half(value); }
"""

_BFLOAT16 = """\
__device__ __forceinline__ float value_of(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void put(__nv_bfloat16& slot, float value) { slot = __float2bfloat16(value); }
"""

_LAYOUT = """\
// ---- layouts ----------------------------------------------------------------------------------------------

// Where the elements of N tensors lie in one iteration space. Neighbouring dimensions that every tensor
// walks through evenly are merged, so same-shape contiguous tensors have one dimension and need no division.
template <int N>
struct Layout {
  int dims;
  bool small;  // every index and offset fits into 32 bits
  long long sizes[MAX_DIMS];
  long long strides[N][MAX_DIMS];
  long long steps[N];  // distance of neighbours along the innermost direction
};

// Offsets of the element with linear index `i`.
template <int N, typename index_t>
__device__ __forceinline__ void locate(const Layout<N>& layout, index_t i, index_t (&at)[N]) {
#pragma unroll
  for (int n = 0; n < N; ++n) at[n] = 0;
  for (int d = layout.dims - 1; d > 0; --d) {
    const index_t size = static_cast<index_t>(layout.sizes[d]);
    const index_t next = i / size;
    const index_t here = i - next * size;
#pragma unroll
    for (int n = 0; n < N; ++n) at[n] += here * static_cast<index_t>(layout.strides[n][d]);
    i = next;
  }
#pragma unroll
  for (int n = 0; n < N; ++n) at[n] += i * static_cast<index_t>(layout.strides[n][0]);
}

// Stride of `tensor` along dimension `d` of a space of `rank` dimensions; 0 where it is broadcast.
// `appended` counts dimensions that the tensor lacks at its end (a reduced value without keepdim).
static long long stride_in(const torch::Tensor& tensor, int rank, int d, int appended) {
  const int own = d - (rank - static_cast<int>(tensor.dim()) - appended);
  if (own < 0 || own >= tensor.dim() || tensor.size(own) == 1) return 0;
  return tensor.stride(own);
}

// Layout over the first `dims` dimensions of `shape`.
template <int N>
static Layout<N> collapse(const std::vector<int64_t>& shape, int dims,
                          const std::array<const torch::Tensor*, N>& tensors, const std::array<int, N>& appended) {
  Layout<N> layout;
  layout.dims = 0;
  layout.small = true;
  long long elements = 1, reach[N] = {};
  const int rank = static_cast<int>(shape.size());
  for (int d = 0; d < dims; ++d) {
    if (shape[d] == 1) continue;
    long long strides[N];
    bool merges = layout.dims > 0;
    for (int n = 0; n < N; ++n) {
      strides[n] = stride_in(*tensors[n], rank, d, appended[n]);
      reach[n] += strides[n] * (shape[d] - 1);
      merges = merges && layout.strides[n][layout.dims - 1] == strides[n] * shape[d];
    }
    if (!merges) layout.sizes[layout.dims++] = 1;
    const int last = layout.dims - 1;
    layout.sizes[last] *= shape[d];
    for (int n = 0; n < N; ++n) layout.strides[n][last] = strides[n];
    elements *= shape[d];
  }
  if (layout.dims == 0) {
    layout.dims = 1;
    layout.sizes[0] = 1;
    for (int n = 0; n < N; ++n) layout.strides[n][0] = 0;
  }
  for (int n = 0; n < N; ++n) {
    layout.steps[n] = layout.strides[n][layout.dims - 1];
    layout.small = layout.small && reach[n] < (1LL << 30);
  }
  layout.small = layout.small && elements < (1LL << 30);
  return layout;
}

struct Address {
  const void* pointer;
  int element_bytes;
};

// Whether runs of `length` elements may be read `width` at a time; `outer` dimensions lead from run to run.
template <int N>
static bool fits_vector(const Layout<N>& layout, int outer, long long length,
                        const std::array<Address, N>& addresses, int width) {
  if (length % width != 0) return false;
  for (int n = 0; n < N; ++n) {
    if (layout.steps[n] == 0) continue;
    if (layout.steps[n] != 1) return false;
    if (reinterpret_cast<uintptr_t>(addresses[n].pointer) % (width * addresses[n].element_bytes) != 0) return false;
    for (int d = 0; d < outer; ++d)
      if (layout.strides[n][d] % width != 0) return false;
  }
  return true;
}

// ---- checks -----------------------------------------------------------------------------------------------

static void check_operand(const torch::Tensor& tensor, at::ScalarType type, const char* name) {
  TORCH_CHECK(tensor.is_cuda(), name, " must be a CUDA tensor");
  TORCH_CHECK(tensor.scalar_type() == type, name, " has another dtype than this kernel was written for");
  TORCH_CHECK(tensor.dim() <= MAX_DIMS, name, " has more than 8 dimensions");
}

// The common shape of `tensors` by PyTorch's broadcasting rules.
static std::vector<int64_t> broadcast_shape(const std::vector<const torch::Tensor*>& tensors, const char* kernel) {
  size_t rank = 0;
  for (const torch::Tensor* tensor : tensors)
    if (static_cast<size_t>(tensor->dim()) > rank) rank = static_cast<size_t>(tensor->dim());
  std::vector<int64_t> shape(rank, 1);
  for (const torch::Tensor* tensor : tensors) {
    const size_t shift = rank - static_cast<size_t>(tensor->dim());
    for (int64_t d = 0; d < tensor->dim(); ++d) {
      int64_t& size = shape[shift + static_cast<size_t>(d)];
      if (tensor->size(d) == 1) continue;
      TORCH_CHECK(size == 1 || size == tensor->size(d), kernel, ": sizes ", size, " and ", tensor->size(d),
                  " do not broadcast");
      size = tensor->size(d);
    }
  }
  return shape;
}
"""

_GRID = """\
static int grid_size(long long vectors, long long vectors_per_block) {
  const long long blocks = (vectors + vectors_per_block - 1) / vectors_per_block;
  TORCH_CHECK(blocks <= INT32_MAX, "too many elements for one launch");
  return static_cast<int>(blocks);
}
"""

_ROWS = """\
// ---- rows -------------------------------------------------------------------------------------------------

// Combines the states of all threads that work on one row; every thread gets the result.
// With one warp per row no barrier is reached, so warps may leave early.
template <typename State>
__device__ __forceinline__ State reduce_row(State state, float* scratch) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) state.merge(state.from_lane(offset));
  if (blockDim.x <= 32) return state;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  __syncthreads();  // an earlier reduction may still be reading scratch
  if (lane == 0) state.save(scratch + warp * 3);
  __syncthreads();
  state = State::empty();
  if (lane < warps) state.restore(scratch + lane * 3);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) state.merge(state.from_lane(offset));
  return state;
}

static long long row_length(const std::vector<int64_t>& shape, int dims) {
  long long length = 1;
  for (size_t d = shape.size() - static_cast<size_t>(dims); d < shape.size(); ++d) length *= shape[d];
  return length;
}

// 1 when `tensor` has an element of its own for each place in a row, 0 when one value serves the whole row.
static long long row_step(const torch::Tensor& tensor, const std::vector<int64_t>& shape, int dims, int appended,
                          const char* name) {
  bool dense = true, constant = true;
  const int rank = static_cast<int>(shape.size());
  for (int d = rank - dims; d < rank; ++d) {
    const int own = d - (rank - static_cast<int>(tensor.dim()) - appended);
    const int64_t size = own < 0 || own >= tensor.dim() ? 1 : tensor.size(own);
    dense = dense && size == shape[static_cast<size_t>(d)];
    constant = constant && size == 1;
  }
  TORCH_CHECK(dense || constant, name, " is neither dense nor constant within a row");
  return constant ? 0 : 1;
}

// `tensor` itself when its rows are dense in memory, else a copy.
static torch::Tensor with_dense_rows(const torch::Tensor& tensor, int dims) {
  long long expected = 1;
  for (int64_t d = tensor.dim() - 1; d >= 0 && d >= tensor.dim() - dims; --d) {
    if (tensor.size(d) != 1 && tensor.stride(d) != expected) return tensor.contiguous();
    expected *= tensor.size(d);
  }
  return tensor;
}
"""

_STATES = {
    "Sum": """\
struct Sum {
  float total;
  static __device__ Sum empty() { return {0.0f}; }
  __device__ void add(float x) { total += x; }
  __device__ void merge(const Sum& other) { total += other.total; }
  __device__ Sum from_lane(int offset) const { return {__shfl_xor_sync(0xffffffffu, total, offset)}; }
  __device__ void save(float* scratch) const { scratch[0] = total; }
  __device__ void restore(const float* scratch) { total = scratch[0]; }
};
""",
    "Max": """\
struct Max {
  float value;
  static __device__ Max empty() { return {-INFINITY}; }
  __device__ void add(float x) { value = nan_max(value, x); }
  __device__ void merge(const Max& other) { value = nan_max(value, other.value); }
  __device__ Max from_lane(int offset) const { return {__shfl_xor_sync(0xffffffffu, value, offset)}; }
  __device__ void save(float* scratch) const { scratch[0] = value; }
  __device__ void restore(const float* scratch) { value = scratch[0]; }
};
""",
    "Min": """\
struct Min {
  float value;
  static __device__ Min empty() { return {INFINITY}; }
  __device__ void add(float x) { value = nan_min(value, x); }
  __device__ void merge(const Min& other) { value = nan_min(value, other.value); }
  __device__ Min from_lane(int offset) const { return {__shfl_xor_sync(0xffffffffu, value, offset)}; }
  __device__ void save(float* scratch) const { scratch[0] = value; }
  __device__ void restore(const float* scratch) { value = scratch[0]; }
};
""",
    "Softmax": """\
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
""",
    "Moments": """\
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
""",
}


def preamble(*, dtypes: set[str], helpers: dict[str, str], states: set[str], chains: bool) -> str:
    """The shared C++ of one candidate.

    Args:
        dtypes: dtypes that its kernels touch.
        helpers: device functions by name, as in ``ops.HELPERS``.
        states: names of the row states in use.
        chains: whether there is an elementwise kernel.
    """
    parts = [_INCLUDES]
    if "float16" in dtypes or "round_half" in helpers:
        parts.append("#include <cuda_fp16.h>\n")
    if "bfloat16" in dtypes or "round_bfloat16" in helpers:
        parts.append("#include <cuda_bf16.h>\n")
    parts.append(_COMMON)
    if "float16" in dtypes:
        parts.append(_HALF)
    if "bfloat16" in dtypes:
        parts.append(_BFLOAT16)
    if helpers:
        parts.append("\n".join(f"__device__ __forceinline__ {code}" for code in helpers.values()) + "\n")
    parts.append(_LAYOUT)
    if chains:
        parts.append(_GRID)
    if states:
        parts.append(_ROWS)
        parts += [text for name, text in _STATES.items() if name in states]
    return "\n".join(parts)
