#include "net_plugin/socket/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>

#include "net_plugin/socket/message.h"

namespace cinch::net {
namespace {

constexpr double kMegabyte = 1e6;
constexpr uint32_t kChunk = 64 << 10;
constexpr int kNobody = -1;
constexpr double kAlwaysInTime = 0.0021;  // and a step of the simulation

using Speeds = std::vector<double>;

// A transfer over simulated flows: each has a queue in its kernel that empties at its speed, and
// asks the schedule for more whenever the kernel has room. Time goes in steps.
class Transfer {
 public:
  Transfer(Speeds speeds, uint32_t chunkBytes, uint32_t seed)
      : speeds_(std::move(speeds)),
        chunkBytes_(chunkBytes),
        flows_(speeds_.size()),
        order_(speeds_.size()),
        random_(seed) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  // The schedule is told these rates; otherwise it has what FlowRate sees.
  void setKnown() { isKnown_ = true; }
  void setSick(size_t flow) { flows_[flow].isSick = true; }
  void setSpeed(size_t flow, double speed) { speeds_[flow] = speed; }

  // Moves a message of `total` bytes; returns the seconds it took, at most `limit`.
  double run(uint64_t total, double limit = 5) {
    OutgoingMessage message(1, next_++, nullptr, total, chunkBytes_);
    const uint64_t nChunks = std::max<uint64_t>(1, (total + chunkBytes_ - 1) / chunkBytes_);
    arrived_.assign(nChunks, false);
    missing_ = nChunks;
    for (auto& flow : flows_) flow.begin();
    const double start = seconds_;
    while (missing_ > 0 && seconds_ - start < limit) {
      std::shuffle(order_.begin(), order_.end(), random_);
      for (const size_t i : order_) feed(i, message);
      for (size_t i = 0; i < flows_.size(); ++i) drain(i);
      seconds_ += kStep;
    }
    return seconds_ - start;
  }

  double goodput(uint64_t total) {
    const double sum = std::accumulate(speeds_.begin(), speeds_.end(), 0.0);
    return total / run(total) / sum;
  }

  uint64_t taken(size_t flow) const { return flows_[flow].taken; }
  uint64_t repeated() const { return repeated_; }
  // When its last byte was through.
  double finish(size_t flow) const { return flows_[flow].finish; }
  double lastFinishOfOthers(size_t self) const {
    double last = 0;
    for (size_t i = 0; i < flows_.size(); ++i) last = i == self ? last : std::max(last, finish(i));
    return last;
  }

 private:
  static constexpr double kStep = 20e-6;
  static constexpr uint64_t kKernelBytes = 512 << 10;

  struct Piece {
    uint32_t index = 0;
    double left = 0;
  };
  struct SimulatedFlow {
    std::deque<Piece> queue;
    uint64_t written = 0;
    uint64_t taken = 0;
    double finish = 0;
    bool isSick = false;
    FlowRate rate;

    // What is still under way of the message before counts for nobody.
    void begin() {
      queue.clear();
      taken = 0;
      finish = 0;
    }
    uint64_t queued() const {
      double bytes = 0;
      for (const Piece& piece : queue) bytes += piece.left;
      return static_cast<uint64_t>(bytes);
    }
  };

  Clock::time_point now() const {
    return Clock::time_point(std::chrono::nanoseconds(static_cast<int64_t>(seconds_ * 1e9)));
  }

  std::vector<FlowView> views() const {
    std::vector<FlowView> all;
    for (size_t i = 0; i < flows_.size(); ++i) {
      const double rate = isKnown_ ? speeds_[i] : flows_[i].rate.bytesPerSecond();
      const double seen = flows_[i].rate.seenBytesPerSecond();
      all.push_back({rate, flows_[i].queued(), flows_[i].isSick, seen});
    }
    return all;
  }

