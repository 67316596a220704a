// One life of a lane, at one end: messages are posted, tested in order and checked byte by byte,
// with what lies around them in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/net/chaos/net.h"
#include "tests/net/chaos/plan.h"
#include "tests/net/chaos/progress.h"

namespace cinch::chaos {

// Wrong bytes, sizes and errors that do not name the peer end the process. Destroying a connection
// closes it, as NCCL does: memory goes first, whatever is under way.
class Connection {
 public:
  enum class State { moving, done, failed };

  // Takes `comm` over. `first`: of its messages.
  Connection(Net& net, const Plan& plan, const Spot& first, int side, void* comm,
             LaneProgress& progress);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Posts at most one message and tests the oldest; true where one of them did something.
  bool visit();
  State state() const { return state_; }
  int nDone() const { return nDone_; }

 private:
  struct Slot {
    uint8_t* memory;  // with margins
    void* request;
  };

  Spot spot(int message) const;
  Slot& slotOf(int message) { return slots_[message % slots_.size()]; }
  void prepare(int message);
  bool post();
  bool test();
  void check(int message, size_t nReported);
  void failed(const char* call);

  Net& net_;
  const Plan plan_;
  const Spot first_;
  const bool sends_;
  void* const comm_;
  LaneProgress& progress_;
  State state_ = State::moving;
  size_t stride_ = 0;  // of a slot
  uint8_t* memory_ = nullptr;
  void* registration_ = nullptr;
  std::vector<Slot> slots_;
  int side_;
  int nPrepared_ = 0;
  int nPosted_ = 0;
  int nDone_ = 0;
  int late_ = 0;  // visits until the next may be posted
};

}  // namespace cinch::chaos
