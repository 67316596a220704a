// The devices of this process: sockets.
#include <array>

#include "net_plugin/net.h"
#include "net_plugin/socket/device.h"

namespace cinch::net {

Result<std::span<Device* const>> devices() {
  static const Result<Device*> sockets = openSocketDevice(processParams().params);
  if (!sockets) return sockets.error();
  static const std::array<Device*, 1> all = {sockets.value()};
  return std::span<Device* const>(all);
}

}  // namespace cinch::net
