#include "interpose/policy/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

namespace cinch {
namespace {

Params defaults() {
  const char* const nothing[] = {nullptr};
  return readParams(nothing).params;
}

const CommFacts kNetworked{.nRanks = 4, .agreed = true, .severalHosts = true};
const Signature kGradients{CallKind::allReduce, OpClass::sum, ncclFloat32, 1 << 20};
const Place kUnknownPlace{};
const Place kAmbiguousPlace{Place::Kind::ambiguous, 1, 0};
const Place kKnownPlace{Place::Kind::known, 1, 0};
// Of a call that its place in the step makes one of gradients.
const History kOften{10, kKnownPlace};

TEST(Policy, CompressesALargeRecurringFloatSum) {
  EXPECT_EQ(decide(defaults(), kNetworked, kGradients, kOften), Reason::none);
  Signature average = kGradients;
  average.op = OpClass::avg;
  EXPECT_EQ(decide(defaults(), kNetworked, average, kOften), Reason::none);
}

TEST(Policy, HostsSumUpWhatIsTheSameOnAllTheirRanks) {
  Params params = defaults();
  const auto sums = [&](CallKind kind, OpClass op) {
    return sumsInHosts(params, {kind, op, ncclFloat32, 1 << 20});
  };
  EXPECT_TRUE(sums(CallKind::allReduce, OpClass::sum));
  EXPECT_TRUE(sums(CallKind::allReduce, OpClass::avg));
  EXPECT_FALSE(sums(CallKind::allReduce, OpClass::preMulSum)) << "each rank has its scalar";
  EXPECT_FALSE(sums(CallKind::reduceScatter, OpClass::sum));
  EXPECT_FALSE(sums(CallKind::allGather, OpClass::none));
  params.hierarchy = HierarchyChoice::off;
  EXPECT_FALSE(sums(CallKind::allReduce, OpClass::sum));
}

TEST(Policy, TheLastTwoWarmUpCallsGetTheRanksReady) {
  // With the default of three warm-up calls the second and the third prepare, and the fourth is the
  // first that can be compressed.
  const Params params = defaults();
  ASSERT_EQ(params.warmupCalls, 3);
  EXPECT_EQ(decide(params, kNetworked, kGradients, {0, kKnownPlace}), Reason::warmup);
  EXPECT_EQ(decide(params, kNetworked, kGradients, {1, kKnownPlace}), Reason::none);
}

TEST(Policy, WhatWouldNotSaveBytesPasses) {
  // Every rank sends at least one whole tile to every other.
  Params params = defaults();
  params.codec = "q8";
  CommFacts many = kNetworked;
  Signature signature = kGradients;
  signature.count = 16384;
  many.nRanks = 8;
  EXPECT_EQ(decide(params, many, signature, kOften), Reason::none);
  many.nRanks = 64;
  EXPECT_EQ(decide(params, many, signature, kOften), Reason::small);
  signature.count = 64 * 1024 * 1024;
  EXPECT_EQ(decide(params, many, signature, kOften), Reason::none);
}

TEST(Policy, EveryFactOfTheCommunicatorCanStopIt) {
  CommFacts alone = kNetworked, split = kNetworked, local = kNetworked;
  alone.nRanks = 1;
  split.agreed = false;
  local.severalHosts = false;
  EXPECT_EQ(decide(defaults(), alone, kGradients, kOften), Reason::oneRank);
  EXPECT_EQ(decide(defaults(), split, kGradients, kOften), Reason::notAgreed);
  EXPECT_EQ(decide(defaults(), local, kGradients, kOften), Reason::sameHost);
}

TEST(Policy, OnOneHostOnlyPcieIsSlowEnough) {
  CommFacts unknown = kNetworked;
  unknown.severalHosts = false;
  CommFacts pcie = unknown;
  pcie.isOnPcie = true;
  const auto reasonWith = [](SameHostChoice choice, const CommFacts& comm) {
    Params params = defaults();
    params.sameHost = choice;
    return decide(params, comm, kGradients, kOften);
  };
  EXPECT_EQ(reasonWith(SameHostChoice::automatic, pcie), Reason::none);
  EXPECT_EQ(reasonWith(SameHostChoice::automatic, unknown), Reason::sameHost);
  EXPECT_EQ(reasonWith(SameHostChoice::pass, pcie), Reason::sameHost);
  EXPECT_EQ(reasonWith(SameHostChoice::pass, kNetworked), Reason::none);
  EXPECT_EQ(reasonWith(SameHostChoice::compress, unknown), Reason::none);
}

Params withKinds(bool reduceScatter, bool allGather) {
  Params params = defaults();
  params.reduceScatter = reduceScatter;
  params.allGather = allGather;
  return params;
}

Reason decideKind(const Params& params, CallKind kind) {
  const OpClass op = kind == CallKind::allGather ? OpClass::none : OpClass::sum;
  return decide(params, kNetworked, {kind, op, ncclFloat32, 1 << 20}, kOften);
}

TEST(Policy, WeightsAreOnlyCompressedWhereAskedFor) {
  EXPECT_EQ(decideKind(defaults(), CallKind::allReduce), Reason::none);
  EXPECT_EQ(decideKind(defaults(), CallKind::reduceScatter), Reason::none);
  EXPECT_EQ(decideKind(defaults(), CallKind::allGather), Reason::gathered);
}

// Of these a user is told what the setting would save.
TEST(Policy, OnlyGathersThatCouldBeCodedCountAsGathered) {
  const auto reasonOf = [](ncclDataType_t type, uint64_t count) {
    return decide(defaults(), kNetworked, {CallKind::allGather, OpClass::none, type, count},
                  kOften);
  };
  for (const ncclDataType_t type : {ncclFloat32, ncclBfloat16, ncclFloat16})
    EXPECT_EQ(reasonOf(type, 1 << 20), Reason::gathered);
  EXPECT_EQ(reasonOf(ncclInt64, 1 << 20), Reason::dataType);
  EXPECT_EQ(reasonOf(ncclFloat32, 100), Reason::small);
}

TEST(Policy, KindsAreSwitchedOneByOne) {
  for (const bool scatter : {false, true})
    for (const bool gather : {false, true}) {
      const Params params = withKinds(scatter, gather);
      EXPECT_EQ(decideKind(params, CallKind::allReduce), Reason::none);
      EXPECT_EQ(decideKind(params, CallKind::reduceScatter), scatter ? Reason::none : Reason::kind);
      EXPECT_EQ(decideKind(params, CallKind::allGather), gather ? Reason::none : Reason::gathered);
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
      EXPECT_EQ(decide(defaults(), kNetworked, {kind, op, ncclFloat32, 1 << 20}, kOften),
                isSum ? Reason::none : Reason::operation);
    }
}

TEST(Policy, ExactlyThreeTypesAreCompressed) {
  std::set<int> compressed;
  for (int type = 0; type < 16; ++type) {  // all that the enum's bits can hold
    Signature signature = kGradients;
    signature.dataType = static_cast<ncclDataType_t>(type);
    const Reason reason = decide(defaults(), kNetworked, signature, kOften);
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
  EXPECT_EQ(decide(params, kNetworked, signature, kOften), Reason::none);
  signature.count -= 1;
  EXPECT_EQ(decide(params, kNetworked, signature, kOften), Reason::small);
  signature.dataType = ncclBfloat16;
  signature.count = params.minBytes / 2;
  EXPECT_EQ(decide(params, kNetworked, signature, kOften), Reason::none);
  signature.count = 0;
  EXPECT_EQ(decide(params, kNetworked, signature, kOften), Reason::small);
}

TEST(Policy, TheFloorHoldsForAllShardsTogether) {
  const Params params = withKinds(true, true);
  for (const CallKind kind : {CallKind::reduceScatter, CallKind::allGather}) {
    Signature signature{kind, kind == CallKind::allGather ? OpClass::none : OpClass::sum,
                        ncclFloat32, params.minBytes / 4 / 4};
    EXPECT_EQ(decide(params, kNetworked, signature, kOften), Reason::none) << "4 shards reach it";
    signature.count -= 1;
    EXPECT_EQ(decide(params, kNetworked, signature, kOften), Reason::small);
    signature.count = 0;
    EXPECT_EQ(decide(params, kNetworked, signature, kOften), Reason::small);
  }
}

TEST(Policy, AFloorThatNoValueDividesIsNotRoundedDown) {
  Params params = defaults();
  params.minBytes = (1 << 20) + 1;
  Signature signature{CallKind::allReduce, OpClass::sum, ncclFloat32, 1 << 18};
  EXPECT_EQ(decide(params, kNetworked, signature, kOften), Reason::small) << "one byte short";
  signature.count += 1;
  EXPECT_EQ(decide(params, kNetworked, signature, kOften), Reason::none);
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
        EXPECT_EQ(decide(params, many, {kind, op, ncclFloat32, count}, kOften), Reason::small)
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
      EXPECT_EQ(decide(params, kNetworked, {kind, op, ncclBfloat16, count}, kOften), Reason::none);
    }
}

TEST(Policy, WithoutFeedbackAReduceScatterHasFiveBitsAtLeastAndAGatherEight) {
  const auto codecOf = [](const char* codec, CallKind kind, const Place& place) {
    Params params = withKinds(true, true);
    params.codec = codec;
    const Coding coding = codingOf(params, kind, place, 0);
    EXPECT_FALSE(coding.isAdaptive);
    return std::string(coding.codec.name);
  };
  for (const Place& place : {kKnownPlace, kAmbiguousPlace}) {
    for (const char* coarse : {"auto", "h2", "q4", "q5"})
      EXPECT_EQ(codecOf(coarse, CallKind::reduceScatter, place), "q5") << coarse;
    for (const char* finer : {"q6", "q8", "bf16"})
      EXPECT_EQ(codecOf(finer, CallKind::reduceScatter, place), finer);
    for (const char* any : {"auto", "q4", "q8", "bf16"})
      EXPECT_EQ(codecOf(any, CallKind::allGather, place), "q8") << any;
  }
}

TEST(Policy, OnlyAllReduceGetsFewBitsAndFeedback) {
  Params params = withKinds(true, true);
  params.codec = "q2";
  EXPECT_STREQ(codingOf(params, CallKind::allReduce, kKnownPlace, 0).codec.name, "q2");
  EXPECT_GT(codingOf(params, CallKind::allReduce, kKnownPlace, 0).rule.gain, 0.0f);
  params.errorFeedback = "0.5";
  params.rounding = RoundingChoice::stochastic;
  for (const CallKind kind : {CallKind::reduceScatter, CallKind::allGather}) {
    EXPECT_EQ(codingOf(params, kind, kKnownPlace, 0).rule.gain, 0.0f);
    EXPECT_EQ(codingOf(params, kind, kKnownPlace, 0).rule.rounding, Rounding::nearest);
  }
  params.codec = "q4";
  EXPECT_STREQ(codingOf(params, CallKind::allReduce, kKnownPlace, 0).codec.name, "q4");
  EXPECT_EQ(codingOf(params, CallKind::allReduce, kKnownPlace, 0).rule.gain, 0.5f);
}

TEST(Policy, FeedbackFitsTheCodec) {
  Params params = defaults();
  const auto ruleFor = [&](const char* codec) {
    params.codec = codec;
    return codingOf(params, CallKind::allReduce, kKnownPlace, 0).rule;
  };
  for (const char* coarse : {"q2", "h2", "h3", "q4", "q6"}) {
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
    return codingOf(params, CallKind::allReduce, kKnownPlace, 3).rule;
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
  for (const codec::CodecInfo& codec : codec::kCodecs)
    if (codec::isForCalls(codec)) known.insert(codec.name);
  EXPECT_EQ(named.erase("auto"), 1u) << "which chooses among them";
  EXPECT_EQ(named, known);
}

TEST(Policy, ObserveNeverCompresses) {
  Params params = defaults();
  params.mode = Mode::observe;
  EXPECT_EQ(decide(params, kNetworked, kGradients, kOften), Reason::observe);
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

// --- The ladder: what a call gets depends on how much is known of its place.

struct Rung {
  Reason reason;
  std::string codec;
  float gain;
  bool isAdaptive;
  bool operator==(const Rung&) const = default;
};

Rung rungOf(const Params& params, const Place& place, OpClass op = OpClass::sum) {
  Signature signature = kGradients;
  signature.op = op;
  const Coding coding = codingOf(params, signature.kind, place, 0);
  return {decide(params, kNetworked, signature, {10, place}), coding.codec.name, coding.rule.gain,
          coding.isAdaptive};
}

TEST(Policy, AKnownPlaceGetsAdaptivePrecisionAndFeedback) {
  for (const OpClass op : {OpClass::sum, OpClass::avg, OpClass::preMulSum})
    EXPECT_EQ(rungOf(defaults(), kKnownPlace, op), (Rung{Reason::none, "h3", 0.1f, true}));
  EXPECT_STREQ(codingOf(defaults(), CallKind::allReduce, kKnownPlace, 0).name(), "auto");
  EXPECT_STREQ(codingOf(defaults(), CallKind::allReduce, kAmbiguousPlace, 0).name(), "q8");
}

TEST(Policy, AnAmbiguousPlaceIsExaminedAndGetsNoFeedback) {
  for (const OpClass op : {OpClass::sum, OpClass::avg, OpClass::preMulSum}) {
    EXPECT_EQ(rungOf(defaults(), kAmbiguousPlace, op), (Rung{Reason::none, "q8", 0, false}));
    Signature shards = kGradients;
    shards.kind = CallKind::reduceScatter;
    shards.op = op;
    EXPECT_EQ(decide(defaults(), kNetworked, shards, {10, kAmbiguousPlace}), Reason::none);
  }
}

TEST(Policy, AnUnknownPlacePasses) {
  for (const OpClass op : {OpClass::sum, OpClass::avg, OpClass::preMulSum})
    EXPECT_EQ(rungOf(defaults(), kUnknownPlace, op).reason, Reason::unplaced);
}

TEST(Policy, WhereSlotsAreSignaturesNoPlaceIsNeeded) {
  Params params = defaults();
  params.slots = SlotChoice::signature;
  EXPECT_EQ(rungOf(params, kUnknownPlace), (Rung{Reason::none, "h3", 0.1f, true}));
}

// --- Warm-up.

// How many calls pass before the first that gets the ranks ready, or is compressed.
uint64_t warmUpOf(const Params& params, uint32_t timesPerStep) {
  for (uint64_t seen = 0;; ++seen)
    if (decide(params, kNetworked, kGradients, {seen, kKnownPlace, nullptr, timesPerStep}) !=
        Reason::warmup)
      return seen;
}

TEST(Policy, TheFirstStepsPass) {
  Params params = defaults();
  for (const int64_t steps : {0, 1, 2, 3}) {
    params.warmupSteps = steps;
    EXPECT_EQ(warmUpOf(params, 1), 1u) << "CINCH_WARMUP_CALLS is the larger one";
  }
  params.warmupSteps = 100;
  EXPECT_EQ(warmUpOf(params, 1), 98u) << "the last two of them get the ranks ready";
  EXPECT_EQ(warmUpOf(params, 12), 98u * 12) << "12 calls of a step share the signature";
  params.warmupCalls = 2000;
  EXPECT_EQ(warmUpOf(params, 12), 1998u);
}

// --- Rules.

Reason decideWith(std::string_view rules, const Params& params, const Signature& signature,
                  const Place& place = kKnownPlace, const CommFacts& comm = kNetworked) {
  const auto parsed = parseRules(rules);
  const Rule* rule = parsed.value().find(signature, comm.nRanks, 10);
  EXPECT_NE(rule, nullptr);
  return decide(params, comm, signature, {10, place, rule});
}

TEST(Policy, ARuleCanLetCallsPass) {
  EXPECT_EQ(decideWith("pass", defaults(), kGradients), Reason::ruled);
  EXPECT_EQ(decideWith("q8", defaults(), kGradients), Reason::none);
}

TEST(Policy, CompressStandsAgainstTheDefaults) {
  Signature few = kGradients;
  few.count = 4096;  // 16 KB
  EXPECT_EQ(decideWith("compress", defaults(), few), Reason::none);
  for (const char* others : {"gradient", "q8", "gradient q4"})
    EXPECT_EQ(decideWith(others, defaults(), few), Reason::small) << others;
  for (const CallKind kind : {CallKind::reduceScatter, CallKind::allGather}) {
    const OpClass op = kind == CallKind::allGather ? OpClass::none : OpClass::sum;
    const Signature call{kind, op, ncclFloat32, 1 << 20};
    EXPECT_EQ(decideWith("compress", withKinds(false, false), call), Reason::none);
    EXPECT_EQ(decideWith("gradient q8", withKinds(false, false), call),
              kind == CallKind::allGather ? Reason::gathered : Reason::kind);
  }
}

// Whatever a rule says: these cannot be, or would help nobody.
TEST(Policy, NoRuleCompressesWhatCannotBe) {
  constexpr const char* kAll = "compress gradient q4";
  CommFacts split = kNetworked, local = kNetworked, alone = kNetworked;
  split.agreed = local.severalHosts = false;
  alone.nRanks = 1;
  EXPECT_EQ(decideWith(kAll, defaults(), kGradients, kKnownPlace, split), Reason::notAgreed);
  EXPECT_EQ(decideWith(kAll, defaults(), kGradients, kKnownPlace, local), Reason::sameHost);
  EXPECT_EQ(decideWith(kAll, defaults(), kGradients, kKnownPlace, alone), Reason::oneRank);
  const auto with = [&](auto change) {
    Signature call = kGradients;
    change(call);
    return decideWith(kAll, defaults(), call);
  };
  EXPECT_EQ(with([](Signature& call) { call.op = OpClass::other; }), Reason::operation);
  EXPECT_EQ(with([](Signature& call) { call.dataType = ncclFloat64; }), Reason::dataType);
  EXPECT_EQ(with([](Signature& call) { call.dataType = ncclInt32; }), Reason::dataType);
  EXPECT_EQ(with([](Signature& call) { call.kind = CallKind::broadcast; }), Reason::kind);
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{300}, ~uint64_t{0}})
    EXPECT_EQ(with([=](Signature& call) { call.count = count; }), Reason::small) << count;
  Params observing = defaults();
  observing.mode = Mode::observe;
  EXPECT_EQ(decideWith(kAll, observing, kGradients), Reason::observe);
  const auto rules = parseRules(kAll);
  const Rule* rule = rules.value().find(kGradients, 4, 0);
  EXPECT_EQ(decide(defaults(), kNetworked, kGradients, {0, kKnownPlace, rule}), Reason::warmup);
}

TEST(Policy, OnlyGradientStandsAgainstADoubtfulPlace) {
  for (const char* const rule : {"compress q4", "gradient", "gradient q4"}) {
    const bool isBelieved = std::string_view(rule).starts_with("gradient");
    EXPECT_EQ(decideWith(rule, defaults(), kGradients, kUnknownPlace),
              isBelieved ? Reason::none : Reason::unplaced);
    EXPECT_EQ(decideWith(rule, defaults(), kGradients, kAmbiguousPlace), Reason::none);
  }
}

TEST(Policy, WithoutAKnownPlaceThereIsNoFeedback) {
  Params params = defaults();
  params.codec = "q4";
  const auto coding = [&](const char* text, const Place& place) {
    const auto rules = parseRules(text);
    return codingOf(params, CallKind::allReduce, place, 0, rules.value().find(kGradients, 4, 10));
  };
  for (const Place& place : {kUnknownPlace, kAmbiguousPlace}) {
    EXPECT_STREQ(coding("gradient", place).codec.name, "q8");
    EXPECT_STREQ(coding("q2", place).codec.name, "q8") << "who says that these are gradients?";
    EXPECT_STREQ(coding("gradient h3", place).codec.name, "h3");
    EXPECT_STREQ(coding("fp8", place).codec.name, "fp8");
    for (const char* rule : {"gradient", "q2", "gradient h3", "fp8"})
      EXPECT_EQ(coding(rule, place).rule.gain, 0.0f) << rule;
  }
  EXPECT_STREQ(coding("gradient", kKnownPlace).codec.name, "q4");
  EXPECT_STREQ(coding("q2", kKnownPlace).codec.name, "q2");
  EXPECT_EQ(coding("q2", kKnownPlace).rule.gain, 0.1f);
}

TEST(Policy, ARuleNamesTheCodecOfAnyKind) {
  const auto rules = parseRules("q4");
  const Rule* rule = rules.value().find(kGradients, 4, 10);
  for (const CallKind kind : {CallKind::reduceScatter, CallKind::allGather}) {
    EXPECT_STREQ(codingOf(defaults(), kind, kKnownPlace, 0, rule).codec.name, "q4");
    EXPECT_EQ(codingOf(defaults(), kind, kKnownPlace, 0, rule).rule.gain, 0.0f);
  }
  EXPECT_STREQ(codingOf(defaults(), CallKind::allReduce, kKnownPlace, 0, rule).codec.name, "q4");
}

TEST(Policy, RanksCompareWhatTheirRulesSay) {
  std::set<std::string> texts = {agreedSettings(defaults())};
  for (const char* text : {"pass", "q8", "pass ranks=2"})
    texts.insert(agreedSettings(defaults(), parseRules(text).value()));
  EXPECT_EQ(texts.size(), 4u);
  Params named = defaults();
  named.rules = "/one/path/or/another";
  EXPECT_EQ(agreedSettings(named), agreedSettings(defaults())) << "the path is each rank's own";
}

TEST(Policy, IntegerBroadcastsMarkANewLayout) {
  EXPECT_TRUE(marksNewLayout({CallKind::broadcast, OpClass::none, ncclInt32, 100}));
  EXPECT_TRUE(marksNewLayout({CallKind::broadcast, OpClass::none, ncclInt64, 1}));
  EXPECT_FALSE(marksNewLayout({CallKind::broadcast, OpClass::none, ncclFloat32, 100}));
  EXPECT_FALSE(marksNewLayout({CallKind::allReduce, OpClass::sum, ncclInt32, 100}));
}

}  // namespace
}  // namespace cinch
