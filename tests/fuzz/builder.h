// Puts a program together: numbers things, and appends actions to the ranks' lists.
#pragma once

#include <utility>
#include <vector>

#include "tests/fuzz/program.h"
#include "tests/fuzz/random.h"

namespace cinch::fuzz {

class Builder {
 public:
  Builder(uint64_t seed, std::vector<int> processOf, int nStreams);

  Random random;

  int nRanks() const { return program_.nRanks(); }
  int nStreams() const { return nStreams_; }
  const Comm& comm(int number) const { return program_.comms[number]; }
  // Communicators that calls may use now.
  std::vector<int> live;

  int addComm(std::vector<int> members, bool nonBlocking = false);
  int newUid() { return nUids_++; }
  int newOp() { return nOps_++; }
  int newGraph() { return nGraphs_++; }

  // What follows belongs to the next step.
  void nextStep() { ++program_.nSteps; }
  void add(int worldRank, Action action) {
    program_.ranks[worldRank].push_back({program_.nSteps, std::move(action)});
  }
  void addToMembers(int comm, const Action& action) {
    for (const int rank : program_.comms[comm].members) add(rank, action);
  }
  void addToAll(const Action& action) {
    for (int rank = 0; rank < nRanks(); ++rank) add(rank, action);
  }
  // Exchanges the lists that are appended to.
  void swapLists(std::vector<std::vector<Stepped>>& lists) { program_.ranks.swap(lists); }

  // Streams `first` to `last - 1` are the ones to use from now on, until the next useStreams().
  void useStreams(int first, int last) { streams_ = {first, last}; }
  int pickStream() { return random.between(streams_.first, streams_.second - 1); }

  Program finish() { return std::move(program_); }

 private:
  Program program_;
  int nStreams_;
  std::pair<int, int> streams_;
  int nUids_ = 0, nOps_ = 0, nGraphs_ = 0;
};

}  // namespace cinch::fuzz
