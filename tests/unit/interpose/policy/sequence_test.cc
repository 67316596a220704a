#include "interpose/policy/sequence.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/unit/interpose/policy/replay.h"

namespace cinch {
namespace {

// Calls by a letter each. Capital letters are large: A to L are reductions, P to Z are gathers.
// Small letters are small reductions. '#' is a broadcast of integers, '=' one of parameters.
Signature signatureOf(char letter, uint64_t count = 1 << 20) {
  if (letter == '#') return {CallKind::broadcast, OpClass::none, ncclInt32, 40};
  if (letter == '=') return {CallKind::broadcast, OpClass::none, ncclFloat32, count};
  const bool gathers = letter >= 'P' && letter <= 'Z';
  return {gathers ? CallKind::allGather : CallKind::allReduce,
          gathers ? OpClass::none : OpClass::sum, ncclFloat32,
          count + static_cast<uint8_t>(letter)};
}

class Stream {
 public:
  Place call(char letter) {
    const Place place = observe(letter);
    sequence.commit();
    return place;
  }
  Place observe(char letter) {
    const auto index = static_cast<uint32_t>(static_cast<uint8_t>(letter));
    return sequence.observe(signatureOf(letter), index, !(letter >= 'a' && letter <= 'z'));
  }
  // The places of the calls of one more step.
  std::vector<Place> step(const std::string& letters) {
    std::vector<Place> places;
    for (const char letter : letters) places.push_back(call(letter));
    return places;
  }
  void steps(int n, const std::string& letters) {
    for (int i = 0; i < n; ++i) step(letters);
  }
  // The call before had this place; what else a place says is left out.
  bool isKnown(char letter) { return call(letter).kind == Place::Kind::known; }

