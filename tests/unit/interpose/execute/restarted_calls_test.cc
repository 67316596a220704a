// A job that ends, and another one that goes on with its residuals: CINCH_RESIDUAL_DIR, with slots
// by their place in the step, q4 and error feedback. The order of calls is that of one step, so
// both jobs learn the same places.
#include <gtest/gtest.h>

#include <filesystem>

#include "common/param.h"
#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::Work;

constexpr size_t kCount = 40000;
constexpr uint32_t kStepsToLearn = 5;  // before calls are compressed

using Outputs = std::vector<std::vector<float>>;  // by step

// A communicator of two ranks that reduces gradients of three buckets in every step.
class Job {
 public:
  explicit Job(size_t lastCount = kCount + 1)
      : ranks_(test::makeRanks(2)),
        first_(ranks_, CallKind::allReduce, kCount),
        second_(ranks_, CallKind::allReduce, kCount),
        last_(ranks_, CallKind::allReduce, lastCount) {
    for (const auto& rank : ranks_) {
      rank->comm->decide({CallKind::broadcast, OpClass::none, ncclFloat32, 2 * kCount + lastCount},
                         nullptr);
      rank->comm->confirm();
    }
    // What does not change from step to step is no gradient.
    for (uint64_t step = 0; step < kStepsToLearn; ++step) {
      for (const Work* work : {&first_, &second_, &last_}) work->refill(3 * step + 1);
      run(1);
    }
    for (const Work* work : {&first_, &second_, &last_}) work->restore();
    for (const auto& [name, calls] : test::compressedCalls(*ranks_[0]->comm))
      EXPECT_EQ(calls, 0u) << name;
  }
  Job(const Job&) = delete;

  // What the first two buckets become; the third one has another size in other jobs.
  Outputs run(uint32_t nSteps) {
    Outputs outputs;
    for (uint32_t step = 0; step < nSteps; ++step) {
      for (const Work* work : {&first_, &second_, &last_}) {
        EXPECT_EQ(test::runInGroup({work}), ncclSuccess);
        for (const auto& rank : ranks_) EXPECT_EQ(rank->comm->health(), ncclSuccess);
        EXPECT_EQ(work->received(0), work->received(1)) << "whatever each rank adds";
        test::awaitDecisions(ranks_);
      }
      outputs.push_back(first_.received(0));
      outputs.back().insert(outputs.back().end(), second_.received(0).begin(),
                            second_.received(0).end());
    }
    return outputs;
  }
  void finish() {
    for (const auto& rank : ranks_) rank->comm->finish();
  }
  void abandon() {
    for (const auto& rank : ranks_) rank->comm->abandon();
  }

 private:
  test::TestRanks ranks_;
  Work first_, second_, last_;
};

class RestartedCalls : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    std::filesystem::remove_all(folder());
  }
  void TearDown() override { std::filesystem::remove_all(folder()); }

  static const std::string& folder() { return processParams().params.residualDir; }
  static std::string pathOf(int rank) {
    return folder() + "/rank" + std::to_string(rank) + "of2.comm0.cinch";
  }
  // The outputs of steps `from` to `from` + `n` of a job that is never interrupted.
  static Outputs uninterrupted(uint32_t from, uint32_t n) {
    std::filesystem::remove_all(folder());
    Job job;
    job.run(from);
    return job.run(n);
  }
  static Outputs fresh(uint32_t n) { return uninterrupted(0, n); }
  // Ends after some steps, and leaves its residuals.
  static void runFirst(uint32_t nSteps) {
    Job job;
    job.run(nSteps);
    job.finish();
  }
};

TEST_F(RestartedCalls, GoOnAsIfNothingHadHappened) {
  const Outputs expected = uninterrupted(5, 4);
  ASSERT_NE(expected, fresh(4)) << "else nothing is shown";
  runFirst(5);
  Job second;
  EXPECT_EQ(second.run(2), (Outputs{expected[0], expected[1]}));
  second.finish();
  second.finish();  // ncclCommDestroy after ncclCommFinalize
  EXPECT_EQ(Job().run(2), (Outputs{expected[2], expected[3]})) << "and so in a job after the next";
}

TEST_F(RestartedCalls, OfAnotherModelStartFromZero) {
  const Outputs expected = fresh(3);
  runFirst(5);
  EXPECT_EQ(Job(kCount + 2).run(3), expected);
}

TEST_F(RestartedCalls, OfARankWithoutAFileStartFromZeroThere) {
  const Outputs whole = uninterrupted(5, 1), none = fresh(1);
  runFirst(5);
  std::filesystem::remove(pathOf(1));
  const Outputs half = Job().run(1);
  EXPECT_NE(half, whole);
  EXPECT_NE(half, none);
}

TEST_F(RestartedCalls, OfAnAbortedJobStartFromZero) {
  const Outputs expected = fresh(1);
  {
    Job job;
    job.run(5);
    job.abandon();
    job.finish();
  }
  EXPECT_FALSE(std::filesystem::exists(pathOf(0)));
  EXPECT_EQ(Job().run(1), expected);
}

// A job that ends before its calls are compressed has nothing to say.
TEST_F(RestartedCalls, AJobThatCompressesNothingLeavesTheFile) {
  const Outputs expected = uninterrupted(5, 1);
  runFirst(5);
  for (const auto& rank : test::makeRanks(2)) rank->comm->finish();
  EXPECT_EQ(Job().run(1), expected);
}

}  // namespace
}  // namespace cinch
