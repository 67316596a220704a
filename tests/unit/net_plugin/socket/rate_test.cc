#include "net_plugin/socket/rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace cinch::net {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kMega = 1e6;

// A kernel with a queue, and the flow's estimate of it. Time moves when the test says so.
class Wire {
 public:
  explicit Wire(double bytesPerSecond) : bytesPerSecond_(bytesPerSecond) {}

  void setSpeed(double bytesPerSecond) { bytesPerSecond_ = bytesPerSecond; }
  void put(uint64_t bytes) { written_ += bytes; }
  uint64_t queued() const { return written_ - static_cast<uint64_t>(acknowledged_); }
  uint64_t written() const { return written_; }
  Clock::time_point now() const { return now_; }

  void pass(Clock::duration time) {
    now_ += time;
    const double moved = bytesPerSecond_ * std::chrono::duration<double>(time).count();
    acknowledged_ = std::min(acknowledged_ + moved, static_cast<double>(written_));
  }
  void sample() { rate.sample(now_, written_, queued()); }

  // A sender that keeps `depth` bytes in the queue.
  void keepBusy(Clock::duration time, Clock::duration step, uint64_t depth = 4 << 20) {
    for (const auto end = now_ + time; now_ < end;) {
      if (queued() < depth) put(depth - queued());
      sample();
      pass(step);
      sample();
    }
  }

  FlowRate rate;

 private:
  double bytesPerSecond_;
  Clock::time_point now_{std::chrono::hours(1)};
  uint64_t written_ = 0;
  double acknowledged_ = 0;
};

TEST(FlowRate, KnowsNothingAtFirst) {
  const FlowRate rate;
  EXPECT_EQ(rate.bytesPerSecond(), 0);
  EXPECT_EQ(rate.queued(), 0u);
  EXPECT_FALSE(rate.isStalled(Clock::now(), milliseconds(1)));
}

TEST(FlowRate, FindsASteadyRateHoweverOftenItLooks) {
  for (const double speed : {0.1 * kMega, 5 * kMega, 400 * kMega, 12000 * kMega}) {
    for (const int step : {20, 100, 700, 3900, 4000, 4100, 20000}) {
      Wire wire(speed);
      wire.keepBusy(milliseconds(200), microseconds(step), 1 << 30);
      EXPECT_NEAR(wire.rate.bytesPerSecond(), speed, 0.01 * speed) << step << " us";
      EXPECT_EQ(wire.rate.queued(), wire.queued());
    }
  }
}

TEST(FlowRate, StandsAcknowledgementsInBursts) {
  std::mt19937 random(3);
  Wire wire(0);
  for (int i = 0; i < 2000; ++i) {
    wire.put(1 << 20);
    const bool burst = random() % 4 == 0;
    wire.setSpeed(burst ? 1600 * kMega : 0);
    wire.pass(microseconds(100));
    wire.sample();
    // Of 40 steps in an interval about ten are bursts.
    if (i > 1000) {
      ASSERT_GT(wire.rate.bytesPerSecond(), 150 * kMega);
      ASSERT_LT(wire.rate.bytesPerSecond(), 800 * kMega);
    }
  }
}

TEST(FlowRate, FollowsAChangeWithinAFewIntervals) {
  for (const auto& [before, after] : {std::pair{400, 100}, {100, 400}, {400, 5}, {5, 400}}) {
    Wire wire(before * kMega);
    wire.keepBusy(milliseconds(100), microseconds(200));
    wire.setSpeed(after * kMega);
    wire.keepBusy(milliseconds(100), microseconds(200));
    EXPECT_NEAR(wire.rate.bytesPerSecond(), after * kMega, 0.05 * after * kMega + 0.2 * kMega);
  }
}

TEST(FlowRate, OfBytesThatNeverWaitedStaysUnknown) {
  Wire wire(400 * kMega);
  for (int i = 0; i < 1000; ++i) {
    wire.put(1000);
    wire.pass(milliseconds(1));
    wire.sample();
    ASSERT_EQ(wire.queued(), 0u);
    ASSERT_EQ(wire.rate.bytesPerSecond(), 0);
  }
}

TEST(FlowRate, IsNotLoweredByASenderThatHasLittleToSend) {
  Wire wire(400 * kMega);
  wire.keepBusy(milliseconds(100), microseconds(200));
  for (int i = 0; i < 5000; ++i) {
    if (i % 10 == 0) wire.put(10000);
    wire.pass(microseconds(100));
    wire.sample();
    ASSERT_GE(wire.rate.bytesPerSecond(), 395 * kMega);
  }
  EXPECT_LE(wire.rate.bytesPerSecond(), 405 * kMega);
}

TEST(FlowRate, IsNotLoweredByAnIdleTime) {
  for (const bool sampledWhileIdle : {true, false}) {
    Wire wire(400 * kMega);
    wire.keepBusy(milliseconds(100), microseconds(200));
    wire.pass(seconds(1));  // through with all
    wire.sample();
    for (int i = 0; sampledWhileIdle && i < 1000; ++i) {
      wire.pass(milliseconds(10));
      wire.sample();
    }
    for (int i = 0; i < 500; ++i) {
      wire.keepBusy(microseconds(200), microseconds(100));
      ASSERT_NEAR(wire.rate.bytesPerSecond(), 400 * kMega, 8 * kMega) << i;
    }
  }
}

TEST(FlowRate, OfAFasterWireThatRunsEmptyRises) {
  Wire wire(100 * kMega);
  wire.keepBusy(milliseconds(100), microseconds(200));
  wire.pass(seconds(1));  // through with all
  wire.setSpeed(400 * kMega);
  for (int i = 0; i < 1000; ++i) {
    wire.put(25000);  // 250 MB/s: it runs empty each time
    wire.pass(microseconds(100));
    wire.sample();
    ASSERT_EQ(wire.queued(), 0u);
  }
  EXPECT_NEAR(wire.rate.bytesPerSecond(), 250 * kMega, 20 * kMega);
}