  void feed(size_t i, OutgoingMessage& message) {
    SimulatedFlow& flow = flows_[i];
    flow.rate.sample(now(), flow.written, flow.queued());
    if (flow.queued() >= kKernelBytes) return;
    const std::vector<FlowView> all = views();
    if (!message.hasUnsent()) return repeat(i, all, message);
    if (!takesChunk(all, i, message.peek().length, message.unsentBytes())) return;
    const uint64_t limit = bytesAtOnce(all, i, message.unsentBytes());
    uint64_t bytes = 0;
    do {
      bytes += message.peek().length;
      put(flow, message.take(static_cast<int>(i)));
    } while (message.hasUnsent() && bytes + message.peek().length <= limit);
  }

  void repeat(size_t i, const std::vector<FlowView>& all, OutgoingMessage& message) {
    const int late = latestFlow(all, i, chunkBytes_);
    if (late == kNobody) return;
    const auto& queue = flows_[late].queue;
    for (auto piece = queue.rbegin(); piece != queue.rend(); ++piece) {
      if (!message.takeAgain(piece->index, static_cast<int>(i))) continue;
      ++repeated_;
      return put(flows_[i], message.chunk(piece->index));
    }
  }

  static void put(SimulatedFlow& flow, const Chunk& chunk) {
    flow.queue.push_back({chunk.index, static_cast<double>(chunk.length)});
    flow.written += chunk.length;
    flow.taken += chunk.length;
  }

  void drain(size_t i) {
    SimulatedFlow& flow = flows_[i];
    double budget = speeds_[i] * kStep;
    while (!flow.queue.empty() && budget > 0) {
      Piece& piece = flow.queue.front();
      const double moved = std::min(budget, piece.left);
      budget -= moved;
      piece.left -= moved;
      if (piece.left > 0) return;
      if (!arrived_[piece.index]) --missing_;
      arrived_[piece.index] = true;
      flow.queue.pop_front();
      flow.finish = seconds_;
    }
  }

