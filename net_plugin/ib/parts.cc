#include "net_plugin/ib/parts.h"

#include <algorithm>

namespace cinch::net::ib {

std::vector<Part> splitOver(uint64_t nBytes, size_t nQueues) {
  const uint64_t even = nBytes / nQueues + (nBytes % nQueues != 0);
  const uint64_t step = (even + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  std::vector<Part> parts(nQueues);
  uint64_t offset = 0;
  for (Part& part : parts) {
    part = {offset, std::min(step, nBytes - offset)};
    offset += part.nBytes;
  }
  return parts;
}

}  // namespace cinch::net::ib
