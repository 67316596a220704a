#include "interpose/comm/ddp_ear.h"

#include <gtest/gtest.h>

#include <random>

#include "interpose/comm/memory_reserve.h"
#include "tests/unit/interpose/support/ddp_program.h"
#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::ddpMessages;
using test::fakeDevice;
using test::fakeDeviceTable;
using Buckets = std::vector<BucketLayout>;
using Program = test::DdpProgram<DdpEar>;

constexpr int kRanks = 2;

class DdpEarTest : public testing::Test {
 protected:
  void SetUp() override { test::resetFakes(); }
  void TearDown() override {
    ear_.reset();
    fakeDevice().eventsPending = false;
    fakeDevice().pendingEvents.clear();
    EXPECT_TRUE(test::holdsNothing());
  }

  Buckets heard(const test::DdpMessages& model) {
    return ear_->heard().listener.layoutsOf(model.counts);
  }
  static Buckets nothing(const test::DdpMessages& model) { return Buckets(model.counts.size()); }
  static size_t nCopies() { return fakeDevice().count("copy"); }
  // Of the messages so far, in order.
  static std::vector<const void*> events() {
    std::vector<const void*> all;
    for (const test::Ordering& ordering : fakeDevice().orderings) all.push_back(ordering.event);
    return all;
  }

  std::unique_ptr<DdpEar> ear_ = std::make_unique<DdpEar>(fakeDeviceTable(), 0, kRanks);
  Program program_{*ear_};
  const test::DdpMessages model_ = ddpMessages("gpt2");
};

TEST_F(DdpEarTest, EveryModelIsHeardExactly) {
  for (const char* name : test::kModels) {
    const test::DdpMessages model = ddpMessages(name);
    program_.sendAll(model);
    EXPECT_EQ(heard(model), model.buckets()) << name;
  }
}

TEST_F(DdpEarTest, AListIsGatheredByOneBroadcastFromEachRank) {
  program_.gathersByBroadcasts = true;
  for (const char* name : test::kModels) {
    const test::DdpMessages model = ddpMessages(name);
    program_.sendAll(model);
    EXPECT_EQ(heard(model), model.buckets()) << name;
  }
}

TEST_F(DdpEarTest, OneBroadcastOfANumberIsNoList) {
  const uint64_t gradients = 0;
  const size_t before = nCopies();
  for (int i = 0; i < 10; ++i) {
    program_.broadcast(std::vector<int64_t>{model_.nParameters});
    ear_->hear({CallKind::allReduce, OpClass::sum, ncclFloat32, 1}, &gradients, nullptr);
  }
  program_.broadcast(model_.sizesAndStrides);
  program_.rebuild(model_);
  EXPECT_EQ(heard(model_), nothing(model_));
  EXPECT_EQ(nCopies(), before);
}

TEST_F(DdpEarTest, WhatWasRecordedIsHeardAsItWasSent) {
  for (const std::string& name : test::recordedModels()) {
    const test::DdpMessages model = ddpMessages(name);
    DdpListener listener;
    listener.allGathered(std::vector<int64_t>(kRanks, model.nParameters));
    listener.broadcast(model.sizesAndStrides);
    listener.broadcast(model.bucketOrder);
    listener.broadcast(model.bucketSizes);
    const Buckets expected = listener.layoutsOf(model.counts);
    EXPECT_NE(expected, nothing(model)) << name;
    program_.sendAll(model);
    EXPECT_EQ(heard(model), expected) << name;
  }
}

TEST_F(DdpEarTest, NobodyWaitsAndNothingIsOrdered) {
  program_.sendAll(model_);
  EXPECT_EQ(heard(model_), model_.buckets());
  for (const char* wait : {"streamSynchronize", "streamWaitEvent"})
    EXPECT_EQ(fakeDevice().count(wait), 0u) << wait;
  EXPECT_EQ(nCopies(), 4u);
}

TEST_F(DdpEarTest, OnlyWhatHasArrivedIsRead) {
  fakeDevice().eventsPending = true;
  program_.sendAll(model_);
  EXPECT_EQ(heard(model_), nothing(model_));
  fakeDevice().eventsPending = false;
  EXPECT_EQ(heard(model_), model_.buckets());
}