  Speeds speeds_;
  const uint32_t chunkBytes_;
  std::vector<SimulatedFlow> flows_;
  std::vector<size_t> order_;
  std::mt19937 random_;
  bool isKnown_ = false;
  uint32_t next_ = 0;
  double seconds_ = 1;
  std::vector<bool> arrived_;
  uint64_t missing_ = 0;
  uint64_t repeated_ = 0;
};

Speeds mega(std::initializer_list<double> speeds) {
  Speeds all;
  for (const double speed : speeds) all.push_back(speed * kMegabyte);
  return all;
}

const std::vector<Speeds> kUneven = {
    mega({400, 400, 400, 100}), mega({500, 400, 300, 200}),
    mega({400, 400, 400, 5}),   mega({400, 400, 400, 400}),
    mega({1000, 30}),           mega({900, 800, 700, 600, 90, 80, 70, 60})};
constexpr uint32_t kScheduledChunks[] = {32 << 10, 64 << 10, 128 << 10};

TEST(Schedule, OfKnownRatesUsesWhatTheFlowsCanCarry) {
  for (const Speeds& speeds : kUneven) {
    for (const uint32_t chunkBytes : kScheduledChunks) {
      Transfer transfer(speeds, chunkBytes, 1);
      transfer.setKnown();
      const double goodput = transfer.goodput(64 << 20);
      EXPECT_GE(goodput, 0.9) << speeds.back() << " with " << chunkBytes;
      EXPECT_LE(goodput, 1.01) << "the simulation is wrong";
      EXPECT_EQ(transfer.repeated(), 0u);
    }
  }
}

double slowestBut(Speeds speeds, size_t self) {
  speeds.erase(speeds.begin() + self);
  return *std::min_element(speeds.begin(), speeds.end());
}

// A flow ends no later than the others, but for what may always go, and for a chunk that another
// could not have had there in time.
TEST(Schedule, MakesNobodyWaitForAFlow) {
  for (const Speeds& speeds : kUneven) {
    for (const uint32_t chunkBytes : kScheduledChunks) {
      Transfer transfer(speeds, chunkBytes, 2);
      transfer.setKnown();
      transfer.run(64 << 20);
      for (size_t i = 0; i < speeds.size(); ++i) {
        const double slack = kAlwaysInTime + chunkBytes / slowestBut(speeds, i);
        EXPECT_LE(transfer.finish(i), transfer.lastFinishOfOthers(i) + slack) << i;
      }
    }
  }
}

TEST(Schedule, GivesEachFlowItsShare) {
  Transfer transfer(mega({500, 400, 300, 200}), kChunk, 3);
  transfer.setKnown();
  transfer.run(140 << 20);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(transfer.taken(i), (50 - 10.0 * i) * (1 << 20), 4 << 20) << i;
  }
}

TEST(Schedule, FindsTheRatesByItself) {
  for (const Speeds& speeds : kUneven) {
    Transfer transfer(speeds, kChunk, 4);
    transfer.run(64 << 20);
    EXPECT_GE(transfer.goodput(64 << 20), 0.85) << speeds.back();
  }
}

TEST(Schedule, RecoversFromAFlowThatSlowsDown) {
  Transfer transfer(mega({400, 400, 400, 400}), kChunk, 5);
  transfer.run(64 << 20);
  transfer.setSpeed(2, 5 * kMegabyte);
  EXPECT_GE(transfer.goodput(64 << 20), 0.7) << "the message it happens in";
  EXPECT_GE(transfer.goodput(64 << 20), 0.85);
}

TEST(Schedule, GoesOnWithoutAFlowThatStops) {
  Transfer transfer(mega({400, 400, 400, 400}), kChunk, 6);
  transfer.run(64 << 20);
  transfer.setSpeed(1, 0);
  EXPECT_LT(transfer.run(256 << 20), 0.35) << "before it is known as sick";
  EXPECT_GT(transfer.repeated(), 0u);
}

TEST(Schedule, GivesSickFlowsNothing) {
  Transfer transfer(mega({400, 400, 400, 100}), kChunk, 7);
  transfer.setKnown();
  transfer.setSick(1);
  transfer.setSick(3);
  EXPECT_NEAR(transfer.run(64 << 20), (64 << 20) / (800 * kMegabyte), 0.005);
  EXPECT_EQ(transfer.taken(1), 0u);
  EXPECT_EQ(transfer.taken(3), 0u);
}

TEST(Schedule, WithOnlySickFlowsStillMoves) {
  const std::vector<FlowView> sick(4, {400 * kMegabyte, 1 << 20, true});
  for (size_t i = 0; i < sick.size(); ++i) EXPECT_TRUE(takesChunk(sick, i, kChunk, 1 << 20));
  Transfer transfer(mega({400, 400}), kChunk, 8);
  transfer.setSick(0);
  transfer.setSick(1);
  EXPECT_LT(transfer.run(16 << 20), 1);
}

TEST(Schedule, ASickFlowTakesNothingWhereOneIsWell) {
  for (const double rate : {0.0, 1.0, 400 * kMegabyte}) {
    std::vector<FlowView> flows(4, {400 * kMegabyte, 0, true});
    flows[2] = {rate, 100 << 20, false};
    for (size_t i = 0; i < flows.size(); ++i) {
      EXPECT_EQ(takesChunk(flows, i, kChunk, 1 << 30), i == 2) << rate;
    }
    EXPECT_TRUE(takesChunk(flows, 2, kChunk, kChunk)) << "nobody else is well";
  }
}

TEST(Schedule, TriesAFlowOfUnknownRate) {
  std::vector<FlowView> flows(4, {400 * kMegabyte, 4 << 20, false});
  flows[1] = {};
  EXPECT_TRUE(takesChunk(flows, 1, kChunk, kChunk));
  EXPECT_FALSE(takesChunk(flows, 0, kChunk, kChunk)) << "the unknown may be faster";
  const std::vector<FlowView> unknown(4);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(takesChunk(unknown, i, kChunk, kChunk));
}

TEST(Schedule, OfOneFlowTakesAll) {
  for (const bool isSick : {true, false}) {
    for (const double rate : {0.0, 1.0, 400 * kMegabyte}) {
      const FlowView flow{rate, 1 << 30, isSick};
      EXPECT_TRUE(takesChunk({&flow, 1}, 0, kChunk, kChunk));
      EXPECT_EQ(latestFlow({&flow, 1}, 0, kChunk), kNobody);
    }
  }
}

TEST(Schedule, ASlowFlowTakesOnlyWhatItHasThereInTime) {
  std::vector<FlowView> flows(4, {400 * kMegabyte, 0, false});
  flows[3].bytesPerSecond = 5 * kMegabyte;  // 13 ms for a chunk; the others move 15.7 MB meanwhile
  EXPECT_TRUE(takesChunk(flows, 3, kChunk, 17'000'000));
  EXPECT_FALSE(takesChunk(flows, 3, kChunk, 15'000'000));
  flows[3].queued = kChunk;
  EXPECT_FALSE(takesChunk(flows, 3, kChunk, 17'000'000)) << "behind what it has";
  EXPECT_TRUE(takesChunk(flows, 3, kChunk, 34'000'000));
  flows[0].queued = 34'000'000;
  EXPECT_TRUE(takesChunk(flows, 3, kChunk, kChunk)) << "behind what the others have";
}

// A random moment of a link whose flows are all fast enough to have a chunk there in 2 ms.
std::vector<FlowView> randomFlows(std::mt19937& random) {
  std::vector<FlowView> flows(1 + random() % 16);
  for (FlowView& flow : flows) {
    flow.bytesPerSecond = random() % 8 == 0 ? 0 : (70 + random() % 3000) * kMegabyte;
    flow.queued = random() % 3 == 0 ? 0 : random() % (1 << 20);
    flow.isSick = random() % 8 == 0;
  }
  return flows;
}

TEST(Schedule, NeverLeavesAChunkToNobody) {
  std::mt19937 random(9);
  for (int i = 0; i < 20000; ++i) {
    std::vector<FlowView> flows = randomFlows(random);
    for (FlowView& flow : flows) flow.queued = 0;  // in the end, whatever was there
    const uint32_t chunk = static_cast<uint32_t>(random() % (kMaxChunkBytes + 1));
    bool taken = false;
    for (size_t self = 0; self < flows.size(); ++self) {
      taken = taken || takesChunk(flows, self, chunk, chunk);
    }
    ASSERT_TRUE(taken) << i;
  }
}

TEST(Schedule, NeverLeavesAChunkToNobodyOnSlowNetworks) {
  const std::vector<FlowView> flows(4, {25 * kMegabyte, 0, false});
  EXPECT_TRUE(takesChunk(flows, 0, 128 << 10, 128 << 10));
  for (const Speeds& speeds : {mega({25, 25, 25, 25}), mega({30, 30, 30, 5}), mega({5, 5})}) {
    for (const uint32_t chunkBytes : {32 << 10, 128 << 10}) {
      Transfer transfer(speeds, chunkBytes, 1);
      transfer.setKnown();
      EXPECT_GE(transfer.goodput(16 << 20), 0.8) << speeds[0] << " with " << chunkBytes;
    }
  }
}

TEST(Schedule, AFlowThatIsGoneHidesNoLateOne) {
  std::vector<FlowView> flows(3, {400 * kMegabyte, 0, false});
  flows[0] = {0, 0, true};
  flows[2] = {400 * kMegabyte, 1 << 20, true};
  EXPECT_EQ(latestFlow(flows, 1, kChunk), 2);
}

double secondsLeft(const FlowView& flow) {
  return flow.bytesPerSecond == 0 ? 0 : flow.queued / flow.bytesPerSecond;
}

TEST(Schedule, NamesAFlowThatIsReallyLate) {
  std::mt19937 random(10);
  int named = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::vector<FlowView> flows = randomFlows(random);
    const size_t self = random() % flows.size();
    const int late = latestFlow(flows, self, kChunk);
    if (late == kNobody) continue;
    ++named;
    ASSERT_LT(late, static_cast<int>(flows.size()));
    ASSERT_NE(late, static_cast<int>(self));
    ASSERT_FALSE(flows[self].isSick);
    ASSERT_TRUE(flows[late].isSick || secondsLeft(flows[late]) > 2 * secondsLeft(flows[self]));
  }
  EXPECT_GT(named, 1000);
}

