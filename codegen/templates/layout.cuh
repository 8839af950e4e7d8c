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
