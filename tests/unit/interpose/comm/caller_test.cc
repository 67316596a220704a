#include "interpose/comm/caller.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "interpose/comm/comm_resources.h"

namespace cinch {
namespace {

template <class Run>
void onThread(const char* name, const Run& run) {
  std::thread([&] {
    prctl(PR_SET_NAME, name);
    run();
  }).join();
}

TEST(Caller, AThreadOfTheAutogradEngineIsKnownByItsName) {
  const auto callerOn = [](const char* name) {
    Caller caller{};
    onThread(name, [&] { caller = currentCaller(); });
    return caller;
  };
  EXPECT_EQ(callerOn("pt_autograd_0"), Caller::autograd);
  EXPECT_EQ(callerOn("pt_autograd_15"), Caller::autograd);
  EXPECT_EQ(callerOn("pt_nccl_watchdg"), Caller::other);
  EXPECT_EQ(callerOn("my_pt_autograd_"), Caller::other);
}

TEST(Caller, TheProcessHasSuchThreadsWhileOneLives) {
  EXPECT_FALSE(hasAutogradThreads());
  onThread("pt_autograd_0", [] { EXPECT_TRUE(hasAutogradThreads()); });
  EXPECT_FALSE(hasAutogradThreads());
}

TEST(Caller, ThreadsThatEndMeanwhileDoNoHarm) {
  std::atomic<bool> isOver{false};
  std::thread others([&isOver] {
    while (!isOver) onThread("worker", [] {});
  });
  for (int i = 0; i < 500; ++i) EXPECT_FALSE(hasAutogradThreads());
  isOver = true;
  others.join();
}

// In a process of its own: what a process has reduced is not forgotten.
TEST(CallerDeathTest, ReductionsElsewhereAreKnownWhoeverMakesThem) {
  const auto seenAfter = [](Caller here, Caller elsewhere) {
    const CommResources one, other;
    noteReduction(one, here);
    const bool isAlone = !reducesBeside(one) && reducesBeside(other);
    noteReduction(other, elsewhere);
    const bool isAutograd = here == Caller::autograd || elsewhere == Caller::autograd;
    const bool isRight = reducesFromAutograd() == isAutograd;
    exit(isAlone && isRight && reducesBeside(one) && reducesBeside(other) ? 0 : 1);
  };
  for (const Caller here : {Caller::autograd, Caller::other})
    for (const Caller elsewhere : {Caller::autograd, Caller::other})
      EXPECT_EXIT(seenAfter(here, elsewhere), testing::ExitedWithCode(0), "");
}

TEST(Caller, AShardIsThatOfTheLastCallOfTheThreadElsewhere) {
  const CommResources sharding, replicas;
  const float shard[16] = {}, other[16] = {};
  const auto finding = std::make_shared<std::atomic<SiteFinding>>(SiteFinding::gradient);
  EXPECT_EQ(shardOfAnother(replicas, nullptr, 0), nullptr) << "nothing was scattered";
  noteScattered({&sharding, shard, 16, finding});
  EXPECT_EQ(shardOfAnother(replicas, shard, 16), finding);
  EXPECT_EQ(shardOfAnother(sharding, shard, 16), nullptr) << "on the same communicator";
  EXPECT_EQ(shardOfAnother(replicas, other, 16), nullptr);
  EXPECT_EQ(shardOfAnother(replicas, shard, 15), nullptr);
  onThread("pt_autograd_1", [&] { EXPECT_EQ(shardOfAnother(replicas, shard, 16), nullptr); });
  noteScattered({});
  EXPECT_EQ(shardOfAnother(replicas, shard, 16), nullptr) << "another call came between";
}

}  // namespace
}  // namespace cinch