  Sequence sequence;
};

constexpr int kManySteps = 300;

TEST(Sequence, LearnsTheCallsOfAStep) {
  Stream stream;
  stream.steps(kManySteps, "ABCs");
  EXPECT_EQ(stream.sequence.period(), 4u);
  const auto places = stream.step("ABCs");
  for (const Place& place : places) EXPECT_EQ(place.kind, Place::Kind::known);
  EXPECT_EQ(std::set({places[0].slot, places[1].slot, places[2].slot}).size(), 3u);
  EXPECT_EQ(stream.step("ABCs"), places) << "and the next step is like the one before";
}

TEST(Sequence, KnowsNothingBeforeLongEnough) {
  Stream stream;
  for (uint32_t i = 0; i < Sequence::kLongEnough + 2; ++i)
    ASSERT_EQ(stream.call("AB"[i % 2]).kind, Place::Kind::unknown) << i;
  EXPECT_TRUE(stream.isKnown('A'));
}

TEST(Sequence, AModelThatWasBroadcastIsLearnedInThreeSteps) {
  Stream stream;
  const uint64_t parameters = 2 * (1 << 20) + 'A' + 'B';
  stream.sequence.observe(signatureOf('=', parameters), 200, true);
  stream.sequence.commit();
  stream.steps(3, "AB");
  const auto places = stream.step("AB");
  for (const Place& place : places) {
    EXPECT_EQ(place.kind, Place::Kind::known);
    EXPECT_TRUE(place.isWholeModel);
  }
}

TEST(Sequence, MicroBatchesShareTheirSlots) {
  Stream stream;
  stream.sequence.observe(signatureOf('=', 2 * (1 << 20) + 'A' + 'B'), 200, true);
  stream.sequence.commit();
  stream.steps(4, "ABABABs");
  const auto places = stream.step("ABABABs");
  EXPECT_EQ(places[0].kind, Place::Kind::known);
  for (const size_t i : {2, 4}) {
    EXPECT_EQ(places[i].slot, places[0].slot);
    EXPECT_EQ(places[i + 1].slot, places[1].slot);
  }
  EXPECT_NE(places[0].slot, places[1].slot);
}

// Nothing shows that they are not layers.
TEST(Sequence, EqualPartsOfAStepKeepSlotsOfTheirOwn) {
  Stream stream;
  stream.steps(kManySteps, "ABABs");
  const auto places = stream.step("ABABs");
  EXPECT_EQ(places[0].kind, Place::Kind::known);
  EXPECT_NE(places[0].slot, places[2].slot);
}

TEST(Sequence, CallsThatLookAlikeAreAmbiguous) {
  for (const std::string step : {"A", "As", "AAAAs", "AQ", "QQAA"}) {
    Stream stream;
    stream.steps(kManySteps, step);
    ASSERT_NE(stream.sequence.period(), 0u) << step;
    for (const Place& place : stream.step(step)) EXPECT_EQ(place.kind, Place::Kind::ambiguous);
  }
}

TEST(Sequence, GathersAloneAreNoStep) {
  Stream stream;
  stream.steps(5000, "PQ");
  EXPECT_EQ(stream.sequence.period(), 0u);
}

TEST(Sequence, IgnoresSmallCallsAndGathersOfAnEvaluation) {
  Stream stream;
  stream.steps(kManySteps, "ABCs");
  const auto places = stream.step("ABCs");
  stream.step("ttttZtZ");
  EXPECT_EQ(stream.step("ABCs"), places);
  EXPECT_TRUE(stream.isKnown('A'));
  stream.call('u');
  EXPECT_TRUE(stream.isKnown('B'));
}

TEST(Sequence, ALandmarkAtAnotherPlaceIsASurprise) {
  Stream stream;
  stream.steps(kManySteps, "AABs");
  EXPECT_TRUE(stream.isKnown('A'));
  stream.call('s');
  EXPECT_FALSE(stream.isKnown('A')) << "it may be the first of a step, or the second";
}

TEST(Sequence, IsSureAgainAfterAWholePeriod) {
  Stream stream;
  stream.steps(kManySteps, "AABC");
  const auto places = stream.step("AABC");
  stream.call('A');  // one layer less
  EXPECT_FALSE(stream.isKnown('B'));
  stream.call('C');
  for (const Place& place : stream.step("AA")) EXPECT_EQ(place.kind, Place::Kind::unknown);
  stream.step("BC");
  EXPECT_EQ(stream.step("AABC"), places) << "the same epoch and slots";
}

TEST(Sequence, AnotherStepIsAnotherEpoch) {
  Stream stream;
  stream.steps(kManySteps, "ABC");
  const uint32_t first = stream.call('A').epoch;
  stream.steps(3 * kManySteps, "CD");
  const Place place = stream.call('C');
  EXPECT_EQ(place.kind, Place::Kind::known);
  EXPECT_NE(place.epoch, first);
}

TEST(Sequence, ANewLayoutEndsTheEpoch) {
  for (const char mark : {'#', '='}) {
    Stream stream;
    stream.steps(kManySteps, "ABC");
    const uint32_t first = stream.step("ABC")[0].epoch;
    EXPECT_EQ(stream.call(mark).kind, Place::Kind::unknown);
    for (const Place& place : stream.step("ABCABC")) EXPECT_EQ(place.kind, Place::Kind::unknown);
    stream.steps(kManySteps, "ABC");
    EXPECT_NE(stream.step("ABC")[0].epoch, first) << mark;
  }
}

TEST(Sequence, IntegersInEveryStepAreNoNewLayout) {
  Stream stream;
  stream.steps(kManySteps, "AB#");
  EXPECT_TRUE(stream.isKnown('A'));
}

// What a group holds is known only when it has been launched.
TEST(Sequence, CallsThatAreTakenBackLeaveNoTrace) {
  std::mt19937 random(11);
  Stream stream, model;
  const std::string step = "AABCs";
  for (int i = 0; i < 20000; ++i) {
    std::string group;
    for (uint32_t n = random() % 4; n > 0; --n) group += "ABCst#"[random() % 6];
    for (const char letter : group) stream.observe(letter);
    stream.sequence.takeBack();
    const char letter = random() % 400 == 0 ? 'B' : step[static_cast<size_t>(i) % step.size()];
    ASSERT_EQ(stream.call(letter), model.call(letter)) << i;
  }
}

TEST(Sequence, AGroupIsPlacedLikeItsCalls) {
  std::mt19937 random(12);
  Stream grouped, model;
  std::vector<Place> places, expected;
  const std::string step = "AABCs";
  for (int i = 0; i < 20000; ++i) {
    const char letter = random() % 500 == 0 ? 't' : step[static_cast<size_t>(i) % step.size()];
    places.push_back(grouped.observe(letter));
    expected.push_back(model.call(letter));
    if (random() % 3 == 0) grouped.sequence.commit();
  }
  size_t nKnown = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    // A group may learn later where it stands, never something else.
    if (places[i].kind != Place::Kind::known) continue;
    EXPECT_EQ(places[i], expected[i]) << i;
    ++nKnown;
  }
  EXPECT_GT(nKnown, places.size() / 2);
}

// A job that now and then evaluates, skips calls, changes its model: as long as signatures tell
// buffers apart, a slot never holds two of them.
class RandomJob {
 public:
  explicit RandomJob(uint32_t seed) : random_(seed) { newModel(); }

