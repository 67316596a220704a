// The 16 bytes in front of every encoded shard: made by the sender, checked by each reader.
#pragma once

#include "kernels/device_table.h"

namespace cinch::core {

// What this rank writes, and what it expects from every other.
CINCH_HD inline wire::ShardHeader makeHeader(const CallContext& call, uint32_t ordinal) {
  const uint8_t codec = call.layout.isMixed() ? wire::kMixedCodec : call.layout.codec.id;
  return {wire::kMagic, wire::kVersion, codec, call.planId, call.slot, ordinal};
}

// 0 where the headers agree, else the FaultBits that say where they do not.
CINCH_HD inline uint32_t headerFaults(const wire::ShardHeader& found,
                                      const wire::ShardHeader& expected) {
  return (found.magic == expected.magic ? 0u : kFaultMagic) |
         (found.version == expected.version ? 0u : kFaultVersion) |
         (found.codec == expected.codec ? 0u : kFaultCodec) |
         (found.planId == expected.planId ? 0u : kFaultPlan) |
         (found.slot == expected.slot ? 0u : kFaultSlot) |
         (found.ordinal == expected.ordinal ? 0u : kFaultOrdinal);
}

}  // namespace cinch::core
