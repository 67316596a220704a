// How this process's flows are to be, from the CINCH_NET_* parameters. Read once.
#pragma once

#include <cstdint>

#include "common/network/socket.h"
#include "common/param.h"
#include "net_plugin/wire/handshake.h"

namespace cinch::net {

struct SocketSettings {
  int nFlows = 4;  // to each peer
  uint32_t chunkBytes = 64 << 10;
  int nHelpers = 1;
  ChecksumChoice checksum = ChecksumChoice::sampled;
  Clock::duration timeout = std::chrono::seconds(30);
  Key key;
};

// Fails where CINCH_NET_KEY_FILE names what is no key.
Result<SocketSettings> readSocketSettings(const Params& params);

}  // namespace cinch::net
