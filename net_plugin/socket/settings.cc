#include "net_plugin/socket/settings.h"

namespace cinch::net {

Result<SocketSettings> readSocketSettings(const Params& params) {
  SocketSettings settings;
  settings.nFlows = static_cast<int>(params.netFlows);
  settings.chunkBytes = uint32_t{32 << 10} << static_cast<int>(params.netChunk);
  settings.nHelpers = static_cast<int>(params.netThreads);
  settings.checksum = params.netChecksum;
  settings.timeout = std::chrono::seconds(params.netTimeout);
  if (params.netKeyFile.empty()) return settings;
  Result<Key> key = readKeyFile("CINCH_NET_KEY_FILE", params.netKeyFile);
  if (!key) return key.error();
  settings.key = std::move(key.value());
  return settings;
}

}  // namespace cinch::net
