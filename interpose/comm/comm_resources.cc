#include "interpose/comm/comm_resources.h"

#include "interpose/comm/memory_reserve.h"
#include "interpose/real/codec_library.h"

namespace cinch {

Result<CommResources> CommResources::allocate(bool emulator) {
  auto library = loadCodecLibrary(emulator);
  if (!library.ok()) return library.error();
  CommResources resources;
  resources.device = library.value();
  const DeviceTable& device = *resources.device;
  const RelaxedCapture relaxed(device);
  CINCH_TRY_DEVICE(device, device.getDevice(&resources.cudaDevice), "no current device");
  auto fault = MemoryReserve::instance().allocate(device, sizeof(uint32_t), Buffer::Where::host);
  if (!fault.ok()) return fault.error();
  resources.fault = std::move(fault.value());
  *resources.fault.as<uint32_t>() = 0;
  return resources;
}

}  // namespace cinch
