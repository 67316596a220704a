// The queues of a connection at one port, and what they complete. A connection has a lane for each
// port that it may use; one of them carries everything, the others wait for it to fail.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "net_plugin/ib/queue.h"

namespace cinch::net::ib {

// What is under way in a lane, as its completions name it.
enum class Work : uint8_t { data, arrival, grant, immediate, flush };

// Takes what completes.
class LaneUser {
 public:
  virtual ~LaneUser() = default;
  // The peer has said that something is there.
  virtual void arrived(uint32_t immediate) = 0;
  // What this side wrote is with the peer; or a flush is done.
  virtual void written(Work work, uint32_t id) = 0;
};

// A write into the peer's memory.
struct RemoteWrite {
  const void* from = nullptr;
  uint32_t localKey = 0;
  uint32_t nBytes = 0;
  uint64_t to = 0;
  uint32_t remoteKey = 0;
};

struct LaneShape {
  size_t nQueues = 1;
  QueueDepth depth;       // of each queue
  uint32_t nFlushes = 0;  // that may be under way; 0: the lane cannot flush
};

class Lane {
 public:
  using Clock = std::chrono::steady_clock;

  // `slots`: memory of the connection that both sides' devices reach; it outlives the lane.
  static Result<std::unique_ptr<Lane>> create(Port& port, LaneShape shape, void* slots,
                                              size_t slotBytes);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Adds this side's end to the card.
  void describe(Card& card) const;
  // `lane`: the index of this one, here and at the peer.
  Result<void> connect(const Card& peer, size_t lane, const PathWish& wish = {});

  Port& port() { return port_; }
  size_t nQueues() const { return queues_.size(); }
  uint32_t slotsKey() const { return slots_->lkey; }

  // One write; its completion is given as (work, id).
  Posting write(size_t queue, const RemoteWrite& write, Work work, uint32_t id);
  // Data, where there is any (its completion is not given), and a write that announces it with an
  // immediate. `dataIsPosted` is kept for the next try where only the first was taken.
  Posting announce(size_t queue, const RemoteWrite& data, bool& dataIsPosted,
                   const RemoteWrite& announcement, uint32_t immediate, uint32_t id);

  // Reads one byte of this process's memory, which `key` of the port's opens, by way of the device,
  // into `landing` of the slots. Once it completes, as (flush, id), everything that the device had
  // written into that memory before is there. Only where canFlush(), which close() ends.
  Posting flush(const void* data, uint32_t key, void* landing, uint32_t id);
  bool canFlush() const { return flushQueue_ != nullptr; }

  // Gives the user what has completed since; false where there was nothing.
  bool poll(LaneUser& user);
  // Takes note of what the device has said about the port, which may be down for so long.
  void lookAtPort(Clock::duration patience);
  // Why the lane is of no use any more; the first reason counts, those that follow are
  // consequences.
  bool hasFailed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  void fail(std::string why);

  // Ends all that is under way. After it, poll() until isStopped(): what had arrived before is
  // still given.
  void stop(Clock::time_point now);
  // Nothing is written by either side any more.
  bool isStopped(Clock::time_point now);
  // The same at once, without what has arrived.
  void close() {
    closeToPeer();
    flushQueue_.reset();
  }
  // Of the queue pairs to the peer; flushes go on.
  void closeToPeer() { queues_.clear(); }

 private:
  Lane(Port& port, ibv_cq* completions, ibv_mr* slots)
      : port_(port), completions_(completions), slots_(slots) {}
  Result<void> addQueue(QueueDepth depth);
  Result<void> addFlushQueue(uint32_t depth);
  void take(const ibv_wc& completion, LaneUser& user);
  void takeFailure(const ibv_wc& completion);
  void refill(size_t queue);
  ibv_send_wr requestOf(const RemoteWrite& write, ibv_sge& piece, size_t queue) const;
  Posting postingOf(Posting posting);

  static constexpr auto kStopPatience = std::chrono::seconds(1);

  Port& port_;
  ibv_cq* const completions_;
  ibv_mr* const slots_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::unique_ptr<Queue> flushQueue_;  // to itself
  size_t underWay_ = 0;                // completions that will come
  std::string failure_;
  bool isStopping_ = false;
  Clock::time_point stopped_{};
};

}  // namespace cinch::net::ib
