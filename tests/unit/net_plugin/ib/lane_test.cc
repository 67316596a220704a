#include "net_plugin/ib/lane.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "fake_ports.h"

namespace cinch::net::ib {
namespace {

using namespace std::chrono_literals;

constexpr Lane::Clock::time_point kNow{5s};

struct Heard final : LaneUser {
  void arrived(uint32_t immediate) override { immediates.push_back(immediate); }
  void written(Work work, uint32_t id) override { done.emplace_back(work, id); }

  std::vector<uint32_t> immediates;
  std::vector<std::pair<Work, uint32_t>> done;
};

// A lane between the ports of two devices. What is written goes from `from` to `to`.
class LaneTest : public testing::Test {
 protected:
  using Memory = std::array<uint8_t, 4096>;

  void TearDown() override {
    one_.reset();
    other_.reset();
  }

  void connect(size_t nQueues = 1, QueueDepth depth = {8, 8}) {
    one_ = make(0, nQueues, depth, from_);
    other_ = make(1, nQueues, depth, to_);
    ASSERT_TRUE(one_ != nullptr && other_ != nullptr);
    Card cards[2];
    one_->describe(cards[0]);
    other_->describe(cards[1]);
    toKey_ = cards[1].ports[0].ringKey;
    ASSERT_TRUE(one_->connect(cards[1], 0).ok());
    ASSERT_TRUE(other_->connect(cards[0], 0).ok());
  }
  std::unique_ptr<Lane> make(size_t port, size_t nQueues, QueueDepth depth, Memory& memory) {
    auto lane = Lane::create(ports_[port], {nQueues, depth}, memory.data(), memory.size());
    EXPECT_TRUE(lane.ok()) << lane.error().message;
    return lane ? std::move(lane.value()) : nullptr;
  }
  RemoteWrite writeOf(size_t offset, uint32_t nBytes) {
    return {from_.data() + offset, one_->slotsKey(), nBytes,
            reinterpret_cast<uint64_t>(to_.data() + offset), toKey_};
  }
  // A name goes out, and may arrive.
  Posting write(uint32_t id, size_t queue = 0) {
    return one_->write(queue, writeOf(0, 16), Work::grant, id);
  }
  void poll(int steps = 200) {
    for (int i = 0; i < steps; ++i) {
      one_->poll(heard_);
      if (other_) other_->poll(heardOther_);
    }
  }
  // The text of the error that the fake gives to what is under way.
  std::string failureOf(ibv_wc_status status) {
    connect();
    EXPECT_EQ(write(1), Posting::taken);
    ports_.provider.failQueues(0, status);
    poll();
    return one_->failure();
  }

