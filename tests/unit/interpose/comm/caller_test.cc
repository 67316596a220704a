#include "interpose/comm/caller.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <atomic>
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

TEST(Caller, AShardIsThatOfTheLastCallOfTheThreadElsewhere) {
  const CommResources sharding, replicas;
  const float shard[16] = {}, other[16] = {};
  EXPECT_FALSE(isShardOfAnother(replicas, nullptr, 0)) << "nothing was scattered";
  noteScattered({&sharding, shard, 16});
  EXPECT_TRUE(isShardOfAnother(replicas, shard, 16));
  EXPECT_FALSE(isShardOfAnother(sharding, shard, 16)) << "on the same communicator";
  EXPECT_FALSE(isShardOfAnother(replicas, other, 16));
  EXPECT_FALSE(isShardOfAnother(replicas, shard, 15));
  onThread("pt_autograd_1", [&] { EXPECT_FALSE(isShardOfAnother(replicas, shard, 16)); });
  noteScattered({});
  EXPECT_FALSE(isShardOfAnother(replicas, shard, 16)) << "another call came between";
}

}  // namespace
}  // namespace cinch