TEST_F(DdpEarTest, MessagesAreReadInTheOrderOfTheirCalls) {
  program_.sendAll(model_);
  EXPECT_EQ(heard(model_), model_.buckets());
  for (size_t late = 0; late < 4; ++late) {
    DdpEar ear(fakeDeviceTable(), 0, kRanks);
    Program program(ear);
    const auto layers = [&] { return ear.heard().listener.layoutsOf(model_.counts); };
    fakeDevice().eventsPending = true;
    fakeDevice().orderings.clear();
    program.sendAll(model_);
    fakeDevice().pendingEvents = {events().at(late)};
    fakeDevice().eventsPending = false;
    EXPECT_EQ(layers(), nothing(model_)) << late;
    fakeDevice().pendingEvents.clear();
    EXPECT_EQ(layers(), model_.buckets()) << late;
  }
}

TEST_F(DdpEarTest, ACaptureMovesNothing) {
  program_.stream = this;
  fakeDevice().captures[this] = 7;
  program_.sendAll(model_);
  EXPECT_EQ(nCopies(), 0u);
  EXPECT_EQ(fakeDevice().count("allocate"), 0u);
  fakeDevice().captures.clear();
  program_.rebuild(model_);
  EXPECT_EQ(heard(model_), nothing(model_));
  program_.sendAll(model_);
  EXPECT_EQ(heard(model_), model_.buckets());
}

TEST_F(DdpEarTest, WhatDdpDoesNotSendCostsNothing) {
  const std::vector<uint64_t> memory(1 << 10);
  const auto send = [&](CallKind kind, ncclDataType_t type, uint64_t count) {
    ear_->hear({kind, OpClass::none, type, count}, memory.data(), nullptr);
  };
  for (const ncclDataType_t type : {ncclInt8, ncclInt32, ncclInt64, ncclFloat32}) {
    send(CallKind::broadcast, type, 100);
    send(CallKind::allReduce, type, 1);
    send(CallKind::allGather, type, 2);
  }
  send(CallKind::allGather, ncclInt32, 1);
  EXPECT_TRUE(fakeDevice().calls.empty() || nCopies() == 0);
  EXPECT_EQ(fakeDevice().count("eventCreate"), 0u);
}

TEST_F(DdpEarTest, NorDoTheBuffersThatItSendsInEveryStep) {
  program_.sendAll(model_);
  const size_t before = nCopies();
  for (int i = 0; i < 100; ++i) program_.broadcast(std::vector<int64_t>(53, i));
  EXPECT_EQ(nCopies(), before);
  EXPECT_EQ(heard(model_), model_.buckets());
}

TEST_F(DdpEarTest, TooLongAMessageIsNone) {
  program_.wrap(model_);
  const size_t before = nCopies();
  ear_->hear({CallKind::broadcast, OpClass::none, ncclInt32, DdpListener::kMaxNumbers + 1}, this,
             nullptr);
  ear_->hear({CallKind::broadcast, OpClass::none, ncclInt32, uint64_t{1} << 62}, this, nullptr);
  EXPECT_EQ(nCopies(), before);
  program_.rebuild(model_);
  EXPECT_EQ(heard(model_), model_.buckets());
}

TEST_F(DdpEarTest, AFloodIsForgottenAndMemoryBounded) {
  program_.sendAll(model_);
  EXPECT_EQ(heard(model_), model_.buckets());
  fakeDevice().eventsPending = true;
  for (size_t i = 0; i < 20 * DdpEar::kMaxMessages; ++i) program_.gather(1);
  EXPECT_LE(fakeDevice().memory.size(), 21 * DdpEar::kMaxMessages);
  fakeDevice().eventsPending = false;
  EXPECT_EQ(heard(model_), nothing(model_)) << "an order may have been among them";
  program_.sendAll(model_);
  EXPECT_EQ(heard(model_), model_.buckets());
}

TEST_F(DdpEarTest, SoAreTooManyBytes) {
  fakeDevice().eventsPending = true;
  const std::vector<int64_t> shapes(DdpListener::kMaxNumbers, 1);
  const size_t nFitting = DdpEar::kMaxBytes / (shapes.size() * sizeof(int64_t));
  for (size_t i = 0; i < nFitting; ++i) {
    program_.gather(1);
    program_.broadcast(shapes);
  }
  fakeDevice().eventsPending = false;
  program_.rebuild(model_);
  EXPECT_EQ(heard(model_), nothing(model_));
  program_.sendAll(model_);
  EXPECT_EQ(heard(model_), model_.buckets());
}

