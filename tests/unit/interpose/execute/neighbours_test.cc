// Calls of a group that share the launches of their codec.
#include "interpose/execute/neighbours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::Work;

constexpr size_t kCount = 40000;

// Works of one communicator that are ready for a group of them all.
class Job {
 public:
  explicit Job(int world) : ranks_(test::makeRanks(2, world)) {
    add(CallKind::allReduce, 64 * kCount);  // makes room for the others
  }

  void add(CallKind kind, size_t count) {
    works_.push_back(std::make_unique<Work>(ranks_, kind, count));
    for (int call = 0; call < 3; ++call)
      ASSERT_EQ(test::runInGroup({works_.back().get()}), ncclSuccess);
  }
  void addMany(size_t n) {
    for (size_t i = 0; i < n; ++i) add(CallKind::allReduce, kCount + 128 * i);
  }

  // All but the first, as a program of one rank for each process would: rank by rank.
  ncclResult_t runByRank(void* (*streamOf)(size_t work) = [](size_t) -> void* {
    return nullptr;
  }) const {
    test::groupStart();
    for (int rank = 0; rank < 2; ++rank)
      for (size_t i = 1; i < works_.size(); ++i) {
        test::Part part = works_[i]->part(rank);
        part.call.stream = static_cast<CUstream_st*>(streamOf(i));
        EXPECT_EQ(part.submit(), ncclSuccess);
      }
    return test::groupEnd();
  }
  // The same in a group for each.
  void runOneByOne() const {
    for (size_t i = 1; i < works_.size(); ++i)
      ASSERT_EQ(test::runInGroup({works_[i].get()}), ncclSuccess);
  }

  void expectLike(const Job& other) const {
    for (size_t i = 1; i < works_.size(); ++i)
      for (int rank = 0; rank < 2; ++rank)
        EXPECT_EQ(works_[i]->received(rank), other.works_[i]->received(rank)) << i;
    expectHealth(ncclSuccess);
  }
  void expectHealth(ncclResult_t expected) const {
    for (const auto& rank : ranks_) EXPECT_EQ(rank->comm->health(), expected);
  }

 private:
  test::TestRanks ranks_;
  std::vector<std::unique_ptr<Work>> works_;
};

class NeighboursTest : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    job_ = std::make_unique<Job>(0);
  }
  static void expectLaunches(size_t nEncode, size_t nReduce, size_t nDecode) {
    EXPECT_EQ(fakeDevice().count("encode"), nEncode);
    EXPECT_EQ(fakeDevice().count("reduce"), nReduce);
    EXPECT_EQ(fakeDevice().count("decode"), nDecode);
  }

  std::unique_ptr<Job> job_;
};

TEST_F(NeighboursTest, CallsOfARankShareTheirLaunches) {
  Job apart(1);
  for (Job* job : {job_.get(), &apart}) {
    job->add(CallKind::allReduce, kCount);
    job->add(CallKind::reduceScatter, kCount / 2);
    job->add(CallKind::allReduce, kCount + 777);
  }
  forget();
  ASSERT_EQ(job_->runByRank(), ncclSuccess);
  expectLaunches(2, 2, 2);
  forget();
  apart.runOneByOne();
  expectLaunches(6, 6, 4);
  job_->expectLike(apart);
}

TEST_F(NeighboursTest, OnStreamsOfTheirOwnTheyDoNot) {
  Job alike(1);
  for (Job* job : {job_.get(), &alike}) job->addMany(4);
  forget();
  static int other;
  ASSERT_EQ(job_->runByRank([](size_t work) -> void* { return work > 2 ? &other : nullptr; }),
            ncclSuccess);
  expectLaunches(4, 4, 4);
  ASSERT_EQ(alike.runByRank(), ncclSuccess);
  job_->expectLike(alike);
}

TEST_F(NeighboursTest, ManyTakeSeveralLaunches) {
  constexpr size_t kMany = Neighbours::kMost + 2;
  Job apart(1);
  for (Job* job : {job_.get(), &apart}) job->addMany(kMany);
  forget();
  ASSERT_EQ(job_->runByRank(), ncclSuccess);
  expectLaunches(4, 4, 4);
  apart.runOneByOne();
  job_->expectLike(apart);
}

TEST_F(NeighboursTest, WhereTheirLaunchFailsAllHaveFailed) {
  job_->addMany(3);
  for (int call = 0; call < 2; ++call) {
    forget();
    ASSERT_EQ(job_->runByRank(), ncclSuccess);
  }
  const auto& calls = fakeDevice().calls;
  const auto firstReduce = std::find(calls.begin(), calls.end(), "reduce") - calls.begin();
  forget();
  fakeDevice().failAt = static_cast<int>(firstReduce);
  EXPECT_EQ(job_->runByRank(), ncclUnhandledCudaError);
  EXPECT_EQ(calls.at(static_cast<size_t>(firstReduce)), "reduce");
  job_->expectHealth(ncclUnhandledCudaError);
}

}  // namespace
}  // namespace cinch
