// How fast a flow moves bytes, as seen from its sender: from what the peer's kernel acknowledges.
// Pure.
#pragma once

#include <cstdint>

#include "common/network/socket.h"

namespace cinch::net {

class FlowRate {
 public:
  // `written`: bytes given to the kernel since the flow began; `queued`: those of them that the
  // peer has not acknowledged (SIOCOUTQ).
  void sample(Clock::time_point now, uint64_t written, uint64_t queued);

  // 0 while nothing is known: until bytes have waited for the network, not the network for bytes.
  double bytesPerSecond() const { return rate_; }
  // What it carried lately, though it may be able to do more.
  double seenBytesPerSecond() const { return seen_; }
  uint64_t queued() const { return queued_; }
  // True where bytes are waiting and none of them was acknowledged for `patience`.
  bool isStalled(Clock::time_point now, Clock::duration patience) const;

 private:
  void restart(Clock::time_point now, uint64_t acknowledged);

  double rate_ = 0;
  double seen_ = 0;
  uint64_t queued_ = 0;
  bool started_ = false;
  bool ranEmpty_ = false;  // within the present interval
  Clock::time_point intervalStart_{};
  uint64_t intervalBase_ = 0;  // acknowledged when it started
  uint64_t acknowledged_ = 0;
  Clock::time_point lastProgress_{};
};

}  // namespace cinch::net
