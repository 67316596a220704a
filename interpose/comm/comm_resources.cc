#include "interpose/comm/comm_resources.h"

#include "common/param.h"
#include "interpose/comm/memory_reserve.h"
#include "interpose/real/codec_library.h"

namespace cinch {
namespace {

// Where NCCL loads its own kernels, before anything of this communicator can run.
Result<SmShare> loadKernelsOf(const DeviceTable& device) {
  SmShare share;
  const auto smPercent = static_cast<uint32_t>(processParams().params.smPercent);
  const int error = device.loadKernels(smPercent, &share);
  if (error == 0) return share;
  char gpu[128] = "this GPU";
  (void)device.deviceName(gpu, sizeof gpu);
  if (error == kNoMachineCode)
    return errorf(Status::cudaError,
                  "Cinch has no machine code for %s: docs/support.md lists the GPUs that it is "
                  "built for",
                  gpu);
  return errorf(Status::cudaError, "Cinch's kernels cannot be loaded onto %s: %s", gpu,
                device.errorName(error));
}

}  // namespace

void CommResources::loadKernels(bool emulator) {
  const auto library = loadCodecLibrary(emulator);
  if (!library.ok()) return;
  const RelaxedCapture relaxed(*library.value());
  (void)loadKernelsOf(*library.value());
}

Result<CommResources> CommResources::allocate(bool emulator) {
  auto library = loadCodecLibrary(emulator);
  if (!library.ok()) return library.error();
  CommResources resources;
  resources.device = library.value();
  const DeviceTable& device = *resources.device;
  const RelaxedCapture relaxed(device);
  CINCH_TRY_DEVICE(device, device.getDevice(&resources.cudaDevice), "no current device");
  const auto share = loadKernelsOf(device);
  CINCH_TRY(share);
  resources.sms = share.value();
  auto fault = MemoryReserve::instance().allocate(device, sizeof(uint32_t), Buffer::Where::host);
  if (!fault.ok()) return fault.error();
  resources.fault = std::move(fault.value());
  *resources.fault.as<uint32_t>() = 0;
  return resources;
}

}  // namespace cinch
