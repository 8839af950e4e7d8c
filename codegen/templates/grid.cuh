static int grid_size(long long vectors, long long vectors_per_block) {
  const long long blocks = (vectors + vectors_per_block - 1) / vectors_per_block;
  TORCH_CHECK(blocks <= INT32_MAX, "too many elements for one launch");
  return static_cast<int>(blocks);
}
