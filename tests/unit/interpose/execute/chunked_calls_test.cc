// Calls in four chunks (CINCH_CHUNKS): what is enqueued, in which order, and what comes of it.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeReal;
using test::Work;
using test::operator+;
using Calls = std::vector<std::string>;

constexpr size_t kCount = 100003;
constexpr uint32_t kChunks = 4;

// Of both ranks.
const Calls kExchange = {"GroupStart", "Send 1", "Recv 1", "Send 0",
                         "Recv 0",     "encode", "encode", "GroupEnd"};
const Calls kReduce = {"reduce", "reduce"};
const Calls kGather = {"GroupStart", "Send 1", "Recv 1", "Send 0", "Recv 0", "GroupEnd"};
const Calls kDecode = {"decode", "decode"};

class ChunkedCallsTest : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    ranks_ = test::makeRanks(2);
  }
  void TearDown() override { test::awaitBackground(ranks_); }
  // As if nothing had happened yet.
  void startOver() {
    test::awaitBackground(ranks_);
    ranks_.clear();
    test::resetFakes();
    ranks_ = test::makeRanks(2);
  }
  CommState& comm(size_t rank = 0) { return *ranks_[rank]->comm; }

  test::TestRanks ranks_;
};

TEST_F(ChunkedCallsTest, MessagesComeInTheSameOrderOnAllRanks) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  EXPECT_EQ(happened(), kExchange + kExchange + kReduce + kGather +    //
                            kExchange + kReduce + kGather + kDecode +  //
                            kExchange + kReduce + kGather + kDecode +  //
                            kReduce + kGather + kDecode + kDecode);
}

TEST_F(ChunkedCallsTest, ResultsAreCloseAndTheSameOnAllRanksCallAfterCall) {
  for (const size_t count : {kCount, size_t{20000}}) {
    const Work work(ranks_, CallKind::allReduce, count);
    getReady(work);
    for (int call = 0; call < 40; ++call) {
      ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
      ASSERT_EQ(work.received(0), work.received(1)) << call;
      ASSERT_LT(work.errorOf(0), 1e-2) << call;
    }
    EXPECT_EQ(work.slot(1).state()->ordinal, 41u);
    EXPECT_EQ(comm().health(), ncclSuccess);
  }
  EXPECT_TRUE(fakeReal().isIdle());
}

// Cinch's own work of one call, by what must have been done before it.
class HappenedBefore {
 public:
  explicit HappenedBefore(const std::vector<test::Ordering>& orderings) {
    for (const test::Ordering& each : orderings) {
      std::set<std::string>& done = onStream_[each.stream];
      if (each.event == nullptr)
        addWork(each, done);
      else if (each.call == "eventRecord")
        byEvent_[each.event] = done;
      else
        done.insert(byEvent_[each.event].begin(), byEvent_[each.event].end());
    }
  }
  // Whether `first` of some chunk was done when `second` of some chunk began.
  bool is(const std::string& first, const std::string& second) const {
    return before_.at(second).contains(first);
  }
  const void* streamOf(const std::string& work) const { return streams_.at(work); }
  // By the time what comes next on the stream begins.
  std::set<std::string> on(const void* stream) const {
    const auto found = onStream_.find(stream);
    return found == onStream_.end() ? std::set<std::string>() : found->second;
  }

 private:
  void addWork(const test::Ordering& each, std::set<std::string>& done) {
    const std::string name = each.call + " " + std::to_string(n_[each.call]++);
    before_[name] = done;
    streams_[name] = each.stream;
    done.insert(name);
  }

  std::map<std::string, int> n_;
  std::map<const void*, std::set<std::string>> onStream_, byEvent_;
  std::map<std::string, std::set<std::string>> before_;
  std::map<std::string, const void*> streams_;
};

std::string of(const char* work, uint32_t chunk) {
  return std::string(work) + " " + std::to_string(chunk);
}

// The messages of a call: the exchange of a chunk goes before the gather of the one before.
std::string exchange(const char* message, uint32_t chunk) {
  return of(message, chunk == 0 ? 0 : 2 * chunk - 1);
}
std::string gather(const char* message, uint32_t chunk) {
  return of(message, chunk + 1 == kChunks ? 2 * chunk + 1 : 2 * chunk + 2);
}

