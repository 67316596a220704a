// Whether a network device reaches the memory of GPUs, and by which of two ways. Asked as NCCL
// 2.27's net_ib asks.
#pragma once

#include <string>

#include "net_plugin/ib/verbs_api.h"

namespace cinch::net::ib {

struct DeviceMemory {
  bool byAddress = false;  // peer memory: the kernel resolves a GPU's addresses for ibv_reg_mr
  bool byDmabuf = false;   // ibv_reg_dmabuf_mr

  bool any() const { return byAddress || byDmabuf; }
  // Whether this takes all that `other` takes.
  bool covers(const DeviceMemory& other) const {
    return (byAddress || !other.byAddress) && (byDmabuf || !other.byDmabuf);
  }
};

// Whether a module of the kernel is loaded that resolves a GPU's addresses: nvidia_peermem, or
// nv_mem of MLNX_OFED. `sysfs`: where the kernel says so, "/sys".
bool hasPeerMemory(const std::string& sysfs);

// Whether the library, the kernel and the device's driver all know dma-bufs. Registers nothing.
bool takesDmabuf(const VerbsApi& verbs, ibv_pd* domain);

// For the log.
const char* textOf(const DeviceMemory& memory);

}  // namespace cinch::net::ib