TEST(Schedule, RepeatsTheLatestFirst) {
  std::vector<FlowView> flows(4, {400 * kMegabyte, 0, false});
  EXPECT_EQ(latestFlow(flows, 0, kChunk), kNobody);
  flows[1] = {5 * kMegabyte, kChunk, false};      // 13 ms
  flows[2] = {5 * kMegabyte, 2 * kChunk, false};  // 26 ms
  EXPECT_EQ(latestFlow(flows, 0, kChunk), 2);
  flows[3] = {400 * kMegabyte, kChunk, true};
  EXPECT_EQ(latestFlow(flows, 0, kChunk), 3) << "that one may never have it there";
  EXPECT_EQ(latestFlow(flows, 3, kChunk), kNobody) << "it is sick itself";
}

TEST(BytesAtOnce, AreAnEqualShareOfTheBacklog) {
  std::vector<FlowView> flows(4, {4000 * kMegabyte, 0, false});
  EXPECT_EQ(bytesAtOnce(flows, 2, 1 << 20), 256u << 10);
  EXPECT_EQ(bytesAtOnce(flows, 2, 64 << 20), kMostAtOnce);
  EXPECT_EQ(bytesAtOnce(flows, 2, 0), 0u);
  flows[0].isSick = flows[1].isSick = true;
  EXPECT_EQ(bytesAtOnce(flows, 2, 1 << 20), 512u << 10);
  EXPECT_EQ(bytesAtOnce(flows, 1, 1 << 20), 0u);
}

