__device__ __forceinline__ float value_of(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ void put(__nv_bfloat16& slot, float value) { slot = __float2bfloat16(value); }
