// What programs must find in the driver in order to load, and what cannot be on a CPU: code for the
// device, memory mapped by hand, a part of a device. Arguments are not looked at, and so not
// declared.
#include "emulator/include/cuda.h"

#define CINCH_NOT_SUPPORTED(name)                             \
  extern "C" [[gnu::visibility("default")]] CUresult name() { \
    return CUDA_ERROR_NOT_SUPPORTED;                          \
  }

// Tables that NVIDIA's own libraries share with its driver. NVRTC calls this without asking whether
// it is there.
extern "C" [[gnu::visibility("default")]] CUresult cuGetExportTable(const void** table,
                                                                    const void*) {
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_NOT_SUPPORTED;
}

// Code, and its launches
CINCH_NOT_SUPPORTED(cuModuleLoad)
CINCH_NOT_SUPPORTED(cuModuleLoadData)
CINCH_NOT_SUPPORTED(cuModuleLoadDataEx)
CINCH_NOT_SUPPORTED(cuModuleGetFunction)
CINCH_NOT_SUPPORTED(cuModuleUnload)
CINCH_NOT_SUPPORTED(cuLinkCreate_v2)
CINCH_NOT_SUPPORTED(cuLinkAddData_v2)
CINCH_NOT_SUPPORTED(cuLinkComplete)
CINCH_NOT_SUPPORTED(cuFuncGetAttribute)
CINCH_NOT_SUPPORTED(cuFuncSetAttribute)
CINCH_NOT_SUPPORTED(cuFuncSetCacheConfig)
CINCH_NOT_SUPPORTED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
CINCH_NOT_SUPPORTED(cuLaunchKernel)
CINCH_NOT_SUPPORTED(cuLaunchCooperativeKernel)
CINCH_NOT_SUPPORTED(cuTensorMapEncodeTiled)

// Memory mapped by hand, and memory that devices share
CINCH_NOT_SUPPORTED(cuMemAddressReserve)
CINCH_NOT_SUPPORTED(cuMemAddressFree)
CINCH_NOT_SUPPORTED(cuMemCreate)
CINCH_NOT_SUPPORTED(cuMemRelease)
CINCH_NOT_SUPPORTED(cuMemMap)
CINCH_NOT_SUPPORTED(cuMemUnmap)
CINCH_NOT_SUPPORTED(cuMemSetAccess)
CINCH_NOT_SUPPORTED(cuMemGetAllocationGranularity)
CINCH_NOT_SUPPORTED(cuMemGetAllocationPropertiesFromHandle)
CINCH_NOT_SUPPORTED(cuMemRetainAllocationHandle)
CINCH_NOT_SUPPORTED(cuMemExportToShareableHandle)
CINCH_NOT_SUPPORTED(cuMemImportFromShareableHandle)
CINCH_NOT_SUPPORTED(cuMulticastCreate)
CINCH_NOT_SUPPORTED(cuMulticastAddDevice)
CINCH_NOT_SUPPORTED(cuMulticastBindMem)
CINCH_NOT_SUPPORTED(cuMulticastUnbind)

// Writes by a stream
CINCH_NOT_SUPPORTED(cuStreamWriteValue32_v2)
CINCH_NOT_SUPPORTED(cuMemsetD32Async)

// A part of a device
CINCH_NOT_SUPPORTED(cuDeviceGetDevResource)
CINCH_NOT_SUPPORTED(cuDevResourceGenerateDesc)
CINCH_NOT_SUPPORTED(cuDevSmResourceSplitByCount)
CINCH_NOT_SUPPORTED(cuGreenCtxCreate)
CINCH_NOT_SUPPORTED(cuGreenCtxDestroy)
CINCH_NOT_SUPPORTED(cuGreenCtxStreamCreate)
CINCH_NOT_SUPPORTED(cuCtxFromGreenCtx)

// The driver's log
CINCH_NOT_SUPPORTED(cuLogsRegisterCallback)
CINCH_NOT_SUPPORTED(cuLogsUnregisterCallback)
