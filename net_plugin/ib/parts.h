// How a message is spread over the queues of a connection. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cinch::net::ib {

struct Part {
  uint64_t offset = 0;
  uint64_t nBytes = 0;

  bool operator==(const Part&) const = default;
};

// NCCL's LL128 protocol stores 128 bytes at once with a flag in them, so that no boundary may be
// anywhere else.
inline constexpr uint64_t kPartAlignment = 128;

// The message in one part for each queue, of nearly the same size and each but the last a multiple
// of kPartAlignment; parts may be empty. `nQueues` is above 0.
std::vector<Part> splitOver(uint64_t nBytes, size_t nQueues);

}  // namespace cinch::net::ib
