#include "interpose/policy/evidence.h"

#include <gtest/gtest.h>

#include <numeric>

namespace cinch {
namespace {

constexpr Caller A = Caller::autograd, O = Caller::other;

// A call of a period: what it is, who makes it, and for reductions the values found of it.
struct Made {
  CallKind kind;
  uint64_t count;
  Caller caller;
  OpClass op = OpClass::sum;
  ValueVerdict values = ValueVerdict::unsuspicious;
};
Made reduced(uint64_t count, Caller caller, ValueVerdict values = ValueVerdict::unsuspicious) {
  return {CallKind::allReduce, count, caller, OpClass::sum, values};
}
Made scattered(uint64_t count, Caller caller, OpClass op = OpClass::sum) {
  return {CallKind::reduceScatter, count, caller, op};
}
Made gathered(uint64_t count, Caller caller = O) {
  return {CallKind::allGather, count, caller, OpClass::none};
}

struct Period {
  std::vector<Made> calls;
  bool isPlaced = true, isSharded = false;
  std::optional<uint64_t> parameters{};  // else what is reduced
  uint64_t nRanks = 2;
  bool isAutogradAlone = false;
  bool isOfShard = false;                           // what a ReduceScatter elsewhere has returned
  GatherVerdict gathered = GatherVerdict::unknown;  // where gathers are watched
};

StepEvidence stepOf(const Period& period) {
  TrainingStep step;
  step.isPlaced = period.isPlaced;
  step.isSharded = period.isSharded;
  step.nRanks = period.nRanks;
  uint32_t slot = 0;
  uint64_t reduced = 0;
  for (const Made& made : period.calls) {
    const bool isGather = made.kind == CallKind::allGather;
    step.calls.push_back(
        {{made.kind, made.op, ncclFloat32, made.count}, slot, !isGather, isGather});
    slot += !isGather;
    reduced += isGather ? 0 : made.count;
  }
  step.watchGathers();
  step.parameters = period.parameters.value_or(period.isSharded ? 0 : reduced);
  StepEvidence evidence(step);
  for (uint32_t i = 0; i < period.calls.size(); ++i)
    evidence.note(i, {.caller = period.calls[i].caller,
                      .isAutogradAlone = period.isAutogradAlone,
                      .reducesBeside = period.isOfShard});
  for (uint32_t site = step.nSlots(); site < step.nSites(); ++site)
    evidence.judgeGather(site, period.gathered);
  for (uint32_t i = 0, of = 0; i < period.calls.size(); ++i)
    if (period.calls[i].kind != CallKind::allGather) evidence.judge(of++, period.calls[i].values);
  return evidence;
}

Evidence found(const Period& period, uint32_t slot = 0, ProcessFacts process = {}) {
  process.isOfShard = period.isOfShard;
  for (const Made& made : period.calls)
    process.reducesFromAutograd =
        process.reducesFromAutograd || (made.caller == A && made.kind != CallKind::allGather);
  return stepOf(period).of(slot, process);
}

constexpr ProcessFacts kAutogradElsewhere{.reducesFromAutograd = true};
constexpr ProcessFacts kNamed{.ddp = DdpClaim::isOwn};
constexpr ProcessFacts kBesideDdp{.ddp = DdpClaim::isBeside};

// --- The rows of the table in evidence.h.

TEST(Evidence, AllReduceFromAutogradThreadsAlone) {
  EXPECT_EQ(found({{reduced(100, A), reduced(200, A)}}), Evidence::autogradThreads);
  EXPECT_EQ(found({{reduced(100, A)}}), Evidence::autogradThreads) << "one signature";
  EXPECT_EQ(found({.calls = {reduced(100, A), reduced(200, A)}, .isPlaced = false}),
            Evidence::ambiguous)
      << "others have reduced something";
}

TEST(Evidence, WhateverAutogradThreadsReduceWhileOthersReduceNothing) {
  Period period{.calls = {reduced(100, A)}, .isPlaced = false, .isAutogradAlone = true};
  EXPECT_EQ(found(period), Evidence::autogradAlone);
  StepEvidence beside = stepOf(period);
  beside.note(0, {.caller = A, .isAutogradAlone = true, .reducesBeside = true});
  EXPECT_EQ(beside.of(0, kAutogradElsewhere), Evidence::ambiguous);
  period.calls.push_back(gathered(200, A));
  EXPECT_EQ(found(period), Evidence::autogradAlone);
  period.calls.back().caller = O;
  EXPECT_EQ(found(period), Evidence::ambiguous) << "in the period, whatever was before";
  period.calls = {reduced(100, O)};
  EXPECT_EQ(found(period), Evidence::ambiguous);
  EXPECT_EQ(found(period, 0, kAutogradElsewhere), Evidence::anotherThread);
  period.calls = {reduced(100, A, ValueVerdict::alike)};
  EXPECT_EQ(found(period), Evidence::alike);
}

TEST(Evidence, WhereOthersGatherAutogradThreadsHaveToReduceTheModel) {
  EXPECT_EQ(found({{reduced(1000, A), reduced(2000, A), gathered(500)}}),
            Evidence::autogradThreads);
  EXPECT_EQ(found({.calls = {reduced(1000, A), gathered(500)}, .parameters = 2000}),
            Evidence::notTheModel);
}

// Features are gathered, and the gradients of what was gathered reduced.
TEST(Evidence, WhatTheModelDoesNotNeedIsNoGradientWhereOthersGather) {
  const Period period{.calls = {gathered(5), reduced(10, A), reduced(1000, A), reduced(2000, A)},
                      .parameters = 3000};
  EXPECT_EQ(found(period, 0), Evidence::notTheModel);
  EXPECT_EQ(found(period, 1), Evidence::autogradThreads);
  const Period scatters{
      .calls = {gathered(10), scattered(10, A), reduced(1000, A), reduced(2000, A)},
      .parameters = 3000};
  EXPECT_EQ(found(scatters, 0), Evidence::notTheModel);
}

TEST(Evidence, TheLastBucketFromElsewhereCompletesTheModel) {
  const Period zero{{reduced(1000, A), reduced(2000, A), reduced(500, O), gathered(3500)}};
  for (uint32_t slot = 0; slot < 2; ++slot) EXPECT_EQ(found(zero, slot), Evidence::autogradThreads);
  EXPECT_EQ(found(zero, 2), Evidence::completesModel);
}

TEST(Evidence, OnlyWhatIsMissingCompletesTheModel) {
  const Period whole{.calls = {reduced(3000, A), reduced(20, O), gathered(3000)},
                     .parameters = 3000};
  EXPECT_EQ(found(whole, 1), Evidence::anotherThread) << "autograd's is the model";
  const Period two{{reduced(3000, A), reduced(300, O), reduced(200, O), gathered(3500)}};
  for (uint32_t slot = 1; slot < 3; ++slot) EXPECT_EQ(found(two, slot), Evidence::anotherThread);
  const Period ungathered{{reduced(3000, A), reduced(500, O)}};
  EXPECT_EQ(found(ungathered, 1), Evidence::anotherThread) << "the weights are not gathered next";
  const Period none{{reduced(3000, O), gathered(3000)}};
  EXPECT_EQ(found(none, 0, kAutogradElsewhere), Evidence::anotherThread) << "nothing to complete";
}

TEST(Evidence, ALastBucketOfEachStepOfThePeriodCompletes) {
  const Period two{.calls = {scattered(1000, A), scattered(500, O), gathered(1500),
                             scattered(1000, A), scattered(500, O), gathered(1500)},
                   .isSharded = true};
  EXPECT_EQ(found(two, 1), Evidence::completesModel);
  EXPECT_EQ(found(two, 3), Evidence::completesModel);
  const Period uneven{.calls = {scattered(1000, A), scattered(500, O), gathered(1500),
                                scattered(900, A), scattered(500, O), gathered(1500)},
                      .isSharded = true};
  EXPECT_EQ(found(uneven, 1), Evidence::anotherThread);
  const Period sums{.calls = {scattered(1000, A), reduced(10, O), gathered(1000)},
                    .isSharded = true};
  EXPECT_EQ(found(sums, 1), Evidence::anotherThread) << "no shard of the model";
}

TEST(Evidence, ScattersFromAutogradThreads) {
  const Period known{.calls = {gathered(100), scattered(100, A), scattered(200, A)},
                     .isSharded = true};
  EXPECT_EQ(found(known), Evidence::scattersShards);
  const auto ambiguous = [](OpClass op, uint64_t count) {
    return found({.calls = {gathered(count), scattered(100, A, op)}, .isPlaced = false});
  };
  EXPECT_EQ(ambiguous(OpClass::avg, 100), Evidence::averagesShards);
  EXPECT_EQ(ambiguous(OpClass::preMulSum, 100), Evidence::averagesShards);
  EXPECT_EQ(ambiguous(OpClass::sum, 100), Evidence::ambiguous);
  EXPECT_EQ(ambiguous(OpClass::avg, 99), Evidence::ambiguous) << "not gathered again";
}

TEST(Evidence, WhatIsScatteredBesideWeightsThatAreGathered) {
  Period period{.calls = {gathered(100), scattered(100, A)}, .isPlaced = false};
  EXPECT_EQ(found(period), Evidence::ambiguous) << "features may be";
  EXPECT_EQ(found(period, 0, {.codesGathers = true}), Evidence::returnsAsWeights);
  period.gathered = GatherVerdict::different;
  EXPECT_EQ(found(period), Evidence::ambiguous);
  period.gathered = GatherVerdict::alike;
  EXPECT_EQ(found(period), Evidence::returnsAsWeights);
  period.calls[1].values = ValueVerdict::alike;
  EXPECT_EQ(found(period), Evidence::alike);
  period.calls[1].values = ValueVerdict::tooFew;
  EXPECT_EQ(found(period), Evidence::tooFewValues);
  period.calls = {gathered(99), scattered(100, A)};
  EXPECT_EQ(found(period), Evidence::ambiguous) << "of other shards";
  period.calls = {gathered(100), scattered(100, A), scattered(50, A)};
  EXPECT_EQ(found(period, 0), Evidence::ambiguous) << "something else is reduced, too";
  EXPECT_EQ(found(period, 1), Evidence::ambiguous);
  period.calls = {gathered(100), scattered(100, A), gathered(50), scattered(50, A)};
  EXPECT_EQ(found(period, 1), Evidence::returnsAsWeights);
  period.calls = {gathered(100), reduced(100, A)};
  EXPECT_EQ(found(period), Evidence::ambiguous) << "nothing is scattered";
}

TEST(Evidence, FeaturesBesideShardsOfTheModelAreSeen) {
  Period period{.calls = {gathered(100), scattered(100, A), gathered(100)}, .isSharded = true};
  for (const auto verdict : {GatherVerdict::unknown, GatherVerdict::alike}) {
    period.gathered = verdict;
    EXPECT_EQ(found(period), Evidence::scattersShards);
  }
  period.gathered = GatherVerdict::different;
  EXPECT_EQ(found(period), Evidence::ambiguous);
}

TEST(Evidence, WhatTheMainThreadScattersOnlyWhereTheProcessTrains) {
  Period period{.calls = {scattered(100, O), gathered(100)},
                .isPlaced = false,
                .gathered = GatherVerdict::alike};
  EXPECT_EQ(found(period), Evidence::ambiguous) << "a solver does the same";
  const ProcessFacts trains{.hasAutogradThreads = true};
  EXPECT_EQ(found(period, 0, trains), Evidence::returnsAsWeights);
  EXPECT_EQ(found(period, 0, {.reducesFromAutograd = true, .hasAutogradThreads = true}),
            Evidence::anotherThread);
  period.calls[0].values = ValueVerdict::steady;
  EXPECT_EQ(found(period, 0, trains), Evidence::ambiguous);
  period.calls[0].values = ValueVerdict::unsuspicious;
  period.calls.push_back(reduced(50, O));
  EXPECT_EQ(found(period, 0, trains), Evidence::ambiguous) << "something else beside it";
  period.calls.pop_back();
  period.gathered = GatherVerdict::unknown;
  EXPECT_EQ(found(period, 0, trains), Evidence::ambiguous);
}

TEST(Evidence, ShardsThatAreReducedAgainBetweenGroups) {
  Period period{.calls = {reduced(100, A)}, .isPlaced = false, .isOfShard = true};
  EXPECT_EQ(found(period), Evidence::ofShard);
  period.calls.push_back(reduced(200, O));
  EXPECT_EQ(found(period), Evidence::ambiguous);
  period.calls = {reduced(100, O)};
  EXPECT_EQ(found(period, 0, kAutogradElsewhere), Evidence::anotherThread);
  period.calls = {reduced(100, A, ValueVerdict::integers)};
  EXPECT_EQ(found(period), Evidence::integers);
}

TEST(Evidence, WithoutAutogradThreadsTheWholeModelInTwoSignatures) {
  EXPECT_EQ(found({{reduced(100, O), reduced(200, O)}}), Evidence::wholeModel);
  EXPECT_EQ(found({{reduced(100, O), reduced(100, O)}}), Evidence::oneSignature);
  EXPECT_EQ(found({{reduced(100, O)}}), Evidence::oneSignature);
  EXPECT_EQ(found({.calls = {reduced(100, O), reduced(200, O)}, .isPlaced = false}),
            Evidence::ambiguous);
  EXPECT_EQ(
      found({.calls = {scattered(100, O), scattered(200, O), gathered(300)}, .isSharded = true}),
      Evidence::wholeModel);
  EXPECT_EQ(found({{reduced(100, O), reduced(200, O)}}, 0, kAutogradElsewhere),
            Evidence::anotherThread);
}

TEST(Evidence, MoreThanTheModelIsSomethingBeside) {
  EXPECT_EQ(
      found({.calls = {reduced(1000, O), reduced(2000, O), reduced(10, O)}, .parameters = 3000}),
      Evidence::notTheModel);
}

TEST(Evidence, DdpHasNamedTheBuckets) {
  EXPECT_EQ(found({{reduced(100, O)}}, 0, kNamed), Evidence::ddpMessages);
  EXPECT_EQ(found({.calls = {scattered(100, O), gathered(100)}, .isSharded = true}, 0, kNamed),
            Evidence::oneSignature)
      << "buckets are reduced to all";
}

// --- What is stronger.

// Statistics that hooks of the backward pass reduce, for example.
TEST(Evidence, WhatIsBesideTheBucketsOfDdpIsNoGradient) {
  for (const bool isPlaced : {false, true})
    for (const Caller caller : {A, O})
      for (const bool isAlone : {false, true})
        EXPECT_FALSE(isGradient(found({.calls = {reduced(100, caller), reduced(200, caller)},
                                       .isPlaced = isPlaced,
                                       .isAutogradAlone = isAlone},
                                      0, kBesideDdp)));
  EXPECT_EQ(found({{reduced(100, A)}}, 0, kBesideDdp), Evidence::besideDdp);
  EXPECT_FALSE(isVeto(Evidence::besideDdp)) << "rank 0 alone hears DDP";
  EXPECT_TRUE(mayChange(Evidence::besideDdp)) << "its buckets may not have been found yet";
  const Period last{{reduced(100, A), reduced(200, O), gathered(150)}};
  EXPECT_EQ(found(last, 1), Evidence::completesModel);
  EXPECT_EQ(found(last, 1, kBesideDdp), Evidence::besideDdp);
  EXPECT_EQ(
      found({.calls = {scattered(100, A), gathered(100, A)}, .isSharded = true}, 0, kBesideDdp),
      Evidence::scattersShards)
      << "DDP scatters nothing";
}

// A loop over gradients, or one over weights, moments, curvature.
TEST(Evidence, WhatPyTorchReducesOutsideOfBackwardIsNotTold) {
  const Period loop{{reduced(100, O), reduced(200, O)}};
  EXPECT_EQ(found(loop), Evidence::wholeModel);
  EXPECT_EQ(found(loop, 0, {.isPyTorch = true}), Evidence::outsideBackward);
  EXPECT_EQ(found(loop, 0, {.ddp = DdpClaim::isOwn, .isPyTorch = true}), Evidence::ddpMessages)
      << "a rank that has run out of data";
}

// ZeRO-1: each rank steps its part of the weights, and all parts are gathered.
TEST(Evidence, WhatIsGatheredInPartsNextAreItsWeights) {
  constexpr ProcessFacts kPyTorch{.isPyTorch = true};
  const auto foundOf = [](std::vector<Made> calls, uint64_t nRanks = 2) {
    return found({.calls = std::move(calls), .nRanks = nRanks}, 0, kPyTorch);
  };
  EXPECT_EQ(foundOf({reduced(100, O), reduced(200, O), gathered(150)}), Evidence::wholeModel);
  EXPECT_EQ(foundOf({reduced(200, O), gathered(50), gathered(100), reduced(100, O)}),
            Evidence::wholeModel)
      << "from any call on";
  EXPECT_EQ(foundOf({reduced(100, O), reduced(200, O), gathered(150)}, 4),
            Evidence::outsideBackward);
  EXPECT_EQ(foundOf({reduced(100, O), gathered(50), reduced(200, O), gathered(100)}),
            Evidence::outsideBackward)
      << "of each layer by itself";
  EXPECT_EQ(foundOf({reduced(100, O, ValueVerdict::steady), reduced(200, O), gathered(150)}),
            Evidence::steady);
}

TEST(Evidence, WhereBucketsOfDdpAreNotFoundOnlyTheWholeModelIsOne) {
  constexpr ProcessFacts kUnclear{.ddp = DdpClaim::unclear};
  Period period{{reduced(100, A), reduced(200, A)}};
  period.isAutogradAlone = true;
  EXPECT_EQ(found(period, 0, kUnclear), Evidence::autogradThreads);
  period.isPlaced = false;
  EXPECT_EQ(found(period, 0), Evidence::autogradAlone);
  EXPECT_EQ(found(period, 0, kUnclear), Evidence::ambiguous);
}

// A site that is called twice may have the gradients once and curvature of their size then.
TEST(Evidence, WithoutAutogradThreadsTheModelIsReducedOnce) {
  TrainingStep step{.calls = {}, .isPlaced = true, .parameters = 300};
  for (const uint64_t count : {100, 200, 100, 200})
    step.calls.push_back(
        {{CallKind::allReduce, OpClass::sum, ncclFloat32, count}, count == 100 ? 0u : 1u, true});
  const auto foundOf = [&step](Caller caller) {
    StepEvidence evidence(step);
    for (uint32_t position = 0; position < step.calls.size(); ++position)
      evidence.note(position, {caller});
    for (const uint32_t slot : {0, 1}) evidence.judge(slot, ValueVerdict::unsuspicious);
    return evidence.of(0, {.reducesFromAutograd = caller == A});
  };
  EXPECT_EQ(foundOf(O), Evidence::notTheModel);
  EXPECT_EQ(foundOf(A), Evidence::autogradThreads) << "micro-batches";
}

TEST(Evidence, WhatDdpNamesNeedsNoWholeModel) {
  for (const bool isPlaced : {false, true}) {
    Period period{.calls = {reduced(100, A), reduced(200, O), gathered(300)},
                  .isPlaced = isPlaced,
                  .parameters = 1000};
    EXPECT_EQ(found(period, 0, kNamed), Evidence::ddpMessages);
    EXPECT_EQ(found(period, 1, kNamed), Evidence::anotherThread);
    EXPECT_FALSE(isGradient(found(period, 0)));
    period.calls[0].values = ValueVerdict::alike;
    EXPECT_EQ(found(period, 0, kNamed), Evidence::alike);
  }
}

TEST(Evidence, TheSameSignatureFromBothIsAnActivation) {
  const Period period{{reduced(100, A), reduced(100, O), reduced(200, A)}};
  EXPECT_EQ(found(period, 0), Evidence::bothThreads);
  EXPECT_EQ(found(period, 1), Evidence::bothThreads);
  StepEvidence later = stepOf({{reduced(100, A), reduced(200, A)}});
  later.note(0, {O});
  EXPECT_EQ(later.of(0, {}), Evidence::bothThreads) << "the same call, another time";
}

TEST(Evidence, WhatIsBroadcastInEachStepIsAnActivation) {
  for (const Caller caller : {A, O}) {
    TrainingStep step{.calls = {}, .isPlaced = true, .parameters = 300};
    const auto signature = [](CallKind kind, uint64_t count) {
      return Signature{kind, OpClass::sum, ncclFloat32, count};
    };
    step.calls = {{signature(CallKind::broadcast, 100), 0, false, false, true},
                  {signature(CallKind::allReduce, 100), 0, true},
                  {signature(CallKind::allReduce, 200), 1, true}};
    StepEvidence evidence(step);
    for (uint32_t position : {1, 2}) evidence.note(position, {caller});
    for (uint32_t slot : {0, 1}) evidence.judge(slot, ValueVerdict::unsuspicious);
    EXPECT_EQ(evidence.of(0, {}), Evidence::broadcastInStep);
    EXPECT_NE(evidence.of(1, {}), Evidence::broadcastInStep);
  }
}

TEST(Evidence, ValuesVeto) {
  const std::pair<ValueVerdict, Evidence> vetoes[] = {
      {ValueVerdict::alike, Evidence::alike},
      {ValueVerdict::integers, Evidence::integers},
      {ValueVerdict::ofOneSign, Evidence::ofOneSign},
      {ValueVerdict::gatheredBySums, Evidence::gatheredBySums},
      {ValueVerdict::tooFew, Evidence::tooFewValues}};
  for (const auto& [values, evidence] : vetoes)
    for (const Caller caller : {A, O})
      EXPECT_EQ(found({{reduced(100, caller, values), reduced(200, caller)}}), evidence);
}

TEST(Evidence, TooFewValuesMatterOnlyWhereItWereAGradient) {
  EXPECT_EQ(found({{reduced(100, O, ValueVerdict::tooFew)}}), Evidence::oneSignature);
}

TEST(Evidence, LittleNoiseMattersWhereThreadsSayNothing) {
  const auto steady = [](Caller caller) {
    return Period{{reduced(100, caller, ValueVerdict::steady), reduced(200, caller)}};
  };
  EXPECT_EQ(found(steady(A)), Evidence::autogradThreads);
  EXPECT_EQ(found(steady(O), 0), Evidence::steady);
  EXPECT_EQ(found(steady(O), 1), Evidence::steady) << "where one may be weights, all may be";
  EXPECT_EQ(found(steady(O), 0, kNamed), Evidence::ddpMessages);
  EXPECT_TRUE(mayChange(Evidence::steady) && !isVeto(Evidence::steady));
}

TEST(Evidence, WhatTheModelIsNotWholeWithoutIsVetoedWithIt) {
  const Period weights{{reduced(100, O, ValueVerdict::alike), reduced(200, O)}};
  EXPECT_EQ(found(weights, 1), Evidence::besideVetoes);
  EXPECT_TRUE(isVeto(Evidence::besideVetoes)) << "another rank may see less of it";
  const Period counts{
      .calls = {reduced(1000, O), reduced(2000, O), reduced(20, O, ValueVerdict::integers)},
      .parameters = 3000};
  EXPECT_EQ(found(counts, 0), Evidence::wholeModel);
  EXPECT_EQ(found(counts, 2), Evidence::integers);
}

TEST(Evidence, EachHasAClassATextAndANumber) {
  for (uint8_t number = 0; evidenceOf(number); ++number) {
    const Evidence evidence = *evidenceOf(number);
    EXPECT_NE(std::string(textOf(evidence)), "");
    EXPECT_EQ(isGradient(evidence), reasonOf(evidence) == Reason::none);
    EXPECT_FALSE(isGradient(evidence) && isVeto(evidence));
  }
  EXPECT_EQ(evidenceOf(static_cast<uint8_t>(Evidence::anotherRank)), Evidence::anotherRank);
  EXPECT_FALSE(evidenceOf(static_cast<uint8_t>(Evidence::anotherRank) + 1));
}

TEST(Evidence, NoSuchSlotIsNothing) {
  EXPECT_EQ(found({{reduced(100, A)}}, 7), Evidence::notTheModel);
}

TEST(IsModel, ToTwoPercentLessAndOnePercentMore) {
  EXPECT_TRUE(isModel(1000, 1000));
  EXPECT_TRUE(isModel(981, 1000));
  EXPECT_FALSE(isModel(980, 1000));
  EXPECT_TRUE(isModel(1009, 1000));
  EXPECT_FALSE(isModel(1010, 1000));
  EXPECT_FALSE(isModel(0, 0));
}

}  // namespace
}  // namespace cinch