TEST(BytesAtOnce, AreThroughInAMoment) {
  std::vector<FlowView> flows(4, {50 * kMegabyte, 0, false});
  EXPECT_EQ(bytesAtOnce(flows, 0, 64 << 20), 50'000u);
  flows[0].queued = 20'000;
  EXPECT_EQ(bytesAtOnce(flows, 0, 64 << 20), 30'000u);
  flows[0].queued = 60'000;
  EXPECT_EQ(bytesAtOnce(flows, 0, 64 << 20), 0u);
}

// A flow that always ran empty may be fast; it may also be one that was never used.
TEST(BytesAtOnce, OfAnUnknownRateAreWhatWasSeen) {
  std::vector<FlowView> flows(4);
  EXPECT_EQ(bytesAtOnce(flows, 0, 64 << 20), 0u);
  flows[0].seenBytesPerSecond = 300 * kMegabyte;
  EXPECT_EQ(bytesAtOnce(flows, 0, 64 << 20), 300'000u);
}

TEST(BytesAtOnce, NeverAreMoreThanThereIs) {
  std::mt19937 random(11);
  for (int i = 0; i < 10000; ++i) {
    const std::vector<FlowView> flows = randomFlows(random);
    const uint64_t backlog = random() % (8 << 20);
    const size_t self = random() % flows.size();
    const uint64_t bytes = bytesAtOnce(flows, self, backlog);
    EXPECT_LE(bytes, std::min<uint64_t>(backlog, kMostAtOnce));
    EXPECT_TRUE(!flows[self].isSick || bytes == 0);
  }
}

}  // namespace
}  // namespace cinch::net
