#include "interpose/policy/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include <set>
#include <string>

namespace cinch {
namespace {

Params defaults() {
  const char* const nothing[] = {nullptr};
  return readParams(nothing).params;
}

const CommFacts kNetworked{.nRanks = 4, .agreed = true, .severalHosts = true};
const Signature kGradients{CallKind::allReduce, OpClass::sum, ncclFloat32, 1 << 20};

TEST(Policy, CompressesALargeRecurringFloatSum) {
  EXPECT_EQ(decide(defaults(), kNetworked, kGradients, {10}), Reason::none);
  Signature average = kGradients;
  average.op = OpClass::avg;
  EXPECT_EQ(decide(defaults(), kNetworked, average, {10}), Reason::none);
}

TEST(Policy, TheLastTwoWarmUpCallsGetTheRanksReady) {
  // With the default of three warm-up calls the second and the third prepare, and the fourth is the
  // first that can be compressed.
  const Params params = defaults();
  ASSERT_EQ(params.warmupCalls, 3);
  EXPECT_EQ(decide(params, kNetworked, kGradients, {0}), Reason::warmup);
  EXPECT_EQ(decide(params, kNetworked, kGradients, {1}), Reason::none);
}

TEST(Policy, WhatWouldNotSaveBytesPasses) {
  // Every rank sends at least one whole tile to every other.
  CommFacts many = kNetworked;
  Signature signature = kGradients;
  signature.count = 16384;
  many.nRanks = 8;
  EXPECT_EQ(decide(defaults(), many, signature, {10}), Reason::none);
  many.nRanks = 64;
  EXPECT_EQ(decide(defaults(), many, signature, {10}), Reason::small);
  signature.count = 64 * 1024 * 1024;
  EXPECT_EQ(decide(defaults(), many, signature, {10}), Reason::none);
}

TEST(Policy, EveryFactOfTheCommunicatorCanStopIt) {
  CommFacts alone = kNetworked, split = kNetworked, local = kNetworked;
  alone.nRanks = 1;
  split.agreed = false;
  local.severalHosts = false;
  EXPECT_EQ(decide(defaults(), alone, kGradients, {10}), Reason::oneRank);
  EXPECT_EQ(decide(defaults(), split, kGradients, {10}), Reason::notAgreed);
  EXPECT_EQ(decide(defaults(), local, kGradients, {10}), Reason::sameHost);
}

Params withKinds(bool reduceScatter, bool allGather) {
  Params params = defaults();
  params.reduceScatter = reduceScatter;
  params.allGather = allGather;
  return params;
}

Reason decideKind(const Params& params, CallKind kind) {
  const OpClass op = kind == CallKind::allGather ? OpClass::none : OpClass::sum;
  return decide(params, kNetworked, {kind, op, ncclFloat32, 1 << 20}, {10});
}

TEST(Policy, WeightsAreOnlyCompressedWhereAskedFor) {
  EXPECT_EQ(decideKind(defaults(), CallKind::allReduce), Reason::none);
  EXPECT_EQ(decideKind(defaults(), CallKind::reduceScatter), Reason::none);
  EXPECT_EQ(decideKind(defaults(), CallKind::allGather), Reason::kind);
}

TEST(Policy, KindsAreSwitchedOneByOne) {
  for (const bool scatter : {false, true})
    for (const bool gather : {false, true}) {
      const Params params = withKinds(scatter, gather);
      EXPECT_EQ(decideKind(params, CallKind::allReduce), Reason::none);
      EXPECT_EQ(decideKind(params, CallKind::reduceScatter), scatter ? Reason::none : Reason::kind);
      EXPECT_EQ(decideKind(params, CallKind::allGather), gather ? Reason::none : Reason::kind);
    }
}

TEST(Policy, TheOtherKindsAlwaysPass) {
  for (const CallKind kind : {CallKind::reduce, CallKind::broadcast, CallKind::allToAll,
                              CallKind::gather, CallKind::scatter})
    EXPECT_EQ(decideKind(withKinds(true, true), kind), Reason::kind);
}

TEST(Policy, SumsAveragesAndScaledSumsAreCompressed) {
  for (const CallKind kind : {CallKind::allReduce, CallKind::reduceScatter})
    for (const OpClass op :
         {OpClass::none, OpClass::sum, OpClass::avg, OpClass::preMulSum, OpClass::other}) {
      const bool isSum = op != OpClass::none && op != OpClass::other;
      EXPECT_EQ(decide(defaults(), kNetworked, {kind, op, ncclFloat32, 1 << 20}, {10}),
                isSum ? Reason::none : Reason::operation);
    }
}

TEST(Policy, ExactlyThreeTypesAreCompressed) {
  std::set<int> compressed;
  for (int type = 0; type < 16; ++type) {  // all that the enum's bits can hold
    Signature signature = kGradients;
    signature.dataType = static_cast<ncclDataType_t>(type);
    const Reason reason = decide(defaults(), kNetworked, signature, {10});
    if (reason == Reason::none)
      compressed.insert(type);
    else
      EXPECT_EQ(reason, Reason::dataType) << type;
  }
  EXPECT_EQ(compressed, (std::set<int>{ncclFloat16, ncclFloat32, ncclBfloat16}));
}

TEST(Policy, TheFloorIsInBytes) {
  const Params params = defaults();
  Signature signature = kGradients;
  signature.count = params.minBytes / 4;
  EXPECT_EQ(decide(params, kNetworked, signature, {10}), Reason::none);
  signature.count -= 1;
  EXPECT_EQ(decide(params, kNetworked, signature, {10}), Reason::small);
  signature.dataType = ncclBfloat16;
  signature.count = params.minBytes / 2;
  EXPECT_EQ(decide(params, kNetworked, signature, {10}), Reason::none);
  signature.count = 0;
  EXPECT_EQ(decide(params, kNetworked, signature, {10}), Reason::small);
}

TEST(Policy, TheFloorHoldsForAllShardsTogether) {
  const Params params = withKinds(true, true);
  for (const CallKind kind : {CallKind::reduceScatter, CallKind::allGather}) {
    Signature signature{kind, kind == CallKind::allGather ? OpClass::none : OpClass::sum,
                        ncclFloat32, params.minBytes / 4 / 4};
    EXPECT_EQ(decide(params, kNetworked, signature, {10}), Reason::none) << "4 shards reach it";
    signature.count -= 1;
    EXPECT_EQ(decide(params, kNetworked, signature, {10}), Reason::small);
    signature.count = 0;
    EXPECT_EQ(decide(params, kNetworked, signature, {10}), Reason::small);
  }
}

TEST(Policy, AFloorThatNoValueDividesIsNotRoundedDown) {
  Params params = defaults();
  params.minBytes = (1 << 20) + 1;
  Signature signature{CallKind::allReduce, OpClass::sum, ncclFloat32, 1 << 18};
  EXPECT_EQ(decide(params, kNetworked, signature, {10}), Reason::small) << "one byte short";
  signature.count += 1;
  EXPECT_EQ(decide(params, kNetworked, signature, {10}), Reason::none);
}

// Sizes are multiplied by the ranks and by bytes: no count may wrap around to a small one.
TEST(Policy, AbsurdCountsPass) {
  const Params params = withKinds(true, true);
  CommFacts many = kNetworked;
  for (const int nRanks : {2, 3, 64, 4096, 65536}) {
    many.nRanks = nRanks;
    for (const CallKind kind : {CallKind::allReduce, CallKind::reduceScatter, CallKind::allGather})
      for (const uint64_t count :
           {~uint64_t{0}, ~uint64_t{0} / 2 + 1, uint64_t{1} << 62, (uint64_t{1} << 62) + (1 << 20),
            uint64_t{1} << 50, ~uint64_t{0} / 4, ~uint64_t{0} / static_cast<uint64_t>(nRanks)}) {
        const OpClass op = kind == CallKind::allGather ? OpClass::none : OpClass::sum;
        EXPECT_EQ(decide(params, many, {kind, op, ncclFloat32, count}, {10}), Reason::small)
            << count << " on " << nRanks;
      }
  }
}

TEST(Policy, BucketsOfMoreThan32BitsAreCompressed) {
  const Params params = withKinds(true, true);
  for (const uint64_t count : {uint64_t{1} << 31, uint64_t{1} << 33, uint64_t{1} << 40})
    for (const CallKind kind :
         {CallKind::allReduce, CallKind::reduceScatter, CallKind::allGather}) {
      const OpClass op = kind == CallKind::allGather ? OpClass::none : OpClass::sum;
      EXPECT_EQ(decide(params, kNetworked, {kind, op, ncclBfloat16, count}, {10}), Reason::none);
    }
}

TEST(Policy, OnlyAllReduceGetsFewBitsAndFeedback) {
  Params params = withKinds(true, true);
  params.codec = "q2";
  EXPECT_STREQ(codingOf(params, CallKind::allReduce, {}, 0).codec.name, "q2");
  EXPECT_GT(codingOf(params, CallKind::allReduce, {}, 0).rule.gain, 0.0f);
  params.errorFeedback = "0.5";
  params.rounding = RoundingChoice::stochastic;
  for (const CallKind kind : {CallKind::reduceScatter, CallKind::allGather}) {
    EXPECT_STREQ(codingOf(params, kind, {}, 0).codec.name, "q8");
    EXPECT_EQ(codingOf(params, kind, {}, 0).rule.gain, 0.0f);
    EXPECT_EQ(codingOf(params, kind, {}, 0).rule.rounding, Rounding::nearest);
  }
  params.codec = "q4";
  EXPECT_STREQ(codingOf(params, CallKind::allReduce, {}, 0).codec.name, "q4");
  EXPECT_EQ(codingOf(params, CallKind::allReduce, {}, 0).rule.gain, 0.5f);
}

TEST(Policy, FeedbackFitsTheCodec) {
  Params params = defaults();
  const auto ruleFor = [&](const char* codec) {
    params.codec = codec;
    return codingOf(params, CallKind::allReduce, {}, 0).rule;
  };
  for (const char* coarse : {"q2", "c2", "h3", "q4", "q6", "mxfp4"}) {
    EXPECT_EQ(ruleFor(coarse).gain, 0.1f) << coarse;
    EXPECT_EQ(ruleFor(coarse).decay, 1.0f) << coarse;
  }
  for (const char* fine : {"q8", "fp8", "bf16"}) EXPECT_EQ(ruleFor(fine).gain, 0.0f) << fine;
  EXPECT_EQ(ruleFor("sign").gain, 0.8f) << "what piles up must be forgotten";
  EXPECT_EQ(ruleFor("sign").decay, 0.8f);
  params.residual = ResidualChoice::int8;
  EXPECT_EQ(ruleFor("q2").residualType, ResidualType::int8);
}

TEST(Policy, OnlyStatelessCodecsThatCanDitherRoundAtRandom) {
  Params params = defaults();
  params.rounding = RoundingChoice::stochastic;
  const auto ruleFor = [&](const char* codec, const char* feedback) {
    params.codec = codec;
    params.errorFeedback = feedback;
    return codingOf(params, CallKind::allReduce, {}, 3).rule;
  };
  EXPECT_EQ(ruleFor("q4", "off").rounding, Rounding::stochastic);
  EXPECT_EQ(ruleFor("q4", "off").seed, 3u) << "ranks differ, so that their errors average out";
  EXPECT_EQ(ruleFor("q4", "0.1").rounding, Rounding::nearest);
  EXPECT_EQ(ruleFor("h4", "off").rounding, Rounding::nearest);
}

TEST(Policy, TheCodecsThatUsersMayNameAreThoseOfTheRegistry) {
  const char* const none[] = {nullptr};
  const ParamSet set = readParams(none);
  const auto row = std::find_if(set.rows.begin(), set.rows.end(), [](const ParamRow& each) {
    return std::string_view(each.name) == "CINCH_CODEC";
  });
  std::set<std::string> named, known;
  std::istringstream range(row->range);
  for (std::string name; std::getline(range, name, '|');) named.insert(name);
  for (const codec::CodecInfo& codec : codec::kCodecs) known.insert(codec.name);
  EXPECT_EQ(named, known);
}

TEST(Policy, ObserveNeverCompresses) {
  Params params = defaults();
  params.mode = Mode::observe;
  EXPECT_EQ(decide(params, kNetworked, kGradients, {10}), Reason::observe);
}

// Whether a rank may compress is only settled among ranks with the same answer to all of it.
TEST(Policy, WhatTheRanksCompareHoldsEverySwitch) {
  std::set<std::string> texts = {
      agreedSettings(defaults()), agreedSettings(withKinds(false, false)),
      agreedSettings(withKinds(true, true)), agreedSettings(withKinds(false, true))};
  EXPECT_EQ(texts.size(), 4u);
  for (const std::string& text : texts) {
    EXPECT_NE(text.find("behaviour="), std::string::npos);
    EXPECT_NE(text.find("wire-format=" + std::to_string(wire::kVersion)), std::string::npos);
  }
}

TEST(Policy, EveryReasonHasItsOwnName) {
  std::set<std::string> names(kReasonNames, kReasonNames + kReasonCount);
  EXPECT_EQ(names.size(), static_cast<size_t>(kReasonCount));
  for (const char* name : kReasonNames) EXPECT_NE(std::string(name), "");
}

TEST(Policy, IntegerBroadcastsMarkANewLayout) {
  EXPECT_TRUE(marksNewLayout({CallKind::broadcast, OpClass::none, ncclInt32, 100}));
  EXPECT_TRUE(marksNewLayout({CallKind::broadcast, OpClass::none, ncclInt64, 1}));
  EXPECT_FALSE(marksNewLayout({CallKind::broadcast, OpClass::none, ncclFloat32, 100}));
  EXPECT_FALSE(marksNewLayout({CallKind::allReduce, OpClass::sum, ncclInt32, 100}));
}

}  // namespace
}  // namespace cinch
