// What the ranks of one communicator decide together, each decision from the same call on, without
// any program waiting for another one: docs/agreement.md, "Decisions".
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "common/network/socket.h"
#include "common/result.h"
#include "interpose/agree/decision_record.h"

namespace cinch {

struct Missed;
struct Proposal;

// A call of this rank's, and the decisions that are in force from it on and were not before.
struct Claimed {
  uint64_t call = 0;
  std::vector<Decision> decisions{};
  bool isOver = false;  // nothing will be decided any more: what is in force stays so
};

// Made by Agreement, which it may outlive. claim(), takeBack(), isDecidedBeforeNext() and await()
// are for the thread that makes the communicator's calls, one at a time; the rest may be called
// from any thread at any time. In a forked child all fail, as no control thread is there.
class Decisions {
 public:
  // Sends a proposal; `mayWait` for room in the kernel.
  using Propose = std::function<void(const Proposal&, bool mayWait)>;
  explicit Decisions(Propose propose);
  ~Decisions();
  Decisions(const Decisions&) = delete;
  Decisions& operator=(const Decisions&) = delete;

  // This rank's next call is about to be made. Normally a mutex lock and nothing else: no system
  // call, no allocation. Waits only where this rank has promised not to make that call before an
  // outcome is known: for control threads, never for another rank's program. An error where the
  // outcome cannot be known, even by asking for it: others may have decided, so that this rank must
  // fail the communicator. After an error nothing has been claimed.
  Result<Claimed> claim();

  // The last call that was claimed did not take place: its number will be used again. What came
  // into force with it is not given again.
  void takeBack();

  // How many calls this rank has claimed. The next one has this number.
  uint64_t claimed() const;

  // This rank wants `topic` decided before its own next call, with no bytes. Waits until that is
  // settled, for control threads only. True: it is in force from that call on, on all ranks. False:
  // it is not, on any, as some rank has made that call already, the ranks have agreed on a later
  // one, or nothing can be decided any more. An error as for claim(). It is then decided for a
  // later call by itself.
  Result<bool> isDecidedBeforeNext(uint64_t topic);

  // The same from any thread, without waiting, for a call some way ahead.
  void decideSoon(uint64_t topic);

  // Waits until `topic` is decided, from whatever call on, for those that follow it at a call that
  // they agree on otherwise. None where it will not be, on any rank: nothing is decided any more,
  // or a vote was taken back. An error where that is not known in time, or cannot be known, or this
  // rank has left. claim() gives it all the same. With `whenLate` it is no error that the deadline
  // passes: that is called, and is to take a vote back; what comes of that is then waited for.
  Result<std::optional<Decision>> await(uint64_t topic, Deadline deadline,
                                        const std::function<void()>& whenLate = {});

  // How many calls the program makes in one training step: so far ahead is decided, where it has
  // had to wait.
  void setPeriod(uint64_t calls);
  // How often calls of this process have waited in here, of all communicators, and how long.
  struct Waits {
    uint64_t count = 0;
    std::chrono::nanoseconds total{};
  };
  static Waits waits();
  // True where this rank had promised a call when its connection ended, and does not know the
  // outcome: the others may have decided something.
  bool isInDoubt() const;
  // True where nothing will be decided any more: a rank has left, or this rank's connection is
  // gone. The last decisions stay in force.
  bool isOver() const;

  // For the control thread, of what the server has sent. Never waits.
  Result<std::optional<Prepared>> receive(const Prepare& message);
  Result<void> receive(const Commit& message);
  Result<void> receive(const Withdraw& message);
  Result<void> receive(const Missed& message);
  // The connection is lost. Where this rank is in doubt then, the round to ask for: who has to know
  // its outcome waits until it is received, or end() is called.
  std::optional<uint64_t> lose();
  // Whether it is still to be asked for.
  bool isAsking() const;
  // Nothing will be received any more.
  void end();

 private:
  bool isForked() const;
  Error unknownOutcome() const;
  bool isUnresolved() const;
  Result<void> awaitOutcome(std::unique_lock<std::mutex>& lock);
  template <class Condition>
  bool waitUntil(std::unique_lock<std::mutex>& lock, Deadline deadline, const Condition& isMet);
  Result<void> settled(Result<void> taken);
  void dropMark();

  const Propose propose_;
  const uint64_t generation_;

  mutable std::mutex mutex_;  // held by nobody who waits or sends
  std::condition_variable changed_;
  DecisionRecord record_;
  std::set<uint64_t> missed_;  // topics on which votes were taken back, until they are asked for
  bool hasMark_ = false;       // the process has one for this promise
  bool isAsking_ = false;      // for the outcome of the promised round
  bool hasLeft_ = false;       // end() was called
};

}  // namespace cinch