  FakePorts ports_;
  Memory from_{};
  Memory to_{};
  uint32_t toKey_ = 0;
  std::unique_ptr<Lane> one_;
  std::unique_ptr<Lane> other_;
  Heard heard_;
  Heard heardOther_;
};

TEST_F(LaneTest, DescribesItsQueuesBehindThoseOfOthers) {
  one_ = make(0, 3, {4, 4}, from_);
  other_ = make(1, 3, {4, 4}, to_);
  Card card;
  one_->describe(card);
  other_->describe(card);
  ASSERT_EQ(card.ports.size(), 2u);
  EXPECT_EQ(card.ports[0].gid, ports_[0].card().gid);
  EXPECT_EQ(card.ports[1].gid, ports_[1].card().gid);
  EXPECT_EQ(card.ports[0].ringKey, one_->slotsKey());
  ASSERT_EQ(card.queues.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(card.queues[i].port, i / 3);
  EXPECT_TRUE(parseCard(encodeCard(card)).ok());
}

TEST_F(LaneTest, WritesAndSaysOnceItIsDone) {
  connect(2);
  from_.fill(0x5a);
  const RemoteWrite grant = writeOf(64, 100);
  ASSERT_EQ(one_->write(1, grant, Work::grant, 0xfffffffe), Posting::taken);
  EXPECT_TRUE(heard_.done.empty());
  poll();
  ASSERT_EQ(heard_.done.size(), 1u);
  EXPECT_EQ(heard_.done[0], std::pair(Work::grant, 0xfffffffeu));
  EXPECT_TRUE(heardOther_.immediates.empty());
  EXPECT_EQ(to_[63], 0);
  EXPECT_EQ(to_[64], 0x5a);
  EXPECT_EQ(to_[163], 0x5a);
  EXPECT_EQ(to_[164], 0);
}

TEST_F(LaneTest, AnnouncesDataWithAnImmediateAndGivesOneCompletion) {
  connect();
  from_.fill(0x33);
  for (const uint32_t nBytes : {0u, 1000u}) {
    bool dataIsPosted = false;
    ASSERT_EQ(
        one_->announce(0, writeOf(0, nBytes), dataIsPosted, writeOf(2000, 16), 77 + nBytes, 9),
        Posting::taken);
    EXPECT_EQ(dataIsPosted, nBytes > 0);
    poll();
  }
  EXPECT_EQ(heardOther_.immediates, (std::vector<uint32_t>{77, 1077}));
  EXPECT_EQ(heard_.done, (std::vector{std::pair(Work::arrival, 9u), {Work::arrival, 9u}}));
  EXPECT_EQ(to_[999], 0x33);
  EXPECT_EQ(to_[2015], 0x33);
}

// The queue has room for the data alone: the announcement follows, the data does not go again.
TEST_F(LaneTest, GoesOnWithTheAnnouncementWhereOnlyTheDataFoundRoom) {
  connect(1, {3, 8});
  ASSERT_EQ(write(1), Posting::taken);
  ASSERT_EQ(write(2), Posting::taken);
  bool dataIsPosted = false;
  const RemoteWrite data = writeOf(0, 500);
  ASSERT_EQ(one_->announce(0, data, dataIsPosted, writeOf(600, 16), 5, 3), Posting::full);
  EXPECT_TRUE(dataIsPosted);
  poll();
  EXPECT_EQ(heard_.done.size(), 2u);
  ASSERT_EQ(one_->announce(0, data, dataIsPosted, writeOf(600, 16), 5, 3), Posting::taken);
  poll();
  EXPECT_EQ(heardOther_.immediates, std::vector<uint32_t>{5});
  EXPECT_EQ(heard_.done.size(), 3u);
  EXPECT_EQ(ports_.provider.bytesWritten(0), 16u + 16 + 500 + 16);
  EXPECT_FALSE(one_->hasFailed()) << one_->failure();
}

TEST_F(LaneTest, MakesRoomForOneImmediateAfterTheOther) {
  connect(1, {4, 2});
  uint32_t n = 0;
  for (int i = 0; i < 2000 && n < 50; ++i) {
    bool dataIsPosted = false;
    n += one_->announce(0, {}, dataIsPosted, writeOf(0, 16), n, n) == Posting::taken;
    poll(1);
  }
  poll();
  ASSERT_EQ(heardOther_.immediates.size(), 50u);
  for (uint32_t i = 0; i < 50; ++i) EXPECT_EQ(heardOther_.immediates[i], i);
}

TEST_F(LaneTest, SaysThatItIsFullAndHasNotFailed) {
  connect(1, {2, 2});
  EXPECT_EQ(write(1), Posting::taken);
  EXPECT_EQ(write(2), Posting::taken);
  EXPECT_EQ(write(3), Posting::full);
  EXPECT_FALSE(one_->hasFailed());
  poll();
  EXPECT_EQ(heard_.done.size(), 2u);
}

TEST_F(LaneTest, HasFailedWhereAPostingIsRefusedAndSaysWhy) {
  connect();
  ports_.api.postSend = [](ibv_qp*, ibv_send_wr* first, ibv_send_wr** refused) {
    *refused = first;
    errno = 0;
    return EINVAL;
  };
  EXPECT_EQ(write(1), Posting::refused);
  EXPECT_EQ(one_->failure(), "fake0:1: it takes no more writes: Invalid argument");
}

TEST_F(LaneTest, HasFailedWhereThereIsNoRoomForImmediates) {
  ports_.api.postReceive = [](ibv_qp*, ibv_recv_wr* first, ibv_recv_wr** refused) {
    *refused = first;
    errno = 0;
    return ENOMEM;
  };
  const auto lane = Lane::create(ports_[0], {1, {4, 4}}, from_.data(), from_.size());
  ASSERT_FALSE(lane.ok());
  EXPECT_EQ(lane.error().message, "fake0:1: it takes no more receives: Cannot allocate memory");
}

struct Cause {
  ibv_wc_status status;
  const char* text;
};

class LaneStatusTest : public LaneTest, public testing::WithParamInterface<Cause> {};

TEST_P(LaneStatusTest, NamesPortStatusAndLikelyCause) {
  EXPECT_EQ(failureOf(GetParam().status), std::string("fake0:1: ") + GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    All, LaneStatusTest,
    testing::Values(
        Cause{IBV_WC_LOC_LEN_ERR,
              "local length error (status 1, vendor 0), the device's log in dmesg may say more"},
        Cause{IBV_WC_LOC_PROT_ERR,
              "local protection error (status 4, vendor 0), memory of this process is not known to "
              "the device: was it freed during a transfer?"},
        Cause{IBV_WC_WR_FLUSH_ERR,
              "flushed (status 5, vendor 0), the queue pair was ended from elsewhere"},
        Cause{IBV_WC_REM_ACCESS_ERR,
              "remote access error (status 10, vendor 0), the peer's memory is not open to this: "
              "was it freed during a transfer?"},
        Cause{IBV_WC_RETRY_EXC_ERR,
              "retries exceeded (status 12, vendor 0), no answer: is the peer gone, a cable out, "
              "or the wrong address in use (NCCL_IB_GID_INDEX)?"},
        Cause{IBV_WC_RNR_RETRY_EXC_ERR,
              "RNR retries exceeded (status 13, vendor 0), the peer takes nothing: do all ranks "
              "use the same version of Cinch's net plugin?"},
        // Beyond those that have a word.
        Cause{IBV_WC_LOC_RDD_VIOL_ERR,
              "error (status 14, vendor 0), the device's log in dmesg may say more"},
        Cause{IBV_WC_GENERAL_ERR,
              "error (status 21, vendor 0), the device's log in dmesg may say more"}));

// The rest is flushed, which is no news.
TEST_F(LaneTest, KeepsTheFirstReason) {
  const std::string first = failureOf(IBV_WC_REM_OP_ERR);
  EXPECT_NE(first.find("remote operation error"), std::string::npos) << first;
  one_->fail("something else");
  ports_.provider.killDevice(0);
  one_->lookAtPort({});
  EXPECT_EQ(one_->failure(), first);
}

TEST_F(LaneTest, HasFailedWhereItsCompletionsCannotBeRead) {
  connect();
  ports_.api.pollCq = [](ibv_cq*, int, ibv_wc*) { return -1; };
  EXPECT_FALSE(one_->poll(heard_));
  EXPECT_EQ(one_->failure(), "fake0:1: its completions cannot be read");
}

TEST_F(LaneTest, TakesNoteOfItsPort) {
  connect();
  one_->lookAtPort({});
  EXPECT_FALSE(one_->hasFailed());
  ports_.provider.takeDown(0);
  other_->lookAtPort({});
  EXPECT_FALSE(other_->hasFailed());
  one_->lookAtPort({});
  EXPECT_EQ(one_->failure(), "fake0:1: the port is down: is its cable or interface?");
}

TEST_F(LaneTest, IsShorterWhereTheDeviceHoldsLess) {
  ASSERT_NO_FATAL_FAILURE(connect(1, {100000, 100000}));
  uint32_t n = 0;
  while (n < 100000 && write(n) == Posting::taken) ++n;
  EXPECT_EQ(n, 4096u);
}

}  // namespace

// The limits of the device, and what cannot be made at it.
namespace {

struct Refusal {
  explicit Refusal(const FakeOptions& options) : ports(options) {}

  std::string of(size_t nQueues, QueueDepth depth) {
    std::array<uint8_t, 64> memory{};
    const auto lane = Lane::create(ports[0], {nQueues, depth}, memory.data(), memory.size());
    return lane ? "" : lane.error().message;
  }

  FakePorts ports;
};

TEST(LaneLimits, NamesTheVariableWhereTheDeviceHoldsTooFewCompletions) {
  Refusal refusal({.maxCompletions = 40});
  EXPECT_EQ(refusal.of(2, {10, 10}), "");
  EXPECT_EQ(refusal.of(2, {10, 11}),
            "fake0:1 holds 40 completions and 2 queues would need 42: lower "
            "NCCL_IB_QPS_PER_CONNECTION");
}

TEST(LaneLimits, KeepsNothingWhereSomethingCannotBeMade) {
  Refusal refusal({});
  refusal.ports.api.regMr = [](ibv_pd*, void*, size_t, int) -> ibv_mr* {
    errno = ENOMEM;
    return nullptr;
  };
  EXPECT_EQ(refusal.of(1, {4, 4}),
            "fake0:1: no memory region for a connection: Cannot allocate memory");
  refusal.ports.api = fakeApi();
  refusal.ports.api.createCq = [](ibv_context*, int, void*, ibv_comp_channel*, int) -> ibv_cq* {
    errno = EMFILE;
    return nullptr;
  };
  EXPECT_EQ(refusal.of(1, {4, 4}),
            "fake0:1: no completion queue for a connection: Too many open files");
  refusal.ports.api = fakeApi();
  static int left;
  left = 2;
  refusal.ports.api.createQp = [](ibv_pd* domain, ibv_qp_init_attr* attributes) -> ibv_qp* {
    if (left-- > 0) return fakeApi().createQp(domain, attributes);
    errno = ENOSPC;
    return nullptr;
  };
  EXPECT_EQ(refusal.of(4, {4, 4}),
            "fake0:1: no queue pair of 4 and 4 entries: No space left on device");
}

// Ending all that is under way, by a clock that the test moves on.
class LaneStopTest : public LaneTest {};

TEST_F(LaneStopTest, IsStoppedOnceAllHasBeenGiven) {
  connect(2, {4, 3});
  EXPECT_FALSE(one_->isStopped(kNow + 1h));
  ASSERT_EQ(write(1, 1), Posting::taken);
  one_->stop(kNow);
  EXPECT_FALSE(one_->isStopped(kNow));
  while (one_->poll(heard_)) {
  }
  EXPECT_TRUE(one_->isStopped(kNow));
  // That it was ended here is no failure of it.
  EXPECT_FALSE(one_->hasFailed()) << one_->failure();
  EXPECT_TRUE(heard_.done.empty());
  EXPECT_EQ(one_->nQueues(), 0u);
}

TEST_F(LaneStopTest, GivesWhatHadArrivedBefore) {
  connect();
  bool dataIsPosted = false;
  ASSERT_EQ(one_->announce(0, {}, dataIsPosted, writeOf(0, 16), 42, 1), Posting::taken);
  for (int i = 0; i < 50; ++i) ports_.provider.step();
  other_->stop(kNow);
  EXPECT_FALSE(other_->isStopped(kNow));
  // No room is made for more.
  ports_.api.postReceive = [](ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return EINVAL; };
  while (other_->poll(heardOther_)) {
  }
  EXPECT_EQ(heardOther_.immediates, std::vector<uint32_t>{42});
  EXPECT_TRUE(other_->isStopped(kNow));
  EXPECT_FALSE(other_->hasFailed()) << other_->failure();
}

// A device that has died completes nothing any more.
TEST_F(LaneStopTest, WaitsNoLongerThanASecond) {
  connect();
  ASSERT_EQ(write(1), Posting::taken);
  ports_.api.pollCq = [](ibv_cq*, int, ibv_wc*) { return 0; };
  one_->stop(kNow);
  // Of no effect: the first counts.
  one_->stop(kNow + 500ms);
  one_->poll(heard_);
  EXPECT_FALSE(one_->isStopped(kNow + 999ms));
  EXPECT_EQ(one_->nQueues(), 1u);
  EXPECT_TRUE(one_->isStopped(kNow + 1s));
  EXPECT_EQ(one_->nQueues(), 0u);
  // For good, whatever the clock says.
  EXPECT_TRUE(one_->isStopped(kNow + 2s));
}

// Without this the device could write into memory that is the owner's again.
TEST_F(LaneStopTest, LetsNothingInOnceItIsStopped) {
  connect();
  from_.fill(0x77);
  bool dataIsPosted = false;
  ASSERT_EQ(one_->announce(0, writeOf(0, 4000), dataIsPosted, writeOf(4000, 16), 1, 1),
            Posting::taken);
  for (int i = 0; i < 4; ++i) ports_.provider.step();
  other_->stop(kNow);
  while (!other_->isStopped(kNow)) other_->poll(heardOther_);
  const Memory before = to_;
  poll();
  EXPECT_EQ(to_, before);
  EXPECT_TRUE(heardOther_.immediates.empty());
  EXPECT_TRUE(one_->hasFailed());
}

TEST_F(LaneStopTest, IsEndedAtOnceByClose) {
  connect();
  from_.fill(0x77);
  ASSERT_EQ(write(1), Posting::taken);
  one_->close();
  poll();
  EXPECT_EQ(to_[0], 0);
  EXPECT_TRUE(heard_.done.empty());
}

}  // namespace
}  // namespace cinch::net::ib
