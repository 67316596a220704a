// cuCtx* and cuDevicePrimaryCtx*.
#include "emulator/driver/contexts.h"

#include <array>
#include <vector>

#include "emulator/cudart/driver_hooks.h"
#include "emulator/driver/devices.h"
#include "emulator/environment.h"

namespace cinch::driver {
namespace {

std::array<char, emulator::kMaxDevices> handles;  // the address of each is a context

// The devices whose contexts were current when others were pushed. What is current now is kept by
// the runtime, where cudaSetDevice changes it, too.
thread_local std::vector<int> pushed;

bool isContext(CUcontext context) {
  return deviceOf(context) >= 0;
}

}  // namespace

CUcontext contextOf(int device) {
  return device < 0 ? nullptr : reinterpret_cast<CUcontext>(&handles[static_cast<size_t>(device)]);
}

int deviceOf(CUcontext context) {
  for (int device = 0; device < cinchEmulatorDeviceCount(); ++device)
    if (contextOf(device) == context) return device;
  return -1;
}

}  // namespace cinch::driver

using namespace cinch::driver;

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = cinchEmulatorDeviceIsActive(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  cinchEmulatorActivateDevice(device);
  *context = contextOf(device);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = contextOf(cinchEmulatorBoundDevice());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (context != nullptr && !isContext(context)) return CUDA_ERROR_INVALID_CONTEXT;
  cinchEmulatorBindDevice(deviceOf(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  if (!isContext(context)) return CUDA_ERROR_INVALID_CONTEXT;
  pushed.push_back(cinchEmulatorBoundDevice());
  cinchEmulatorBindDevice(deviceOf(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  const int top = cinchEmulatorBoundDevice();
  if (top < 0) return CUDA_ERROR_INVALID_CONTEXT;
  cinchEmulatorBindDevice(pushed.empty() ? -1 : pushed.back());
  if (!pushed.empty()) pushed.pop_back();
  if (context != nullptr) *context = contextOf(top);
  return CUDA_SUCCESS;
}
