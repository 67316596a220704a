// The channels of several ranks in one process, over the built-in network and over plugins.
#include "emulator/nccl/connections.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <thread>

#include "emulator/nccl/debug.h"

namespace cinch::emulator {
namespace {

class ConnectionsTest : public testing::Test {
 protected:
  // All ranks, their ring being connected.
  void connect(const char* plugin, int nRanks) {
    networks_ = std::make_unique<Networks>(std::vector<std::string>{plugin}, 0);
    std::vector<char> table;
    for (int rank = 0; rank < nRanks; ++rank) {
      Result<Network> network = networks_->choose("", 1, kNetNoTrafficClass);
      ASSERT_TRUE(network.ok());
      auto made = Connections::listen(std::move(network.value()), rank, nRanks, 0);
      ASSERT_TRUE(made.ok()) << made.error().message;
      ranks_.push_back(std::move(made.value()));
      const std::vector<char>& handles = ranks_.back()->handles();
      table.insert(table.end(), handles.begin(), handles.end());
    }
    for (const auto& rank : ranks_) rank->setTable(table);
    while (!isRingConnected()) std::this_thread::yield();
  }

  // In the place of the progress thread, since one thread alone may transfer.
  static void onThread(const std::function<void()>& action) { std::thread(action).join(); }

  std::unique_ptr<Networks> networks_;
  std::vector<std::unique_ptr<Connections>> ranks_;
  const std::string warningBefore_ = lastError();  // the plugin warns of broken rules

 private:
  bool isRingConnected() {
    bool all = true;
    for (const auto& rank : ranks_) {
      const Result<bool> connected = rank->connectRing();
      EXPECT_TRUE(connected.ok());
      all = all && connected.ok() && connected.value();
    }
    return all || HasFailure();
  }
};

class ConnectionsOver : public ConnectionsTest, public testing::WithParamInterface<const char*> {
 protected:
  void connect(int nRanks) { ConnectionsTest::connect(GetParam(), nRanks); }
};

// Sends messages 0, 1, 2 ... of their number's length and expects them at the other end.
void exchange(SendChannel& out, ReceiveChannel& in, int nMessages) {
  int nSent = 0, nReceived = 0;
  in.expect(static_cast<size_t>(nMessages));
  while (nReceived < nMessages) {
    ASSERT_TRUE(out.progress().ok());
    ASSERT_TRUE(in.progress().ok());
    if (char* slot = nSent < nMessages ? out.freeSlot() : nullptr) {
      memset(slot, nSent, kSlotBytes);
      out.fill(static_cast<size_t>(nSent++));
    }
    if (const char* message = in.arrived()) {
      const std::vector<char> wanted(static_cast<size_t>(nReceived), static_cast<char>(nReceived));
      ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), message)) << nReceived;
      in.release();
      ++nReceived;
    }
  }
  while (!out.isIdle()) ASSERT_TRUE(out.progress().ok());
}

TEST_P(ConnectionsOver, MoveMessagesRoundTheRingAndBetweenPeers) {
  connect(3);
  onThread([&] { exchange(*ranks_[0]->ringOut(), *ranks_[1]->ringIn(), 100); });
  onThread([&] { exchange(ranks_[2]->sendTo(0), ranks_[0]->receiveFrom(2), 100); });
  onThread([&] { exchange(ranks_[0]->sendTo(2), ranks_[2]->receiveFrom(0), 100); });
  ranks_.clear();
  EXPECT_EQ(lastError(), warningBefore_);
}

// As in NCCL, where the program waits at a first receive until the other one sends.
TEST_P(ConnectionsOver, AreOpeningUntilThePeerOpensThemToo) {
  connect(2);
  const ReceiveChannel& in = ranks_[0]->receiveFrom(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(Connections::isOpening(in));
  ranks_[1]->sendTo(0);
  while (Connections::isOpening(in)) std::this_thread::yield();
  EXPECT_TRUE(in.isOpen());
}

// Slots are all that is in flight, in both directions, however much is expected.
TEST_P(ConnectionsOver, AreClosedWithRequestsInFlight) {
  connect(2);
  onThread([&] {
    SendChannel& out = *ranks_[0]->ringOut();
    ReceiveChannel& in = *ranks_[0]->ringIn();
    in.expect(1000);
    size_t nFilled = 0;
    for (int round = 0; round < 100; ++round) {
      EXPECT_TRUE(in.progress().ok());
      if (out.freeSlot() != nullptr && nFilled < kSlots) {
        out.fill(kSlotBytes);
        ++nFilled;
      }
      EXPECT_TRUE(out.progress().ok());
    }
    EXPECT_EQ(nFilled, kSlots);
    EXPECT_EQ(in.arrived(), nullptr);
  });
  ranks_.clear();
  EXPECT_EQ(lastError(), warningBefore_);
}

TEST_P(ConnectionsOver, AreClosedBeforeTheyAreOpen) {
  connect(2);
  ReceiveChannel& in = ranks_[0]->receiveFrom(1);
  SendChannel& out = ranks_[0]->sendTo(1);  // rank 1 does not receive
  onThread([&] {
    const Result<bool> received = in.progress();
    EXPECT_TRUE(received.ok() && !received.value());
    EXPECT_TRUE(out.progress().ok());
  });
  ranks_.clear();
  EXPECT_EQ(lastError(), warningBefore_);
}

TEST_P(ConnectionsOver, ReportAPeerThatHasGone) {
  connect(2);
  ranks_.pop_back();
  onThread([&] {
    ReceiveChannel& in = *ranks_[0]->ringIn();
    in.expect(1);
    Result<bool> moved = true;
    while (moved) moved = in.progress();
    EXPECT_EQ(moved.error().status, Status::remoteError);
    EXPECT_NE(moved.error().message.find("rank 1"), std::string::npos) << moved.error().message;
  });
}

// A wake-up for the ring may come as late as this, so that one alone says little.
TEST_P(ConnectionsOver, WakeWhoeverWaitsForAChannel) {
  connect(2);
  ranks_[0]->sendTo(1);
  const ReceiveChannel& in = ranks_[1]->receiveFrom(0);
  pollfd target{ranks_[1]->wakeup()->descriptor(), POLLIN, 0};
  do {
    EXPECT_EQ(poll(&target, 1, -1), 1);
    ranks_[1]->wakeup()->drain();
  } while (!in.isOpen());
}

TEST_P(ConnectionsOver, NeedNoOtherRankToExist) {
  connect(1);
  EXPECT_EQ(ranks_[0]->ringOut(), nullptr);
  EXPECT_TRUE(ranks_[0]->handles().empty());
}

INSTANTIATE_TEST_SUITE_P(Networks, ConnectionsOver,
                         testing::Values("none", "trivial_v8", "trivial_v9", "trivial_v10",
                                         "trivial_v11", "trivial_v12"));

// A receive that would wait for ever: the peer has gone and never connected for it.
TEST_F(ConnectionsTest, NoticesAPeerThatNeverConnected) {
  connect("none", 2);
  ReceiveChannel& in = ranks_[0]->receiveFrom(1);
  ranks_.pop_back();
  Result<bool> open = false;
  while (open) open = in.openState();
  EXPECT_EQ(open.error().status, Status::remoteError);
  EXPECT_NE(open.error().message.find("rank 1"), std::string::npos) << open.error().message;
}

}  // namespace
}  // namespace cinch::emulator
