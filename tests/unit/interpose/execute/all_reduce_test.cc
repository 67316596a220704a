#include "interpose/execute/all_reduce.h"

#include <gtest/gtest.h>

#include <cstring>
#include <future>

#include "tests/unit/interpose/support/fake_device.h"
#include "tests/unit/interpose/support/fake_real.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;
using test::fakeReal;
using test::fakeRealTable;

constexpr uint64_t kCount = 40000;
const Signature kSignature{CallKind::allReduce, OpClass::sum, ncclFloat32, kCount};

Hello helloOf(int rank) {
  Hello hello;
  hello.rank = rank;
  hello.nRanks = 2;
  hello.hostId = static_cast<uint64_t>(rank);
  hello.host = "host";
  return hello;
}

// Two ranks that have agreed, over a real channel. Only rank 0 has a communicator; rank 1 is an
// Agreement that votes as the test says.
class AllReduceTest : public testing::Test {
 protected:
  void SetUp() override {
    fakeDevice().reset();
    fakeReal() = {};
    uint8_t id[kUniqueIdBytes] = {};
    ASSERT_TRUE(serveAgreement(id).ok());
    auto own = greet(id, 0);
    peer_ = greet(id, 1);
    auto peersVerdict = std::async([&] { return isYes(peer_->awaitVerdict(20)); });
    ASSERT_TRUE(isYes(own->awaitVerdict(20)));
    ASSERT_TRUE(peersVerdict.get());
    comm_ = std::make_shared<CommState>(fakeRealTable(), nullptr, 0, 2, stats_);
    comm_->enable(resources(), std::move(own), true);
  }
  void TearDown() override {
    comm_.reset();
    peer_.reset();
  }

  static std::unique_ptr<Agreement> greet(const uint8_t* id, int rank) {
    auto greeted = Agreement::greet(id, helloOf(rank), 20);
    EXPECT_TRUE(greeted.ok()) << greeted.error().message;
    return std::move(greeted.value());
  }
  static bool isYes(const Result<Verdict>& verdict) {
    return verdict.ok() && verdict.value().compress;
  }
  static CommResources resources() {
    CommResources resources;
    resources.device = &fakeDeviceTable();
    resources.fault = std::move(
        Buffer::allocate(fakeDeviceTable(), sizeof(uint32_t), Buffer::Where::host).value());
    *resources.fault.as<uint32_t>() = 0;
    return resources;
  }

  // The slot of the test's call, which the warm-up has already passed.
  Slot& candidate() {
    for (;;) {
      const auto decision = comm_->decide(kSignature);
      if (decision.reason == Reason::none) return *decision.slot;
    }
  }
  ncclResult_t run(Slot& slot) { return runAllReduce(*comm_, slot, call_); }
  // The peer's votes on the slot's memory and on its connections.
  void castPeersVotes(Slot& slot, bool allocated, bool connected) {
    ASSERT_TRUE(peer_->castVote(2 * slot.index, allocated).ok());
    ASSERT_TRUE(peer_->castVote(2 * slot.index + 1, connected).ok());
  }
  uint64_t passed(Reason reason) { return stats_.passedCalls[static_cast<size_t>(reason)].load(); }

  CommStats stats_{CommLabel{"communicator", 0, 2, "", {}}};
  std::shared_ptr<CommState> comm_;
  std::unique_ptr<Agreement> peer_;
  std::vector<float> values_ = std::vector<float>(kCount, 0.5f);
  const AllReduceCall call_{values_.data(), values_.data(), kCount, ncclFloat32, ncclSum, nullptr};
};

const std::vector<std::string> kExchange = {"GroupStart", "Send 1", "Recv 1", "GroupEnd",
                                            "AllGather"};

