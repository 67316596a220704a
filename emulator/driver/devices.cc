// cuDevice*, and the driver itself.
#include "emulator/driver/devices.h"

#include <cstring>

#include "emulator/cudart/driver_hooks.h"
#include "emulator/include/cuda.h"
#include "emulator/include/cuda_runtime_api.h"

namespace cinch::driver {

bool isDevice(int device) {
  return device >= 0 && device < cinchEmulatorDeviceCount();
}

}  // namespace cinch::driver

using namespace cinch::driver;

// There is nothing to prepare, and no function here asks whether it was called.
CUresult cuInit(unsigned int flags) {
  return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  static const char* const unknown = cudaGetErrorString(cudaErrorApiFailureBase);
  if (std::strcmp(*text, unknown) != 0) return CUDA_SUCCESS;
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!isDevice(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = cinchEmulatorDeviceCount();
  return CUDA_SUCCESS;
}

// Checks here what the runtime would refuse, since a failure there becomes its last error.
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  const int number = attribute;
  if (value == nullptr || number < cudaDevAttrMaxThreadsPerBlock || number >= cudaDevAttrMax)
    return CUDA_ERROR_INVALID_VALUE;
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  return static_cast<CUresult>(
      cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(number), device));
}
