// Numbers for what the ranks decide.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "common/byte_order.h"
#include "common/hash.h"

namespace cinch {

enum class Subject : uint64_t {
  allocation,  // votes while a slot gets ready
  meeting,     // that all are at the call at which NCCL connects them for a slot
  connection,
  evidence,   // whether a site of the step is a gradient
  closing,    // that it is none any more
  times,      // of one block of training steps, or of a slot's calls
  residuals,  // whether all ranks have memory for them
  precision   // of a slot, after an examined call
};

// One that is the same on all ranks for the same facts, and another one for others. Without
// allocations: each compressed call asks for some.
inline uint64_t topicOf(Subject subject, std::initializer_list<uint64_t> facts) {
  uint8_t bytes[sizeof(uint64_t)];
  storeLittle(static_cast<uint64_t>(subject), bytes);
  uint64_t hash = hashBytes(bytes, sizeof bytes);
  for (const uint64_t fact : facts) {
    storeLittle(fact, bytes);
    hash = hashBytes(bytes, sizeof bytes, hash);
  }
  return hash;
}

}  // namespace cinch
