// An active port of a device, opened: where queues are made and memory is made known. Kept until
// the process ends, shared by all connections.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "net_plugin/ib/card.h"
#include "net_plugin/ib/device_memory.h"
#include "net_plugin/ib/region_cache.h"
#include "net_plugin/ib/settings.h"
#include "net_plugin/ib/verbs_api.h"
#include "net_plugin/net.h"

namespace cinch::net::ib {

// The path of a PCI function in /sys as that of its card: ports and virtual functions of one share
// its link, which NCCL reckons with. As NCCL 2.27's net_ib.
std::string cardPathOf(std::string functionPath);

class Port {
 public:
  // Null where there is no such port or it is not active. An error says which device and why it
  // cannot be used.
  static Result<std::unique_ptr<Port>> open(const VerbsApi& verbs, ibv_device* device,
                                            uint8_t number, const Settings& settings);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  const VerbsApi& verbs() const { return verbs_; }
  const Settings& settings() const { return settings_; }
  const std::string& name() const { return name_; }      // "mlx5_0:1"
  const std::string& choice() const { return choice_; }  // which address and why, for the log
  std::string pciPath() const;  // of the card, in /sys; empty where it is not on PCI
  uint64_t guid() const { return guid_; }
  int speedMbps() const { return speedMbps_; }
  const DeviceMemory& deviceMemory() const { return deviceMemory_; }

  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }
  RegionCache& regions() { return regions_; }
  // Memory of a GPU as a dma-buf, known under its address `data`. Not shared between callers as
  // regions() are: what a descriptor stands for is not told by the address alone. The caller's
  // until removeRegion(). An error names port, memory and remedy.
  Result<ibv_mr*> addDmabuf(void* data, size_t nBytes, const Dmabuf& source);
  Result<void> removeRegion(ibv_mr* region);
  uint8_t number() const { return number_; }
  uint32_t gidIndex() const { return gidIndex_; }
  // Whether packets carry addresses even where the local identifiers of InfiniBand would do.
  bool needsAddresses() const { return needsAddresses_; }
  PortCard card() const { return card_; }  // without a ring's key
  // What the device allows.
  uint32_t maxQueueEntries() const { return maxQueueEntries_; }
  uint32_t maxCompletions() const { return maxCompletions_; }

  // Why nothing goes here any more, or not by way of this completion queue; empty while it does,
  // and while the port has not been down for longer than `patience`. Takes note of what the device
  // has said since; thread-safe, never waits.
  std::string failureOf(const ibv_cq* completions, std::chrono::steady_clock::duration patience);
  // To be said of each before it is destroyed.
  void forget(const ibv_cq* completions);

 private:
  Port(const VerbsApi& verbs, const Settings& settings, ibv_context* context, uint8_t number,
       std::string device);

  Result<bool> query();
  Result<void> chooseAddress(uint32_t nGids);
  void takeFirstAddress();
  void noteEvents();
  void note(const ibv_async_event& event);
  bool relaxesOrdering() const;
  Result<ibv_mr*> addRegion(void* data, size_t nBytes);

  const VerbsApi& verbs_;
  const Settings settings_;
  ibv_context* const context_;
  const uint8_t number_;
  const std::string name_;
  ibv_pd* domain_ = nullptr;
  RegionCache regions_;
  PortCard card_;
  DeviceMemory deviceMemory_;
  std::string choice_;
  uint64_t guid_ = 0;
  int speedMbps_ = 0;
  uint32_t gidIndex_ = 0;
  bool needsAddresses_ = false;
  uint32_t maxQueueEntries_ = 0;
  uint32_t maxCompletions_ = 0;
  std::mutex mutex_;
  bool isFatal_ = false;  // for good
  std::optional<std::chrono::steady_clock::time_point> downSince_;
  std::vector<const ibv_cq*> overrun_;
};

}  // namespace cinch::net::ib
