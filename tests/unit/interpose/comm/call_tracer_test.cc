#include "interpose/comm/call_tracer.h"

#include <gtest/gtest.h>

#include "interpose/comm/trace_log.h"
#include "kernels/codec/registry.h"

#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

class CallTracerTest : public testing::Test {
 protected:
  void SetUp() override {
    test::resetFakes();
    slot_.stats = &comm_.addSlot("slot", "q4", 0.1f);
    ASSERT_TRUE(tracer_.allocate(fakeDeviceTable()).ok());
    nBefore_ = spans().size();
    droppedBefore_ = dropped();
  }
  static std::vector<TraceSpan> spans() { return processTrace().figures({}).spans; }
  static uint64_t dropped() { return processTrace().figures({}).dropped; }
  // What was traced since the test began.
  std::vector<TraceSpan> traced() const {
    const auto all = spans();
    return {all.begin() + static_cast<ptrdiff_t>(nBefore_), all.end()};
  }
  uint64_t nDropped() const { return dropped() - droppedBefore_; }

  static void pass(double milliseconds) { fakeDevice().milliseconds += milliseconds; }
  // A call that takes 4 ms, of which the second and third are an encode.
  TracedCall* call() {
    TracedCall* const call = tracer_.begin(slot_);
    if (call == nullptr) return nullptr;
    call->begin(TracedStage::call, 0, nullptr);
    pass(1);
    call->begin(TracedStage::encode, 0, nullptr);
    pass(2);
    call->end(TracedStage::encode, 0, nullptr);
    pass(1);
    call->end(TracedStage::call, 0, nullptr);
    tracer_.end(*call, slot_.plan);
    return call;
  }

  CommStats comm_{CommLabel{"communicator", 0, 2, "", {}}};
  Slot slot_{0,
             "slot",
             planCollective({CallKind::allReduce, OpClass::sum, ncclFloat32, 5000},
                            ElementType::fp32, codec::formatOf("q4"), 0, 2),
             {},
             nullptr};
  CallTracer tracer_{"comm", 3};
  size_t nBefore_ = 0;
  uint64_t droppedBefore_ = 0;
};

TEST_F(CallTracerTest, TracesTheFirstOfSoManyCalls) {
  for (int i = 0; i < 7; ++i) {
    TracedCall* const sampled = call();
    EXPECT_EQ(sampled != nullptr, i % 3 == 0) << i;
    if (sampled == nullptr) continue;
    EXPECT_TRUE(tracer_.collect(*sampled));
  }
  EXPECT_EQ(traced().size(), 3 * 3u);
}

TEST_F(CallTracerTest, StagesLieWithinTheirCall) {
  ASSERT_TRUE(tracer_.collect(*call()));
  const auto spans = traced();
  ASSERT_EQ(spans.size(), 3u);
  const TraceSpan &host = spans[0], &whole = spans[1], &encode = spans[2];
  EXPECT_EQ(host.name, "slot");
  EXPECT_NE(host.track, whole.track);
  EXPECT_EQ(whole.duration, 4000);
  EXPECT_EQ(encode.name, "encode");
  EXPECT_EQ(encode.track, whole.track);
  EXPECT_NEAR(encode.start - whole.start, 1000, 0.5);
  EXPECT_EQ(encode.duration, 2000);
  EXPECT_EQ(whole.arguments[1], (std::pair<std::string, std::string>{"codec", "q4"}));
}

TEST_F(CallTracerTest, WaitsForTheDevice) {
  TracedCall* const sampled = call();
  fakeDevice().eventsPending = true;
  EXPECT_FALSE(tracer_.collect(*sampled));
  fakeDevice().eventsPending = false;
  EXPECT_TRUE(tracer_.collect(*sampled));
}

TEST_F(CallTracerTest, SoManyAtATimeInTheirOrder) {
  std::vector<TracedCall*> sampled;
  for (int i = 0; i < 5; ++i) {
    sampled.push_back(call());
    for (int j = 0; j < 2; ++j) EXPECT_EQ(tracer_.begin(slot_), nullptr);
  }
  EXPECT_EQ(sampled.back(), nullptr) << "four are on their way";
  EXPECT_EQ(nDropped(), 1u);
  EXPECT_FALSE(tracer_.collect(*sampled[1])) << "not before the first";
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(tracer_.collect(*sampled[static_cast<size_t>(i)]));
  EXPECT_NE(call(), nullptr);
}

TEST_F(CallTracerTest, CallsThatOverlapHaveTracksOfTheirOwn) {
  TracedCall* const one = call();
  for (int j = 0; j < 2; ++j) EXPECT_EQ(call(), nullptr);
  TracedCall* const other = call();
  EXPECT_TRUE(tracer_.collect(*one));
  EXPECT_TRUE(tracer_.collect(*other));
  const auto spans = traced();
  ASSERT_EQ(spans.size(), 6u);
  EXPECT_NE(spans[0].track, spans[3].track);
  EXPECT_NE(spans[1].track, spans[4].track);
  EXPECT_EQ(spans[4].track, spans[5].track);
  const auto tracks = processTrace().figures({}).tracks;
  EXPECT_EQ(tracks.at(static_cast<size_t>(spans[1].track)), "comm: caller's stream");
  EXPECT_EQ(tracks.at(static_cast<size_t>(spans[4].track)), "comm: caller's stream 2");
}

TEST_F(CallTracerTest, AStageThatCannotBeTimedIsLeftOut) {
  TracedCall* const sampled = tracer_.begin(slot_);
  sampled->begin(TracedStage::call, 0, nullptr);
  fakeDevice().failAt = static_cast<int>(fakeDevice().calls.size());
  sampled->begin(TracedStage::reduce, 0, nullptr);
  fakeDevice().failAt = -1;
  sampled->end(TracedStage::reduce, 0, nullptr);
  sampled->begin(TracedStage::gather, 0, nullptr);  // has no end
  sampled->end(TracedStage::call, 0, nullptr);
  tracer_.end(*sampled, slot_.plan);
  EXPECT_TRUE(tracer_.collect(*sampled));
  EXPECT_EQ(traced().size(), 2u);
}

TEST_F(CallTracerTest, ACallThatCannotBeTimedIsDropped) {
  TracedCall* const sampled = tracer_.begin(slot_);
  tracer_.end(*sampled, slot_.plan);
  EXPECT_TRUE(tracer_.collect(*sampled));
  EXPECT_TRUE(traced().empty());
  EXPECT_EQ(nDropped(), 1u);
}

TEST_F(CallTracerTest, LongRunsStayExact) {
  std::vector<double> starts;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(tracer_.collect(*call()));
    EXPECT_EQ(tracer_.begin(slot_), nullptr);
    EXPECT_EQ(tracer_.begin(slot_), nullptr);
    starts.push_back(traced().at(static_cast<size_t>(i) * 3 + 1).start);
    pass(7000);  // seven seconds, beyond what float milliseconds from the start could tell
  }
  for (size_t i = 1; i < starts.size(); ++i)
    EXPECT_NEAR(starts[i] - starts[i - 1], 7004e3, 2.5) << i;
}

TEST_F(CallTracerTest, IsNotReadyWhereTheDeviceRefuses) {
  CallTracer tracer("other", 1);
  fakeDevice().failAt = static_cast<int>(fakeDevice().calls.size()) + 40;
  EXPECT_FALSE(tracer.allocate(fakeDeviceTable()).ok());
  EXPECT_FALSE(tracer);
}

}  // namespace
}  // namespace cinch
