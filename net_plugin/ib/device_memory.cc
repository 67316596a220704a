#include "net_plugin/ib/device_memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace cinch::net::ib {

bool hasPeerMemory(const std::string& sysfs) {
  constexpr std::array kModules = {"/module/nvidia_peermem/version",
                                   "/kernel/mm/memory_peers/nv_mem/version",
                                   "/kernel/mm/memory_peers/nv_mem_nc/version"};
  return std::any_of(kModules.begin(), kModules.end(), [&](const char* module) {
    return access((sysfs + module).c_str(), F_OK) == 0;
  });
}

// Nothing is behind descriptor -1: who knows dma-bufs says that (EBADF), and only who does not says
// that the call is not supported.
bool takesDmabuf(const VerbsApi& verbs, ibv_pd* domain) {
  if (verbs.regDmabufMr == nullptr) return false;
  errno = 0;
  ibv_mr* region = verbs.regDmabufMr(domain, 0, 0, 0, -1, 0);
  if (region == nullptr) return errno != EOPNOTSUPP && errno != EPROTONOSUPPORT;
  verbs.deregMr(region);
  return true;
}

const char* textOf(const DeviceMemory& memory) {
  if (memory.byAddress && memory.byDmabuf) return "GPU memory by dma-buf or address";
  if (memory.byAddress) return "GPU memory by address";
  return memory.byDmabuf ? "GPU memory by dma-buf" : "host memory only";
}

}  // namespace cinch::net::ib
