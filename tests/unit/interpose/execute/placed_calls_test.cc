// Calls that are known by their place in the step, with a codec of 4 bits and error feedback.
#include <gtest/gtest.h>

#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeReal;
using test::Work;

constexpr size_t kCount = 40000;
constexpr CallKind kAllReduce = CallKind::allReduce;

class PlacedCalls : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    ranks_ = test::makeRanks(2);
  }
  void TearDown() override {
    EXPECT_TRUE(fakeReal().isIdle());
    for (const auto& rank : ranks_) EXPECT_EQ(rank->comm->health(), ncclSuccess);
  }
  CommState& comm() { return *ranks_[0]->comm; }
  // The parameters that the gradients are of are broadcast first, as PyTorch DDP does.
  void broadcast(size_t nParameters, int root = 0) {
    for (const auto& rank : ranks_) {
      rank->comm->decide({CallKind::broadcast, OpClass::none, ncclFloat32, nParameters}, nullptr,
                         nullptr, root);
      rank->comm->confirm();
    }
  }
  // What does not change from step to step is no gradient.
  void step(const std::vector<const Work*>& works) {
    for (const Work* work : works) {
      work->refill(++nBatches_);
      ASSERT_EQ(test::runInGroup({work}), ncclSuccess);
      test::awaitDecisions(ranks_);
    }
  }
  void steps(uint32_t n, const std::vector<const Work*>& works) {
    for (uint32_t i = 0; i < n; ++i) step(works);
  }
  // Until the sequence is known, the ranks are ready, and that is in force.
  static constexpr uint32_t kStepsToLearn = 24;

  uint64_t passed(Reason reason) { return test::passedCalls(comm(), reason); }
  uint64_t resets(const Work& work) { return work.slot(0).stats->residualResets.load(); }

  test::TestRanks ranks_;
  uint64_t nBatches_ = 0;
};

TEST_F(PlacedCalls, PassUntilTheStepIsLearned) {
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  steps(3, {&first, &last});
  EXPECT_TRUE(test::compressedCalls(comm()).empty());
  EXPECT_EQ(passed(Reason::unplaced) + passed(Reason::warmup), 6u);
}

TEST_F(PlacedCalls, OfOneSignatureHaveSlotsOfTheirOwn) {
  const Work first(ranks_, kAllReduce, kCount), second(ranks_, kAllReduce, kCount);
  const Work last(ranks_, kAllReduce, kCount + 1);
  broadcast(3 * kCount + 1);
  steps(kStepsToLearn + 10, {&first, &second, &last});
  const auto calls = test::compressedCalls(comm());
  ASSERT_EQ(calls.size(), 3u);
  for (const auto& [name, n] : calls) EXPECT_GE(n, 10u) << name;
  // Their residuals were cleared once, at the first use: no other call's buffers came between.
  EXPECT_EQ(resets(first), 0u);
}

// They may be layers of one step, or activations.
TEST_F(PlacedCalls, ThatLookAlikePass) {
  const Work first(ranks_, kAllReduce, kCount), second(ranks_, kAllReduce, kCount),
      average(ranks_, kAllReduce, kCount + 1, ncclAvg);
  steps(kLongerThanStep, {&first, &second});
  steps(2 * kLongerThanStep, {&average});
  EXPECT_TRUE(test::compressedCalls(comm()).empty());
  EXPECT_GT(passed(Reason::ambiguous), 0u);
}

TEST_F(PlacedCalls, ASurpriseIsPassedAndTheResidualDropped) {
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  steps(kStepsToLearn, {&first, &last});
  const auto before = test::compressedCalls(comm());
  step({&last, &first});  // the one out of turn, and the other before its place is sure again
  EXPECT_EQ(test::compressedCalls(comm()), before);
  step({&last});
  steps(8, {&first, &last});  // until the ranks have found out anew what they reduce
  for (const auto& [name, n] : test::compressedCalls(comm())) EXPECT_GE(n, before.at(name) + 3);
  EXPECT_EQ(resets(first), 1u) << "the epoch has ended";
}

TEST_F(PlacedCalls, AtAnotherPlaceOfAnotherStepHaveAnotherSlot) {
  const Work first(ranks_, kAllReduce, kCount), second(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  steps(kStepsToLearn, {&first, &second});
  const Slot* const before = &first.slot(0);
  const Work third(ranks_, kAllReduce, kCount + 2);
  broadcast(2 * kCount + 2);  // another model
  step({&third});
  steps(kStepsToLearn, {&third, &first});
  step({&third});
  EXPECT_NE(&first.slot(0), before);
}

// A group that is only simulated, on one rank, must not shift what this rank knows.
TEST_F(PlacedCalls, SimulatedCallsHaveNoPlace) {
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  for (uint32_t i = 0; i < kStepsToLearn + 5; ++i) {
    test::groupStart();
    EXPECT_EQ(last.part(1).submit(), ncclSuccess);
    OpenGroup::forget(test::fakeRealTable());
    fakeReal().recorded.clear();
    fakeReal().depth = 0;  // as the real one does
    step({&first, &last});
  }
  const auto calls = test::compressedCalls(comm());
  EXPECT_EQ(calls.size(), 2u);
  for (const auto& [name, n] : calls) EXPECT_GE(n, 5u) << name;
}

TEST_F(PlacedCalls, RefusedCallsHaveNoPlace) {
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  steps(kStepsToLearn, {&first, &last});
  const auto before = test::compressedCalls(comm());
  Collective lacking = last.part(0).call;
  lacking.send = nullptr;
  EXPECT_NE(submit(ranks_[0]->comm, lacking, Pass([] { return ncclInvalidArgument; })),
            ncclSuccess);
  steps(2, {&first, &last});
  for (const auto& [name, n] : test::compressedCalls(comm())) EXPECT_EQ(n, before.at(name) + 2);
}

// An evaluation gathers predictions of unequal sizes, which PyTorch does by a broadcast from each
// rank; some other broadcast is of new parameters.
TEST_F(PlacedCalls, AListThatIsGatheredIsNoNewModel) {
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  steps(kStepsToLearn, {&first, &last});
  for (uint32_t evaluation = 0; evaluation < 3; ++evaluation) {
    const auto before = test::compressedCalls(comm());
    broadcast(kCount + 16 * evaluation, 0);
    broadcast(kCount + 16 * evaluation + 8, 1);
    steps(3, {&first, &last});
    for (const auto& [name, n] : test::compressedCalls(comm())) EXPECT_EQ(n, before.at(name) + 3);
  }
  EXPECT_EQ(resets(first), 3u) << "of a kind of call that was not known, nobody knows what follows";
  const auto before = test::compressedCalls(comm());
  broadcast(kCount + 100, 0);
  steps(2, {&first, &last});
  EXPECT_EQ(test::compressedCalls(comm()), before);
}

}  // namespace
}  // namespace cinch
