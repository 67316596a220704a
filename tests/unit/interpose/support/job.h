// A program on ranks that one thread drives, as groups of one call for each rank.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/execute/submit.h"
#include "tests/unit/interpose/support/ranks.h"

namespace cinch::test {

// One rank's part in a collective of fp32.
struct Part {
  CommState& comm() const { return *rank->comm; }
  ncclResult_t submit() const;
  // NCCL's own function, with the same arguments.
  ncclResult_t forward() const;

  TestRank* rank;
  Collective call;
};

// A recurring collective: its buffers keep their place, and hold values that differ by rank.
class Work {
 public:
  Work(const TestRanks& ranks, CallKind kind, size_t count, ncclRedOp_t op = ncclSum);
  Work(const Work&) = delete;

  const Part& part(int rank) const { return parts_[static_cast<size_t>(rank)]; }
  int nRanks() const { return static_cast<int>(parts_.size()); }
  // Other values, as another batch has them.
  void refill(uint64_t seed) const;
  // The first ones again.
  void restore() const;
  // Submits all parts; ncclSuccess where all succeeded.
  ncclResult_t submit() const;
  // The slot of `rank`, which must have one.
  Slot& slot(int rank) const;
  const std::vector<float>& received(int rank) const { return recv_[static_cast<size_t>(rank)]; }
  // What an exact sum (times `factor`), or gather, would have left on `rank`.
  std::vector<float> expected(int rank, float factor = 1) const;
  // The squared error of what `rank` received, as a share of the squares of expected().
  double errorOf(int rank, float factor = 1) const;

 private:
  mutable std::vector<std::vector<float>> send_;
  std::vector<std::vector<float>> recv_;
  std::vector<Part> parts_;
};

// Groups as the program makes them.
void groupStart();
ncclResult_t groupEnd();
ncclResult_t runInGroup(const std::vector<const Work*>& works);

// Returns when nothing is left in the background that belongs to `ranks`: it would come to the
// fakes of the next test.
void awaitBackground(const TestRanks& ranks);
// Returns when all that `ranks` have sent is decided, so that only their calls change anything.
void awaitDecisions(const TestRanks& ranks);

class JobTest : public testing::Test {
 protected:
  void SetUp() override { resetFakes(); }

  // Runs `work` until it is about to be compressed for the first time, and forgets what happened.
  static void getReady(const Work& work);
  // What both fakes were asked to do since, without questions, which
  // the probe before an encode is one of.
  static std::vector<std::string> happened();
  static void forget();
};

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b);

}  // namespace cinch::test