TEST_F(AllReduceTest, PassesTwiceThenCompressesWhenAllAreReady) {
  Slot& slot = candidate();
  castPeersVotes(slot, true, true);
  ASSERT_EQ(run(slot), ncclSuccess);
  EXPECT_EQ(slot.phase, SlotPhase::allocated);
  EXPECT_EQ(fakeReal().calls, std::vector<std::string>{"AllReduce"})
      << "nothing of Cinch's is sent before all have agreed";

  fakeReal() = {};
  ASSERT_EQ(run(slot), ncclSuccess);
  EXPECT_EQ(slot.phase, SlotPhase::warmed);
  std::vector<std::string> connected = kExchange;
  connected.push_back("AllReduce");
  EXPECT_EQ(fakeReal().calls, connected);
  EXPECT_EQ(passed(Reason::preparing), 2u);

  fakeReal() = {};
  ASSERT_EQ(run(slot), ncclSuccess);
  EXPECT_EQ(slot.phase, SlotPhase::active);
  EXPECT_EQ(fakeReal().calls, kExchange);
  EXPECT_EQ(slot.stats->compressed.load(), 1u);
  EXPECT_EQ(slot.stats->wireBytes.load(), slot.plan.wireBytes());
}

TEST_F(AllReduceTest, ANoOnMemoryAndAllPassForEver) {
  Slot& slot = candidate();
  castPeersVotes(slot, false, false);
  for (int call = 0; call < 5; ++call) ASSERT_EQ(run(slot), ncclSuccess);
  EXPECT_EQ(slot.phase, SlotPhase::refused);
  EXPECT_EQ(fakeReal().calls, std::vector<std::string>(5, "AllReduce"));
}

TEST_F(AllReduceTest, ANoOnConnectionsAndAllPassForEver) {
  Slot& slot = candidate();
  castPeersVotes(slot, true, false);
  for (int call = 0; call < 5; ++call) ASSERT_EQ(run(slot), ncclSuccess);
  EXPECT_EQ(slot.phase, SlotPhase::refused);
  EXPECT_EQ(slot.stats->compressed.load(), 0u);
}

TEST_F(AllReduceTest, ARankThatCannotAllocateSaysNoAndSendsNothing) {
  Slot& slot = candidate();
  fakeDevice().calls.clear();
  fakeDevice().failAt = 2;  // after the capture query and an event: the first buffer
  castPeersVotes(slot, true, true);
  ASSERT_EQ(run(slot), ncclSuccess);
  EXPECT_EQ(slot.phase, SlotPhase::refused);
  ASSERT_EQ(run(slot), ncclSuccess);
  EXPECT_EQ(fakeReal().calls, (std::vector<std::string>{"AllReduce", "AllReduce"}));
  const auto heard = peer_->awaitVote(2 * slot.index, 20);
  ASSERT_TRUE(heard.ok());
  EXPECT_FALSE(heard.value());
}

TEST_F(AllReduceTest, APeerThatLeavesCountsAsANo) {
  Slot& slot = candidate();
  ASSERT_EQ(run(slot), ncclSuccess);
  peer_->close();
  ASSERT_EQ(run(slot), ncclSuccess);
  EXPECT_EQ(slot.phase, SlotPhase::refused);
}

TEST_F(AllReduceTest, ALostChannelBeforeTheVoteIsANo) {
  Slot& slot = candidate();
  comm_->agreement().close();
  ASSERT_EQ(run(slot), ncclSuccess);
  EXPECT_EQ(slot.phase, SlotPhase::refused);
  EXPECT_EQ(comm_->health(), ncclSuccess);
}

TEST_F(AllReduceTest, ALostChannelAfterTheVoteIsAnError) {
  Slot& slot = candidate();
  ASSERT_EQ(run(slot), ncclSuccess);
  comm_->agreement().close();
  EXPECT_NE(run(slot), ncclSuccess) << "the peers may have heard a yes";
}

TEST_F(AllReduceTest, AbortEndsTheWaitForVotesWithAnError) {
  Slot& slot = candidate();
  ASSERT_EQ(run(slot), ncclSuccess);
  auto waiting = std::async([&] { return run(slot); });
  comm_->abandon();
  EXPECT_NE(waiting.get(), ncclSuccess);
}

