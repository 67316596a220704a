// One direction of traffic between two ranks: a connection of the transport, opened at first use,
// and a ring of registered slots that messages pass through. Used by the progress thread alone.
#pragma once

#include <poll.h>

#include <array>
#include <memory>

#include "common/result.h"
#include "emulator/nccl/net.h"
#include "emulator/nccl/schedule.h"

namespace cinch::emulator {

// What a transport needs to make connections.
struct NetContext {
  const NetTransport* transport = nullptr;
  void* context = nullptr;
  int device = 0;
  int rank = -1;  // ours, for messages and tags
};

using NetHandle = std::array<char, kNetHandleBytes>;

// What both directions share: the connection, the slots, and the requests on them in FIFO order.
class Channel {
 public:
  Channel(const NetContext& net, int peer) : net_(net), peer_(peer) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int peer() const { return peer_; }
  bool isOpen() const { return connection_ != nullptr; }

  // True where the connection is there and its other end is gone. False where the transport cannot
  // tell.
  bool isHungUp() const;
  // What to sleep on while a request is outstanding; false where there is nothing to wait for or
  // the transport cannot tell.
  bool pollTarget(pollfd* target) const;
  // True where a request is outstanding, or the connection is not yet open.
  bool isWaiting() const { return !isOpen() || nDone_ < nPosted_ || wantsToPost(); }

 protected:
  ~Channel() = default;

  virtual bool wantsToPost() const = 0;
  char* slot(uint64_t index) const { return slots_.get() + index % kSlots * kSlotBytes; }
  // Allocates and registers the slots, once the connection is there.
  Result<void> prepareSlots();
  void releaseSlots();
  // Completes outstanding requests in order; true where any did.
  Result<bool> testRequests();
  Error netError(const char* action, ncclResult_t result) const;

  NetContext net_;
  int peer_;
  void* connection_ = nullptr;
  void* mr_ = nullptr;
  std::unique_ptr<char[]> slots_;
  std::array<void*, kSlots> requests_{};
  uint64_t nPosted_ = 0;
  uint64_t nDone_ = 0;
};

class SendChannel final : public Channel {
 public:
  SendChannel(const NetContext& net, int peer, const NetHandle& handle)
      : Channel(net, peer), handle_(handle) {}
  ~SendChannel();

  // Connects, posts what is filled, completes what was sent; true where anything moved.
  Result<bool> progress();
  // The next slot to fill; null while all are in flight.
  char* freeSlot() const;
  // Sends the first `nBytes` of the slot that freeSlot() returned.
  void fill(size_t nBytes);
  bool isIdle() const { return nDone_ == nFilled_; }

 private:
  bool wantsToPost() const override { return nPosted_ < nFilled_; }

  NetHandle handle_;
  std::array<size_t, kSlots> sizes_{};
  uint64_t nFilled_ = 0;
};

class ReceiveChannel final : public Channel {
 public:
  ReceiveChannel(const NetContext& net, int peer, void* listener)
      : Channel(net, peer), listener_(listener) {}
  ~ReceiveChannel();

  // Announces that `nMessages` more will come: buffers are posted for them ahead.
  void expect(size_t nMessages) { nExpected_ += nMessages; }
  // Accepts, posts buffers, completes what arrived; true where anything moved.
  Result<bool> progress();
  // The oldest message that was not released; null while none has arrived.
  const char* arrived() const { return nReleased_ < nDone_ ? slot(nReleased_) : nullptr; }
  void release() { ++nReleased_; }

 private:
  bool wantsToPost() const override {
    return nPosted_ < nExpected_ && nPosted_ - nReleased_ < kSlots;
  }
  Result<bool> accept();

  void* listener_;
  uint64_t nExpected_ = 0;
  uint64_t nReleased_ = 0;
};

}  // namespace cinch::emulator