TEST_F(DdpEarTest, AMessageThatWasMissedIsAGap) {
  program_.sendAll(model_);
  ear_->miss({CallKind::broadcast, OpClass::none, ncclInt64, 53});
  EXPECT_EQ(heard(model_), model_.buckets()) << "this one was not awaited";
  ear_->miss({CallKind::broadcast, OpClass::none, ncclInt32, 100});
  EXPECT_EQ(heard(model_), nothing(model_));
  program_.rebuild(model_);
  EXPECT_EQ(heard(model_), nothing(model_));
  program_.sendAll(model_);
  EXPECT_EQ(heard(model_), model_.buckets());
}

TEST_F(DdpEarTest, AnErrorOfTheDeviceEndsItQuietly) {
  program_.sendAll(model_);
  EXPECT_EQ(heard(model_), model_.buckets());
  const auto nCalls = static_cast<int>(fakeDevice().calls.size());
  int nDeaf = 0;
  for (int failAt = 0; failAt < nCalls; ++failAt) {
    test::resetFakes();
    DdpEar ear(fakeDeviceTable(), 0, kRanks);
    Program program(ear);
    fakeDevice().failAt = failAt;
    program.sendAll(model_);
    const size_t before = nCopies();
    program.sendAll(model_);
    const bool isDeaf = nCopies() == before;
    nDeaf += isDeaf;
    const Buckets layers = ear.heard().listener.layoutsOf(model_.counts);
    EXPECT_EQ(layers, isDeaf ? nothing(model_) : model_.buckets()) << failAt;
  }
  EXPECT_GT(nDeaf, 0);
  EXPECT_LT(nDeaf, nCalls) << "a question without an answer is none";
}

TEST_F(DdpEarTest, WhatIsUnderWayOutlivesIt) {
  fakeDevice().eventsPending = true;
  program_.sendAll(model_);
  const size_t nBuffers = fakeDevice().memory.size();
  EXPECT_GT(nBuffers, 0u);
  ear_.reset();
  MemoryReserve::instance().release();
  EXPECT_EQ(fakeDevice().memory.size(), nBuffers) << "it is still being written";
  fakeDevice().eventsPending = false;
  MemoryReserve::instance().release();
  EXPECT_TRUE(fakeDevice().memory.empty());
}

TEST_F(DdpEarTest, MemoryIsUsedAgain) {
  for (int i = 0; i < 100; ++i) program_.gather(i);
  EXPECT_LE(fakeDevice().count("allocate"), 2u);
}

TEST_F(DdpEarTest, OtherDevicesAreLeftAsTheyWere) {
  DdpEar elsewhere(fakeDeviceTable(), 3, kRanks);
  fakeDevice().devicesUsed.clear();
  Program program(elsewhere);
  program.sendAll(model_);
  EXPECT_EQ(fakeDevice().device, 0);
  EXPECT_EQ(elsewhere.heard().listener.layoutsOf(model_.counts), model_.buckets());
}

// Whatever comes: the truth about the model, or nothing.
TEST_F(DdpEarTest, GarbageIsNeverBelieved) {
  const test::DdpMessages model = ddpMessages("resnet50");
  std::mt19937 random(5);
  int nKnown = 0;
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < 6; ++i) {
      const size_t n = random() % 400;
      fakeDevice().eventsPending = random() % 2 == 0;
      if (random() % 4 == 0) program_.gather(static_cast<int64_t>(random() % 300));
      if (random() % 3 == 0) program_.broadcast(std::vector<int64_t>(n, random() % 9));
      if (random() % 3 == 0) program_.broadcast(std::vector<int32_t>(n, 1));
      if (random() % 12 == 0) program_.wrap(model);
      if (random() % 6 == 0) program_.rebuild(model);
    }
    const Buckets layers = heard(model);
    if (layers == nothing(model)) continue;
    EXPECT_EQ(layers, model.buckets()) << round;
    ++nKnown;
  }
  EXPECT_GT(nKnown, 0);
}

}  // namespace
}  // namespace cinch
