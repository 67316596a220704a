// One direction of traffic between two ranks: a connection of the transport, opened at first use,
// and a ring of registered slots that messages pass through.
//
// The service thread opens and closes it; the progress thread does everything else, from when
// isOpen() gives true.
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "common/result.h"
#include "emulator/nccl/net.h"
#include "emulator/nccl/schedule.h"

namespace cinch::emulator {

// What is needed to make connections.
struct NetContext {
  NetTransport* transport = nullptr;
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
  bool isOpen() const { return state_.load() == State::open; }

  // True for the first call alone: whoever gets that has the channel opened.
  bool claim() {
    State closed = State::closed;
    return state_.compare_exchange_strong(closed, State::opening);
  }
  // One attempt; true once the channel is open or has failed.
  bool tryOpen();
  // Gives up the attempts to open.
  void fail(Error error);
  // Whether it is open, or why it will never be.
  Result<bool> openState() const;

  // True where the connection is there and its other end is gone. False where the transport cannot
  // tell.
  bool isHungUp() const;
  // What to sleep on while something is outstanding; nothing where the transport cannot tell, or
  // where the service thread will tell when the channel is open.
  void addPollTarget(std::vector<pollfd>* targets) const;

 protected:
  ~Channel() = default;

  // Makes the connection, or nothing yet.
  virtual Result<void> connect() = 0;
  virtual bool wantsToPost() const = 0;

  char* slot(uint64_t index) const { return slots_.get() + index % kSlots * kSlotBytes; }
  void releaseSlots();
  // Completes outstanding requests in order; true where any did.
  Result<bool> testRequests();
  Error netError(const char* action, ncclResult_t result) const;

  NetContext net_;
  int peer_;
  void* connection_ = nullptr;
  std::array<void*, kSlots> requests_{};
  void* mr_ = nullptr;
  uint64_t nPosted_ = 0;
  uint64_t nDone_ = 0;

 private:
  enum class State { closed, opening, open, failed };

  Result<void> prepareSlots();

  std::atomic<State> state_{State::closed};
  Error error_;  // of a channel that has failed
  std::unique_ptr<char[]> slots_;
};

class SendChannel final : public Channel {
 public:
  SendChannel(const NetContext& net, int peer, const NetHandle& handle)
      : Channel(net, peer), handle_(handle) {}

  // With requests outstanding or not. The progress thread has ended.
  void close();

  // Posts what is filled, completes what was sent; true where anything moved.
  Result<bool> progress();
  // The next slot to fill; null while all are in flight.
  char* freeSlot() const;
  // Sends the first `nBytes` of the slot that freeSlot() returned.
  void fill(size_t nBytes);
  bool isIdle() const { return nDone_ == nFilled_; }

 private:
  Result<void> connect() override;
  bool wantsToPost() const override { return nPosted_ < nFilled_; }

  NetHandle handle_;
  std::array<size_t, kSlots> sizes_{};
  uint64_t nFilled_ = 0;
};

class ReceiveChannel final : public Channel {
 public:
  ReceiveChannel(const NetContext& net, int peer, void* listener)
      : Channel(net, peer), listener_(listener) {}

  // With requests outstanding or not. The progress thread has ended.
  void close();

  // Announces that `nMessages` more will come: buffers are posted for them ahead.
  void expect(size_t nMessages) { nExpected_ += nMessages; }
  // Posts buffers, completes what arrived; true where anything moved.
  Result<bool> progress();
  // The oldest message that was not released; null while none has arrived.
  const char* arrived() const { return nReleased_ < nDone_ ? slot(nReleased_) : nullptr; }
  void release() { ++nReleased_; }

 private:
  Result<void> connect() override;
  bool wantsToPost() const override {
    return nPosted_ < nExpected_ && nPosted_ - nReleased_ < kSlots;
  }
  void closeListener();

  void* listener_;
  uint64_t nExpected_ = 0;
  uint64_t nReleased_ = 0;
};

}  // namespace cinch::emulator
