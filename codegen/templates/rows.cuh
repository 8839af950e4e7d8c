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