TEST_F(AllReduceTest, CapturedCallsPassAndChangeNothing) {
  Slot& slot = candidate();
  fakeDevice().capturing = true;
  ASSERT_EQ(run(slot), ncclSuccess);
  EXPECT_EQ(slot.phase, SlotPhase::idle);
  EXPECT_EQ(passed(Reason::capturing), 1u);
}

TEST_F(AllReduceTest, WhateverDeviceCallFailsMarksTheCommunicator) {
  std::vector<std::string> fatal;
  for (size_t failAt = 0; failAt == 0 || failAt < fakeDevice().calls.size(); ++failAt) {
    CommState comm(fakeRealTable(), nullptr, 0, 2, stats_);
    comm.enable(resources(), nullptr, true);
    Slot slot(0, "slot", candidate().plan, 0.1f);
    slot.stats = &stats_.addSlot("slot", "q4", 0.1f);
    ASSERT_TRUE(comm.workspace.reserve(fakeDeviceTable(), slot.plan.bufferBytes()).ok());
    ASSERT_TRUE(slot.allocate(fakeDeviceTable(), nullptr).ok());
    ASSERT_TRUE(comm.workspace.end(nullptr).ok());
    slot.phase = SlotPhase::active;
    fakeDevice().calls.clear();
    fakeDevice().failAt = static_cast<int>(failAt);
    const ncclResult_t result = runAllReduce(comm, slot, call_);
    fakeDevice().failAt = -1;
    if (result == ncclSuccess) continue;  // a question whose answer does not matter
    fatal.push_back(fakeDevice().calls[failAt]);
    EXPECT_EQ(result, ncclUnhandledCudaError);
    EXPECT_EQ(runAllReduce(comm, slot, call_), result) << "a rank may not fall back alone";
    EXPECT_EQ(comm.health(), result);
    fakeDevice().calls.resize(failAt + 2);  // there may be more calls after the one that failed
  }
  EXPECT_EQ(fatal,
            (std::vector<std::string>{"streamWaitEvent", "clear", "clear", "encode", "reduce",
                                      "decode", "copy", "eventRecord", "eventRecord"}));
}

TEST_F(AllReduceTest, RefusedBytesOfAPeerAreAnAsynchronousError) {
  Slot& slot = candidate();
  ASSERT_EQ(run(slot), ncclSuccess);
  EXPECT_EQ(comm_->health(), ncclSuccess);
  *comm_->resources.fault.as<uint32_t>() = kFaultOrdinal | kFaultSlot;
  EXPECT_EQ(comm_->health(), ncclRemoteError);
  EXPECT_EQ(run(slot), ncclRemoteError);
}

TEST_F(AllReduceTest, AnAbandonedCommunicatorKeepsItsMemory) {
  Slot& slot = candidate();
  ASSERT_EQ(run(slot), ncclSuccess);
  const size_t held = fakeDevice().memory.size();
  comm_->abandon();
  comm_.reset();
  EXPECT_EQ(fakeDevice().memory.size(), held);
}

TEST_F(AllReduceTest, FiguresAreCompleteWhenTheCommunicatorEnds) {
  Slot& slot = candidate();
  castPeersVotes(slot, true, true);
  for (int call = 0; call < 3; ++call) ASSERT_EQ(run(slot), ncclSuccess);
  comm_->finish();
  EXPECT_GT(slot.stats->stage[0].power.load(), 0);
}

TEST_F(AllReduceTest, AFinishedCommunicatorFreesItsMemory) {
  Slot& slot = candidate();
  ASSERT_EQ(run(slot), ncclSuccess);
  comm_->finish();
  comm_.reset();
  EXPECT_TRUE(fakeDevice().memory.empty());
  EXPECT_EQ(fakeDevice().events, 0);
}

}  // namespace
}  // namespace cinch
