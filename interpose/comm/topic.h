// Numbers for what the ranks decide.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "common/byte_order.h"
#include "common/hash.h"

namespace cinch {

enum class Subject : uint64_t {
  allocation,  // votes while a slot gets ready
  meeting,     // that all are at the call at which NCCL connects them for a slot
  connection,
  evidence,  // whether a site of the step is a gradient
  closing,   // that it is none any more
  times,     // of one round of a slot
  precision  // of a slot, after an examined call
};

// One that is the same on all ranks for the same facts, and another one for others.
inline uint64_t topicOf(Subject subject, std::initializer_list<uint64_t> facts) {
  std::vector<uint8_t> bytes((facts.size() + 1) * sizeof(uint64_t));
  uint8_t* to = bytes.data();
  storeLittle(static_cast<uint64_t>(subject), to);
  for (const uint64_t fact : facts) storeLittle(fact, to += sizeof(uint64_t));
  return hashBytes(bytes.data(), bytes.size());
}

}  // namespace cinch