TEST_F(ChunkedCallsTest, ACallAloneWorksBesideItsMessagesAndWaitsForWhatItNeeds) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  ASSERT_EQ(fakeDevice().streams.size(), 2u) << "one for each rank";
  fakeDevice().orderings.clear();
  ASSERT_EQ(work.part(0).submit(), ncclSuccess);  // the other rank does not come

  const HappenedBefore order(fakeDevice().orderings);
  const void* const caller = work.part(0).call.stream;
  for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
    EXPECT_EQ(order.streamOf(exchange("Send", chunk)), caller);
    EXPECT_EQ(order.streamOf(gather("Send", chunk)), caller);
    for (const char* codec : {"encode", "reduce", "decode"}) {
      EXPECT_TRUE(
          fakeDevice().streams.contains(const_cast<void*>(order.streamOf(of(codec, chunk)))));
      EXPECT_TRUE(order.on(caller).contains(of(codec, chunk))) << "the caller waits for all";
    }
    EXPECT_TRUE(order.is(of("encode", chunk), exchange("Send", chunk)));
    EXPECT_TRUE(order.is(exchange("Recv", chunk), of("reduce", chunk)));
    EXPECT_TRUE(order.is(of("reduce", chunk), gather("Send", chunk)));
    EXPECT_TRUE(order.is(gather("Recv", chunk), of("decode", chunk)));
    if (chunk + 1 == kChunks) continue;
    EXPECT_FALSE(order.is(exchange("Recv", chunk), of("encode", chunk + 1))) << "they overlap";
    EXPECT_FALSE(order.is(exchange("Recv", chunk + 1), of("reduce", chunk))) << "they overlap";
    EXPECT_FALSE(order.is(gather("Recv", chunk + 1), of("decode", chunk))) << "they overlap";
  }
}

// What is on the caller's stream before is done when the codec begins: the probe, and the last
// call.
TEST_F(ChunkedCallsTest, CallsFollowOneAnother) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  fakeDevice().orderings.clear();
  for (int call = 0; call < 2; ++call) {
    ASSERT_EQ(work.part(0).submit(), ncclSuccess);
    *comm().resources.fault.as<uint32_t>() = 0;  // the other rank does not come
  }
  const HappenedBefore order(fakeDevice().orderings);
  EXPECT_TRUE(order.is("probe 0", "encode 0"));
  EXPECT_TRUE(order.is("probe 1", of("encode", kChunks)));
  for (const std::string& last : {of("decode", kChunks - 1), gather("Recv", kChunks - 1)})
    EXPECT_TRUE(order.is(last, of("encode", kChunks))) << last;
}

// The program may free its buffers behind a call that failed.
TEST_F(ChunkedCallsTest, TheCallersStreamWaitsForTheCodecOfACallThatFails) {
  for (int i = 0;; ++i) {
    startOver();
    const Work work(ranks_, CallKind::allReduce, kCount);
    getReady(work);
    ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
    fakeDevice().orderings.clear();
    fakeReal().calls.clear();
    fakeReal().failAt = i;
    const ncclResult_t result = work.part(0).submit();
    fakeReal().failAt = -1;
    if (result == ncclSuccess) break;
    const HappenedBefore order(fakeDevice().orderings);
    const std::set<std::string> atCaller = order.on(work.part(0).call.stream);
    for (void* codec : fakeDevice().streams)
      for (const std::string& done : order.on(codec))
        EXPECT_TRUE(atCaller.contains(done)) << done << ", failure " << i;
  }
}

TEST_F(ChunkedCallsTest, CapturedCallsHaveOneChunk) {
  int nEncoded = 0;
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  fakeDevice().orderings.clear();
  fakeDevice().captures[nullptr] = 11;
  ASSERT_EQ(work.part(0).submit(), ncclSuccess);
  fakeDevice().captures.clear();
  const HappenedBefore order(fakeDevice().orderings);
  for (const char* codec : {"encode", "reduce", "decode"})
    EXPECT_EQ(order.streamOf(of(codec, 0)), work.part(0).call.stream);
  for (const test::Ordering& each : fakeDevice().orderings) nEncoded += each.call == "encode";
  EXPECT_EQ(nEncoded, 1);
}

TEST_F(ChunkedCallsTest, WhateverDeviceCallFailsTheProgramIsTold) {
  size_t nCalls = 0;
  {
    const Work work(ranks_, CallKind::allReduce, kCount);
    getReady(work);
    ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
    fakeDevice().calls.clear();
    ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
    nCalls = fakeDevice().calls.size();
  }
  for (size_t i = 0; i < nCalls; ++i) {
    startOver();
    const Work work(ranks_, CallKind::allReduce, kCount);
    getReady(work);
    ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
    fakeDevice().calls.clear();
    fakeDevice().failAt = static_cast<int>(i);
    const ncclResult_t result = test::runInGroup({&work});
    fakeDevice().failAt = -1;
    ASSERT_EQ(fakeReal().depth, 0);
    ASSERT_TRUE(result == ncclSuccess || result == ncclUnhandledCudaError) << i;
    if (result == ncclSuccess) continue;
    ASSERT_EQ(comm(0).health(), result) << i;
    ASSERT_EQ(work.part(0).submit(), result) << i;
  }
}

}  // namespace
}  // namespace cinch
