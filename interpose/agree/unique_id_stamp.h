// The stamp in the tail of an ncclUniqueId: where its agreement server listens.
//
//   offset  bytes  field, integers little-endian
//   80      8      magic "CINCHid" and the version of this layout, 1
//   88      1      family: 4 or 6
//   89      1      0
//   90      2      port
//   92      4      scope of a link-local IPv6 address, as NCCL hands it on; else 0
//   96      16     address in network order; IPv4 in the first four, then 0
//   112     8      nonce: known to those who were given the id and to nobody else
//   120     8      checksum (FNV-1a) of bytes 0 to 119
//
// The checksum covers what NCCL put before it, too: older releases leave the tail uninitialised,
// and the stale stamp of another id must not pass for this one's.
#pragma once

#include <cstdint>
#include <optional>

#include "common/network/ip_address.h"

namespace cinch {

struct UniqueIdStamp {
  Endpoint server;
  uint64_t nonce = 0;

  bool operator==(const UniqueIdStamp&) const = default;
};

// Writes the stamp into the tail of `id` (128 bytes), over whatever was there.
void writeStamp(const UniqueIdStamp& stamp, uint8_t* id);

// The stamp that `id` (128 bytes) carries, if it carries a valid one.
std::optional<UniqueIdStamp> readStamp(const uint8_t* id);

}  // namespace cinch
