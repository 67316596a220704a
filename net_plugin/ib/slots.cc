#include "net_plugin/ib/slots.h"

#include <cstring>

namespace cinch::net::ib {

std::optional<ClearToSend> readGrant(ClearToSend& place, uint64_t group) {
  // A device writes it meanwhile: first the stamp, then what it stands for.
  const uint32_t stamp = std::atomic_ref(place.stamp).load(std::memory_order_acquire);
  if (stamp != stampOf(group)) return std::nullopt;
  ClearToSend grant;
  memcpy(&grant, &place, sizeof grant);
  return grant;
}

bool isSane(const ClearToSend& grant, size_t index) {
  return grant.groupSize >= 1 && grant.groupSize <= kMaxGroup && index < grant.groupSize;
}

}  // namespace cinch::net::ib
