__device__ __forceinline__ float value_of(__half x) { return __half2float(x); }
__device__ __forceinline__ void put(__half& slot, float value) { slot = __float2half(value); }
