// Carries out a list of actions of one rank on one thread, and writes down every result.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/fuzz/rank_state.h"

namespace cinch::fuzz {

// Which action a thread is at, for whoever reports a hang.
using Position = std::atomic<const Stepped*>;

class Lane {
 public:
  // `side`: 0 for the rank's main thread; 1 for the second thread of a Parallel.
  Lane(RankState& state, Position* positions, int side)
      : state_(state), positions_(positions), side_(side) {}

  void run(const std::vector<Stepped>& actions);
  // Lines "code ..." and "out ...", as README.md describes them.
  std::string takeText() { return std::move(text_); }

  void operator()(const Call& call);
  void operator()(const InitRank& init);
  void operator()(const Split& split);
  void operator()(const Finalize& finalize);
  void operator()(const Destroy& destroy);
  void operator()(const Abort& abort);
  void operator()(const GroupStart&);
  void operator()(const GroupEnd&);
  void operator()(const SimulateEnd&);
  void operator()(const MakeOp& make);
  void operator()(const DropOp& drop);
  void operator()(const Sync&);
  void operator()(const BeginCapture& begin);
  void operator()(const EndCapture&);
  void operator()(const Replay& replay);
  void operator()(const DropGraph& drop);
  void operator()(const Parallel& parallel);

 private:
  // A call under way: what its memory held before and after it.
  struct Transfer {
    Call call;
    int round;
    int seen;  // how many like it there were before on the communicator
    Layout layout;
    Bytes before, after;
  };

  ncclResult_t enqueue(const Call& call);
  std::unique_ptr<Transfer> fill(const Call& call, int round);
  // Counts a call; returns how many like it there were before on its communicator.
  int countOne(const Call& call);
  void readBack();
  void check(const Transfer& transfer);
  void asyncError(int comm);
  // What `result` comes to once a non-blocking communicator is done with the call.
  ncclResult_t settled(ncclComm_t comm, ncclResult_t result) const;
  // Notes a result that is not success; the others are counted only.
  void note(const char* what, int code);

  RankState& state_;
  Position* const positions_;
  const int side_;
  int step_ = 0;
  int nCodes_ = 0;
  int depth_ = 0;       // of open groups
  int capturing_ = -1;  // graph
  int captureStream_ = -1;
  std::map<int, int> graphStream_;
  std::set<int> grouped_;                           // communicators that the open group uses
  std::vector<std::unique_ptr<Transfer>> issued_;   // in the open group
  std::vector<std::unique_ptr<Transfer>> pending_;  // on their streams
  std::string text_;
};

}  // namespace cinch::fuzz
