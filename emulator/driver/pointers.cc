// What is known of a pointer: cuPointerGetAttribute, cuMemGetAddressRange.
#include <cstring>

#include "emulator/cudart/driver_hooks.h"
#include "emulator/driver/contexts.h"
#include "emulator/include/cuda.h"

namespace {

bool find(CUdeviceptr pointer, CinchEmulatorAllocation* allocation) {
  return cinchEmulatorFindAllocation(reinterpret_cast<const void*>(pointer), allocation);
}

// Values have the type of the attribute, in memory of the caller's that need not be aligned.
template <class T>
CUresult give(void* value, T answer) {
  std::memcpy(value, &answer, sizeof answer);
  return CUDA_SUCCESS;
}

unsigned int memoryTypeOf(const CinchEmulatorAllocation& allocation) {
  return allocation.type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

CUresult giveAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer,
                       const CinchEmulatorAllocation& allocation) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(value, cinch::driver::contextOf(allocation.device));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(value, memoryTypeOf(allocation));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(value, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (allocation.type == cudaMemoryTypeDevice) return CUDA_ERROR_INVALID_VALUE;
      return give(value, pointer);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(value, unsigned{allocation.type == cudaMemoryTypeManaged});
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(value, allocation.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give(value, 0u);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(value, reinterpret_cast<CUdeviceptr>(allocation.base));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(value, allocation.nBytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(value, 1u);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  CinchEmulatorAllocation allocation;
  if (value == nullptr || !find(pointer, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  return giveAttribute(value, attribute, pointer, allocation);
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* nBytes, CUdeviceptr pointer) {
  CinchEmulatorAllocation allocation;
  if (!find(pointer, &allocation)) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = reinterpret_cast<CUdeviceptr>(allocation.base);
  if (nBytes != nullptr) *nBytes = allocation.nBytes;
  return CUDA_SUCCESS;
}
