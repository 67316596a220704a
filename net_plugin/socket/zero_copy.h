// Sending from where the bytes lie (MSG_ZEROCOPY, Linux 4.14), where that saves the copy.
//
// The kernel says later what became of each such write, in the socket's error queue: whether it
// still needs the pages, and whether it copied them after all, as it does for peers on the same
// host. Then it is asked no more. Nobody waits for these notices: a message is done when its
// receiver has it, and what the kernel still holds by then can only arrive twice, which the
// receiver drops. A message that is given up is another matter: its connection has to be cut
// (Link::cut). One thread at a time writes and listens; any may ask whether notices are missing.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/network/socket.h"

namespace cinch::net {

class ZeroCopy {
 public:
  // Fewer bytes are cheaper to copy than to pin.
  static constexpr uint32_t kLeastBytes = 32 << 10;

  // Stays off where the kernel cannot.
  void enable(const Socket& socket);
  bool isOn() const { return isOn_; }

  // One write with MSG_ZEROCOPY was taken.
  void wasSent() { pending_.fetch_add(1, std::memory_order_relaxed); }
  // Hears what the kernel says; never waits.
  void listen(const Socket& socket);
  // The kernel may still read the bytes of a write.
  bool holdsPages() const { return pending_.load(std::memory_order_relaxed) > 0; }

 private:
  bool isOn_ = false;
  std::atomic<uint32_t> pending_{0};  // writes without a notice
};

}  // namespace cinch::net
