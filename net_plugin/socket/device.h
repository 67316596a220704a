// The socket transport behind net.h: one device for all interfaces that NCCL may use.
#pragma once

#include "net_plugin/socket/helpers.h"

namespace cinch::net {

// Opens the network over the interfaces that NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY allow, all
// of them where it names some, else the first as NCCL orders them; starts the helpers. The device
// lives as long as the process.
Result<Device*> openSocketDevice(const Params& params);

}  // namespace cinch::net