TEST(FlowRate, IsStalledAfterPatienceWithoutProgress) {
  Wire wire(400 * kMega);
  wire.keepBusy(milliseconds(20), microseconds(200));
  wire.setSpeed(0);
  for (int i = 0; i <= 300; ++i) {
    EXPECT_FALSE(wire.rate.isStalled(wire.now(), milliseconds(301))) << i;
    wire.pass(milliseconds(1));
    wire.sample();
  }
  wire.pass(milliseconds(2));
  EXPECT_TRUE(wire.rate.isStalled(wire.now(), milliseconds(301)));
  wire.setSpeed(400 * kMega);
  wire.pass(microseconds(100));
  wire.sample();
  EXPECT_FALSE(wire.rate.isStalled(wire.now(), milliseconds(301))) << "it moves again";
}

TEST(FlowRate, WithNothingToSendIsNeverStalled) {
  Wire wire(400 * kMega);
  wire.sample();
  wire.pass(seconds(100));
  EXPECT_FALSE(wire.rate.isStalled(wire.now(), milliseconds(300)));
  wire.sample();
  wire.put(1 << 20);
  wire.sample();
  EXPECT_FALSE(wire.rate.isStalled(wire.now(), milliseconds(300))) << "it began only now";
  wire.pass(seconds(1));
  wire.sample();
  EXPECT_EQ(wire.queued(), 0u);
  wire.pass(seconds(100));
  EXPECT_FALSE(wire.rate.isStalled(wire.now(), milliseconds(300)));
}

TEST(FlowRate, ThatStallsKeepsAUsableEstimate) {
  Wire wire(400 * kMega);
  wire.keepBusy(milliseconds(100), microseconds(200));
  wire.setSpeed(0);
  for (int i = 0; i < 10000; ++i) {
    wire.pass(milliseconds(10));
    wire.sample();
    ASSERT_GE(wire.rate.bytesPerSecond(), 0);
    ASSERT_LE(wire.rate.bytesPerSecond(), 401 * kMega);
  }
  wire.setSpeed(400 * kMega);
  wire.keepBusy(milliseconds(100), microseconds(200));
  EXPECT_NEAR(wire.rate.bytesPerSecond(), 400 * kMega, 20 * kMega);
}

// The handshake's bytes are the kernel's, but no bytes of the flow.
TEST(FlowRate, StandsAQueueLongerThanWhatWasWritten) {
  FlowRate rate;
  Clock::time_point now{std::chrono::hours(1)};
  rate.sample(now, 0, 80);
  rate.sample(now += milliseconds(5), 100, 180);
  EXPECT_EQ(rate.bytesPerSecond(), 0);
  EXPECT_TRUE(rate.isStalled(now, milliseconds(4)));
  rate.sample(now += milliseconds(5), 100, 0);
  EXPECT_LE(rate.bytesPerSecond(), 100 / 0.004);
}

TEST(FlowRate, StaysWithinReasonWhateverASenderDoes) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    Wire wire(400 * kMega);
    for (int i = 0; i < 3000; ++i) {
      if (random() % 3 == 0) wire.put(random() % (1 << 20));
      if (random() % 200 == 0) wire.setSpeed((random() % 401) * kMega);
      if (random() % 300 == 0) wire.pass(milliseconds(random() % 3000));
      wire.pass(microseconds(random() % 1000));
      if (random() % 2 == 0) wire.sample();
      ASSERT_GE(wire.rate.bytesPerSecond(), 0);
      ASSERT_LE(wire.rate.bytesPerSecond(), 401 * kMega);
      ASSERT_LE(wire.rate.queued(), wire.written());
    }
  }
}

// `written` was looked at before a write of another thread, `queued` behind it.
TEST(FlowRate, TakesNoBackwardAcknowledgementForAFastOne) {
  FlowRate rate;
  Clock::time_point now{std::chrono::hours(1)};
  uint64_t acknowledged = 0;
  for (int i = 0; i < 100; ++i) {
    now += std::chrono::milliseconds(1);
    acknowledged += 400000;
    rate.sample(now, acknowledged + (4 << 20), 4 << 20);
  }
  EXPECT_NEAR(rate.bytesPerSecond(), 400e6, 4e6);
  const uint64_t written = acknowledged + (4 << 20);
  for (const uint64_t queued : {0, 0, 128 << 10}) {
    rate.sample(now += std::chrono::milliseconds(20), written, queued);
  }
  EXPECT_LE(rate.bytesPerSecond(), 500e6);
}

TEST(FlowRate, AStallBeginsWhenTheFirstByteWaits) {
  FlowRate rate;
  Clock::time_point now{std::chrono::hours(1)};
  rate.sample(now, 1000, 0);
  now += std::chrono::seconds(10);
  rate.sample(now, 101000, 100000);
  EXPECT_FALSE(rate.isStalled(now, std::chrono::milliseconds(300)));
}

TEST(FlowRate, TellsWhatItSawOfAWireThatIsNeverFull) {
  Wire wire(1000 * kMega);
  for (int i = 0; i < 1000; ++i) {  // 10 MB/s
    wire.put(10'000);
    wire.sample();
    wire.pass(milliseconds(1));
    wire.sample();
  }
  EXPECT_EQ(wire.rate.bytesPerSecond(), 0);
  EXPECT_NEAR(wire.rate.seenBytesPerSecond(), 10 * kMega, 3 * kMega);
}

}  // namespace
}  // namespace cinch::net