  void step() {
    if (random_() % 1999 == 0) newModel();
    if (random_() % 10 == 0) evaluate();
    for (const uint32_t bucket : buckets_)
      if (random_() % 5000 != 0) call(bucket);
  }

  uint64_t nKnown = 0, nWrong = 0;

 private:
  void newModel() {
    buckets_.clear();
    for (uint32_t n = 1 + random_() % 12; n > 0; --n) buckets_.push_back(random_() % 40);
  }

  void evaluate() {
    const uint32_t nSymbols = random_() % 100 == 0 ? 20 : 10;  // seldom with large ones
    for (uint32_t n = random_() % 6; n > 0; --n) call(40 + random_() % nSymbols);
  }

  // Symbols from 30 to 49 are small, those from 40 on only an evaluation has.
  void call(uint32_t symbol) {
    const Signature signature{CallKind::allReduce, OpClass::sum, ncclFloat32, 1000 + symbol};
    const bool isLarge = symbol < 30 || symbol >= 50;
    const Place place = sequence_.observe(signature, symbol, isLarge);
    sequence_.commit();
    if (place.kind != Place::Kind::known) return;
    ++nKnown;
    const auto key = std::pair(place.epoch, place.slot);
    if (isLarge) nWrong += holds_.try_emplace(key, symbol).first->second != symbol;
  }

  std::mt19937 random_;
  std::vector<uint32_t> buckets_;
  Sequence sequence_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> holds_;
};

TEST(Sequence, WhereSignaturesTellBuffersApartNoSlotHoldsTwo) {
  uint64_t nKnown = 0;
  for (uint32_t seed = 0; seed < 10; ++seed) {
    RandomJob job(seed);
    for (int step = 0; step < 10000; ++step) job.step();
    EXPECT_EQ(job.nWrong, 0u) << "seed " << seed;
    nKnown += job.nKnown;
  }
  EXPECT_GT(nKnown, 100000u);
}

// --- What frameworks send. See tests/traces/README.md.

TEST(Traces, NoResidualIsEverOnAWrongSlot) {
  ASSERT_GE(test::traceNames().size(), 20u);
  for (const std::string& name : test::traceNames()) {
    const test::Trace trace = test::readTrace(name);
    for (int comm = 0; comm < static_cast<int>(trace.nRanks.size()); ++comm) {
      const test::Replay found = test::replay(trace, comm);
      EXPECT_EQ(found.wrongSlots, 0u) << name << " communicator " << comm;
      EXPECT_EQ(found.wrongCalls, 0u) << name << " communicator " << comm;
    }
  }
}

TEST(Traces, DdpAndMegatronAreLearnedWithinFiveSteps) {
  for (const char* name : {"ddp", "ddp_resnet50", "ddp_unused", "ddp_syncbn", "ddp_accumulation",
                           "ddp_eval10", "ddp_freeze", "megatron_distopt", "zero1", "zero2"}) {
    const test::Replay found = test::replay(test::readTrace(name), 0);
    EXPECT_GE(found.lockedStep, 0) << name;
    EXPECT_LE(found.lockedStep, 5) << name;
  }
}

TEST(Traces, EveryGradientOfALearnedJobIsCompressed) {
  for (const char* name : {"ddp", "ddp_resnet50", "ddp_unused", "ddp_syncbn", "fsdp1", "fsdp2",
                           "fsdp2_accumulation", "megatron_distopt", "zero1", "zero2", "zero3"}) {
    const test::Replay found = test::replay(test::readTrace(name), 0);
    EXPECT_GE(found.compressedSinceLocked * 100, found.gradientsSinceLocked * 99) << name;
    EXPECT_GT(found.gradientsSinceLocked, found.gradients / 2) << name;
  }
}

TEST(Traces, WhatCannotBeToldApartGetsNoFeedback) {
  for (const char* name : {"horovod", "tp_only", "fsdp_rs_only"})
    EXPECT_EQ(test::replay(test::readTrace(name), 0).withFeedback, 0u) << name;
}

}  // namespace
}  // namespace cinch
