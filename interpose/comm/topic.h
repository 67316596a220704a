// Numbers for what the ranks agree on.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "common/byte_order.h"
#include "common/hash.h"

namespace cinch {

// One that is the same on all ranks for the same facts, and another one for others.
inline uint64_t topicOf(std::initializer_list<uint64_t> facts) {
  std::vector<uint8_t> bytes(facts.size() * sizeof(uint64_t));
  uint8_t* to = bytes.data();
  for (const uint64_t fact : facts) {
    storeLittle(fact, to);
    to += sizeof(uint64_t);
  }
  return hashBytes(bytes.data(), bytes.size());
}

}  // namespace cinch
