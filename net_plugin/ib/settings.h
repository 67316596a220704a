// How this process uses InfiniBand and RoCE: NCCL's own variables, so that what a site has found
// for NCCL holds here as well.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "net_plugin/ib/gid.h"

namespace cinch::net::ib {

struct Settings {
  bool isDisabled = false;  // NCCL_IB_DISABLE
  std::string devices;  // NCCL_IB_HCA: "mlx5_0:1,mlx5_1"; ^ in front excludes, = takes exact names
  GidWish gid;
  size_t nQueues = 1;      // of each connection, NCCL_IB_QPS_PER_CONNECTION; more than kMaxParts
                           // count as that
  bool splits = false;     // NCCL_IB_SPLIT_DATA_ON_QPS: each message over all queues
  uint8_t timeout = 20;    // NCCL_IB_TIMEOUT: 4.096 us * 2^timeout until a packet is sent again
  uint8_t retries = 7;     // NCCL_IB_RETRY_CNT
  uint16_t partition = 0;  // NCCL_IB_PKEY: an index of the port's table of partitions
  // NCCL_IB_SL and NCCL_IB_TC; without them what the communicator asks for counts, else 0.
  std::optional<uint8_t> serviceLevel;
  std::optional<uint8_t> trafficClass;
  bool relaxedOrdering = true;  // NCCL_IB_PCI_RELAXED_ORDERING: 0 no, 1 and 2 where supported
  bool ece = true;              // NCCL_IB_ECE_ENABLE
  bool flushes = true;          // NCCL_GDR_FLUSH_DISABLE: 1 leaves flushes out
  // How long a port may be down until another takes over, and where there is no other: longer than
  // the queue pairs try with the values above.
  std::chrono::milliseconds portPatience{1000};
  std::chrono::milliseconds lastPortPatience{60000};
  std::string sysfs = "/sys";  // where the kernel says which modules it has; no variable
};

// `variable`: null where it is unset. An error names the variable, its value and the range.
Result<Settings> readSettings(const char* (*variable)(const char* name));

// Whether the list of NCCL_IB_HCA means this port. A name in the list means all devices whose names
// begin with it, and all their ports where it gives none.
bool isMeant(const std::string& list, const std::string& device, int port);

}  // namespace cinch::net::ib
