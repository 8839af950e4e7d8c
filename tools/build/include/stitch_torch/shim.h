// The functions of torch's stable C interface that the facade calls, declared instead of included:
// torch's own header pulls in its number types and costs the device compiler more than ten times as much.
// Every one exists since torch 2.9; later ones are weak and looked at before use, or kept for the versions that have
// them by STITCH_TORCH_MINOR (the builder's 13 for torch 2.13).
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef STITCH_TORCH_MINOR
#define STITCH_TORCH_MINOR 9
#endif

struct AtenTensorOpaque;
using AtenTensorHandle = AtenTensorOpaque*;

extern "C" {
int32_t aoti_torch_delete_tensor_object(AtenTensorHandle tensor);
int32_t aoti_torch_new_tensor_handle(AtenTensorHandle original, AtenTensorHandle* result);
int32_t aoti_torch_is_defined(AtenTensorHandle tensor, bool* result);
int32_t aoti_torch_is_contiguous(AtenTensorHandle tensor, bool* result);
int32_t aoti_torch_get_data_ptr(AtenTensorHandle tensor, void** result);
int32_t aoti_torch_get_dim(AtenTensorHandle tensor, int64_t* result);
int32_t aoti_torch_get_numel(AtenTensorHandle tensor, int64_t* result);
int32_t aoti_torch_get_sizes(AtenTensorHandle tensor, int64_t** result);
int32_t aoti_torch_get_strides(AtenTensorHandle tensor, int64_t** result);
int32_t aoti_torch_get_dtype(AtenTensorHandle tensor, int32_t* result);
int32_t aoti_torch_get_layout(AtenTensorHandle tensor, int32_t* result);
int32_t aoti_torch_get_device_type(AtenTensorHandle tensor, int32_t* result);
int32_t aoti_torch_get_device_index(AtenTensorHandle tensor, int32_t* result);
int32_t aoti_torch_get_storage_offset(AtenTensorHandle tensor, int64_t* result);
int32_t aoti_torch_empty_strided(int64_t dim, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                 int32_t device_type, int32_t device_index, AtenTensorHandle* result);
int32_t aoti_torch__reinterpret_tensor(AtenTensorHandle self, int64_t dim, const int64_t* sizes,
                                       const int64_t* strides, int64_t offset_increment, AtenTensorHandle* result);
int32_t aoti_torch_create_tensor_from_blob(void* data, int64_t dim, const int64_t* sizes, const int64_t* strides,
                                           int64_t storage_offset, int32_t dtype, int32_t device_type,
                                           int32_t device_index, AtenTensorHandle* result);
int32_t aoti_torch_clone(AtenTensorHandle self, AtenTensorHandle* result);
int32_t aoti_torch_copy_(AtenTensorHandle self, AtenTensorHandle source, int32_t non_blocking);
int32_t aoti_torch_zero_(AtenTensorHandle self);
int32_t aoti_torch_aten_fill__Scalar(AtenTensorHandle self, double value);
int32_t aoti_torch_aten_subtract_Tensor(AtenTensorHandle self, AtenTensorHandle other, double alpha,
                                        AtenTensorHandle* result);
int32_t aoti_torch_scalar_to_tensor_float64(double value, AtenTensorHandle* result);
int32_t aoti_torch_scalar_to_tensor_float32(float value, AtenTensorHandle* result);
int32_t aoti_torch_scalar_to_tensor_int64(int64_t value, AtenTensorHandle* result);
int32_t aoti_torch_call_dispatcher(const char* op, const char* overload, uint64_t* stack);
int32_t aoti_torch_item_float64(AtenTensorHandle tensor, double* result);
int32_t aoti_torch_item_float32(AtenTensorHandle tensor, float* result);
int32_t aoti_torch_item_int64(AtenTensorHandle tensor, int64_t* result);
int32_t aoti_torch_item_int32(AtenTensorHandle tensor, int32_t* result);
int32_t aoti_torch_item_bool(AtenTensorHandle tensor, bool* result);
bool aoti_torch_grad_mode_is_enabled();
void aoti_torch_grad_mode_set_enabled(bool enabled);

#if STITCH_TORCH_MINOR >= 10
struct StableListOpaque;
int32_t torch_new_list_reserve_size(size_t size, StableListOpaque** result);
int32_t torch_list_push_back(StableListOpaque* list, uint64_t element);
#endif
// torch 2.13 and newer
__attribute__((weak)) const char* torch_exception_get_what_without_backtrace();
// builds of torch for CUDA
__attribute__((weak)) int32_t aoti_torch_get_current_cuda_stream(int32_t device_index, void** result);
}
