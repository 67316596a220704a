#include "interpose/comm/step_exam.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "interpose/comm/caller.h"
#include "interpose/comm/memory_reserve.h"
#include "interpose/comm/step_tracker.h"
#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

constexpr uint64_t kBucketCount = 5000, kOtherCount = 300000;
constexpr uint32_t kExamined = 0, kOther = 1;

TrainingStep twoBuckets() {
  const Signature bucket{CallKind::allReduce, OpClass::sum, ncclFloat32, kBucketCount};
  const Signature other{CallKind::allReduce, OpClass::sum, ncclFloat32, kOtherCount};
  return {.calls = {{bucket, kExamined, true, false}, {other, kOther, true, false}},
          .isPlaced = true,
          .parameters = kBucketCount + kOtherCount};
}

// A layer of split activations, of which it isn't known whether they are gradients.
TrainingStep oneBucketSomewhere() {
  return {.calls = {{{CallKind::allReduce, OpClass::sum, ncclFloat32, kBucketCount}, 0, true}}};
}

// One of two ranks, whose inputs and results are drawn anew for each call.
class StepExamTest : public testing::Test {
 protected:
  void SetUp() override {
    test::resetFakes();
    resources_.device = &fakeDeviceTable();
    exam_ = std::make_unique<StepExam>(1, 7, twoBuckets(), resources_, 2);
  }
  void TearDown() override {
    test::setEventsPending(false);
    exam_.reset();
    MemoryReserve::instance().release();
  }

  void call(uint32_t site, Caller caller = Caller::autograd) {
    exam_->note(site, {caller});
    std::normal_distribution<float> value;
    std::vector<float> input(site == kExamined ? kBucketCount : kOtherCount), output(input.size());
    for (size_t i = 0; i < input.size(); ++i) {
      input[i] = value(random_);
      output[i] = input[i] + value(random_);
    }
    exam_->beginCall(site, {input.data(), input.size(), ncclFloat32}, input.data(), nullptr);
    exam_->endCall(site, {output.data(), output.size(), ncclFloat32}, nullptr);
  }
  static std::vector<float> draw(uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> value;
    std::vector<float> values(kBucketCount);
    for (float& one : values) one = value(random);
    return values;
  }
  void steps(uint32_t n) {
    for (uint32_t i = 0; i < n; ++i)
      for (const uint32_t site : {kExamined, kOther}) call(site);
  }
  Evidence found(uint32_t site) { return exam_->evidence(site, {.reducesFromAutograd = true}); }

  CommResources resources_;
  std::unique_ptr<StepExam> exam_;
  std::mt19937 random_{1};
};

// A ReduceScatter and a gather of as large shards, which says what is scattered.
TrainingStep gatherAndScatter() {
  TrainingStep step{
      .calls = {{{CallKind::allGather, OpClass::none, ncclFloat32, kBucketCount}, 0, false, true},
                {{CallKind::reduceScatter, OpClass::sum, ncclFloat32, kBucketCount}, 0, true}}};
  step.watchGathers();
  return step;
}

TEST_F(StepExamTest, AGatherIsMeasuredBeforeVotesAndAgainWithTheOthers) {
  constexpr uint32_t kScatter = 0, kGather = 1;
  exam_ = std::make_unique<StepExam>(2, 8, gatherAndScatter(), resources_, 2);
  ASSERT_EQ(exam_->note(0, {Caller::other}).site, kGather);
  ASSERT_EQ(exam_->note(1, {Caller::autograd}).site, kScatter);
  const std::vector<float> weights = draw(1), features = draw(2);
  const auto step = [&](const std::vector<float>& gathered, uint32_t seed) {
    exam_->note(1, {Caller::autograd});
    for (const auto& [site, values] : {std::pair(kScatter, draw(seed)), {kGather, gathered}}) {
      exam_->beginCall(site, {values.data(), values.size(), ncclFloat32}, values.data(), nullptr);
      const std::vector<float> result = site == kGather ? values : draw(seed + 100);
      exam_->endCall(site, {result.data(), result.size(), ncclFloat32}, nullptr);
    }
  };
  step(weights, 10);
  EXPECT_TRUE(exam_->takeUnvoted(false).empty());
  step(features, 11);
  EXPECT_EQ(exam_->takeUnvoted(false), (std::vector<uint32_t>{kScatter}));
  EXPECT_EQ(found(kScatter), Evidence::ambiguous) << "what is gathered differs";
  exam_->decide(kScatter, Evidence::ambiguous);
  for (uint64_t ordinal = 0; exam_->phase(kScatter) == StepExam::Phase::decided; ++ordinal)
    exam_->askAgain(kScatter, ordinal);
  EXPECT_EQ(exam_->phase(kGather), StepExam::Phase::measuring);
  for (const uint32_t seed : {12, 13}) step(weights, seed);
  EXPECT_EQ(exam_->takeUnvoted(false), (std::vector<uint32_t>{kScatter}));
  EXPECT_EQ(found(kScatter), Evidence::returnsAsWeights);
}

TEST_F(StepExamTest, AShardIsOfGradientsWhereTheScatterIsWhenVotesAreCast) {
  constexpr uint32_t kSite = 0;
  StepExam scatters(1, 7, gatherAndScatter(), resources_, 2);
  const SharedFinding finding = scatters.sharedFinding(kSite);
  const auto exam = std::make_shared<StepExam>(2, 8, oneBucketSomewhere(), resources_, 2);
  const CallOrigin origin{.caller = Caller::autograd, .reducesBeside = true};
  for (uint32_t i = 0; i < kMeasuredCalls; ++i) {
    exam->note(0, origin, {nullptr, finding});
    const std::vector<float> input = draw(random_()), output = draw(random_());
    exam->beginCall(kSite, {input.data(), input.size(), ncclFloat32}, input.data(), nullptr);
    exam->endCall(kSite, {output.data(), output.size(), ncclFloat32}, nullptr);
  }
  const auto found = [&] { return exam->evidence(kSite, {.reducesFromAutograd = true}); };
  EXPECT_EQ(found(), Evidence::ambiguous) << "nobody has voted";
  EXPECT_TRUE(exam->hasArrived());
  for (uint32_t i = 0; i < kMeasuredCalls; ++i)
    for (const uint32_t site : {0, 1}) {
      const std::vector<float> values = draw(random_());
      scatters.beginCall(site, {values.data(), values.size(), ncclFloat32}, values.data(), nullptr);
      scatters.endCall(site, {values.data(), values.size(), ncclFloat32}, nullptr);
    }
  ASSERT_EQ(scatters.takeUnvoted(false), (std::vector<uint32_t>{kSite}));
  EXPECT_FALSE(exam->hasArrived()) << "what was scattered is being evaluated";
  EXPECT_TRUE(scatters.hasArrived());
  scatters.noteBallot({7, kSite, 9}, {Evidence::averagesShards, true});
  EXPECT_EQ(found(), Evidence::ambiguous) << "an older attempt's";
  EXPECT_TRUE(exam->hasArrived()) << "and nobody waits for it any more";
  scatters.noteBallot(scatters.attempt(kSite), {Evidence::alike, false});
  EXPECT_EQ(found(), Evidence::ambiguous);
  scatters.noteBallot(scatters.attempt(kSite), {Evidence::averagesShards, false});
  EXPECT_EQ(found(), Evidence::ambiguous) << "it could not be sent";
  scatters.noteBallot(scatters.attempt(kSite), {Evidence::averagesShards, true});
  EXPECT_EQ(found(), Evidence::ofShard);

  const SiteExam shard{exam, kSite, false, finding}, another{exam, kSite};
  exam->decide(kSite, Evidence::ofShard);
  EXPECT_FALSE(shard.isShardOfNoGradients());
  scatters.decide(kSite, Evidence::anotherRank);
  EXPECT_TRUE(shard.isShardOfNoGradients()) << "another rank has seen the contrary there";
  EXPECT_FALSE(another.isShardOfNoGradients()) << "no call that Cinch looked at came before";
  scatters.decide(kSite, Evidence::averagesShards);
  EXPECT_FALSE(shard.isShardOfNoGradients());
  scatters.close(kSite, Evidence::alike);
  EXPECT_TRUE(shard.isShardOfNoGradients());
  exam->decide(kSite, Evidence::autogradAlone);
  EXPECT_FALSE(shard.isShardOfNoGradients()) << "it is one for another reason";
}

TEST_F(StepExamTest, AllSitesAreVotedOnOnceAllHaveBeenMeasured) {
  steps(kMeasuredCalls - 1);
  call(kExamined);
  EXPECT_EQ(exam_->phase(kExamined), StepExam::Phase::voting);
  EXPECT_TRUE(exam_->takeUnvoted(false).empty()) << "the other one may say that this is no model";
  call(kOther);
  EXPECT_EQ(exam_->takeUnvoted(false), (std::vector<uint32_t>{kExamined, kOther}));
  EXPECT_TRUE(exam_->takeUnvoted(true).empty()) << "each once";
  EXPECT_TRUE(isGradient(found(kExamined)) && isGradient(found(kOther)));
}

TEST_F(StepExamTest, SeveralCallsOfASiteInAGroupAreOne) {
  std::vector<float> values(kBucketCount, 1.0f);
  const DeviceValues buffer{values.data(), kBucketCount, ncclFloat32};
  for (uint32_t i = 0; i < kMeasuredCalls; ++i)
    exam_->beginCall(kExamined, buffer, buffer.data_dev, nullptr);
  exam_->endCall(kExamined, buffer, nullptr);
  exam_->endCall(kExamined, buffer, nullptr);
  EXPECT_EQ(exam_->phase(kExamined), StepExam::Phase::measuring);
}

TEST_F(StepExamTest, WhatWasNotMadeIsNotMeasured) {
  std::vector<float> values(kBucketCount, 1.0f);
  const DeviceValues buffer{values.data(), kBucketCount, ncclFloat32};
  for (uint32_t i = 0; i < kMeasuredCalls; ++i) {
    exam_->beginCall(kExamined, buffer, buffer.data_dev, nullptr);
    exam_->takeBack();
    exam_->endCall(kExamined, buffer, nullptr);
  }
  EXPECT_EQ(exam_->phase(kExamined), StepExam::Phase::measuring);
}

TEST_F(StepExamTest, WhatHasNotArrivedIsNotKnown) {
  steps(kMeasuredCalls);
  test::setEventsPending(true);
  EXPECT_FALSE(exam_->hasArrived());
  EXPECT_EQ(found(kExamined), Evidence::tooFewValues);
  test::setEventsPending(false);
  EXPECT_TRUE(isGradient(found(kExamined)));
}

// Ranks count their calls alike, whatever each of their devices refuses.
TEST_F(StepExamTest, WhateverTheDeviceRefusesThePhasesAreTheSame) {
  const size_t before = fakeDevice().calls.size();
  steps(kMeasuredCalls);
  const auto nCalls = static_cast<int>(fakeDevice().calls.size() - before);
  ASSERT_GT(nCalls, 0);
  for (int refused = 0; refused < nCalls; ++refused) {
    exam_ = std::make_unique<StepExam>(1, 7, twoBuckets(), resources_, 2);
    MemoryReserve::instance().release();  // so that it is asked for again
    fakeDevice().failAt = static_cast<int>(fakeDevice().calls.size()) + refused;
    steps(kMeasuredCalls);
    fakeDevice().failAt = -1;
    EXPECT_EQ(exam_->phase(kExamined), StepExam::Phase::voting) << refused;
    EXPECT_EQ(exam_->phase(kOther), StepExam::Phase::voting) << refused;
    EXPECT_EQ(exam_->takeUnvoted(false).size(), 2u) << refused;
  }
}

TEST_F(StepExamTest, AnotherThreadContradictsOnlyWhatWasFoundToBeAGradient) {
  steps(kMeasuredCalls);
  EXPECT_FALSE(exam_->note(kExamined, {Caller::other}).contrary) << "nothing has been found yet";
  exam_->reopen(8);
  call(kExamined);
  exam_->decide(kExamined, Evidence::autogradThreads);
  EXPECT_FALSE(exam_->note(kExamined, {Caller::autograd}).contrary);
  EXPECT_TRUE(exam_->note(kExamined, {Caller::other}).contrary);
  exam_->decide(kExamined, Evidence::anotherThread);
  EXPECT_FALSE(exam_->note(kExamined, {Caller::other}).contrary);
}

// Reductions of a model's size from a main thread: now and then they may be of something else.
TEST_F(StepExamTest, AnotherBufferContradictsTheSizeOfTheModelAlone) {
  steps(kMeasuredCalls);
  const std::vector<float> weights(kBucketCount), gradients(kBucketCount, 1);
  exam_->decide(kExamined, Evidence::steady);
  for (uint64_t ordinal = 0; ordinal < 2; ++ordinal) exam_->askAgain(kExamined, ordinal);
  const DeviceValues reused{gradients.data(), kBucketCount, ncclFloat32};
  exam_->beginCall(kExamined, reused, reused.data_dev, nullptr);
  exam_->endCall(kExamined, reused, nullptr);
  for (const Evidence outcome : {Evidence::wholeModel, Evidence::autogradThreads}) {
    exam_->decide(kExamined, outcome);
    const bool isAlone = outcome == Evidence::wholeModel;
    EXPECT_FALSE(exam_->note(kExamined, {Caller::autograd}).contrary);
    EXPECT_FALSE(exam_->note(kExamined, {Caller::autograd}, {gradients.data()}).contrary);
    const auto contrary = exam_->note(kExamined, {Caller::autograd}, {weights.data()}).contrary;
    EXPECT_EQ(contrary, isAlone ? std::optional(Evidence::anotherBuffer) : std::nullopt);
  }
}

TEST_F(StepExamTest, AfterABreakOneCallOfASiteIsEnough) {
  steps(kMeasuredCalls);
  exam_->decide(kExamined, Evidence::autogradThreads);
  exam_->reopen(8);
  EXPECT_EQ(exam_->phase(kExamined), StepExam::Phase::measuring);
  call(kExamined);
  EXPECT_EQ(exam_->phase(kExamined), StepExam::Phase::voting);
  EXPECT_TRUE(isGradient(found(kExamined)));
}

// The background thread may be late: the period has been broken since.
TEST_F(StepExamTest, ALateBallotDoesNotCountForTheNextAttempt) {
  const auto before = exam_->attempt(kExamined);
  exam_->reopen(8);
  exam_->noteBallot(before, {Evidence::autogradThreads, true});
  EXPECT_FALSE(exam_->ballot(kExamined).isYes);
  exam_->noteBallot(exam_->attempt(kExamined), {Evidence::autogradThreads, true});
  EXPECT_TRUE(exam_->ballot(kExamined).isYes);
  exam_->decide(kExamined, Evidence::steady);
  for (uint64_t ordinal = 0; ordinal < 3; ++ordinal) exam_->askAgain(kExamined, ordinal);
  EXPECT_FALSE(before == exam_->attempt(kExamined));
}

TEST_F(StepExamTest, WhatMayChangeIsAskedAgainAfterTwiceAsLongEachTime) {
  std::vector<uint64_t> asked;
  for (uint64_t ordinal = 0; ordinal < 100; ++ordinal) {
    exam_->askAgain(kExamined, ordinal);
    if (exam_->phase(kExamined) == StepExam::Phase::measuring) {
      asked.push_back(ordinal);
      exam_->decide(kOther, Evidence::autogradThreads);
      exam_->decide(kExamined, asked.size() % 2 == 0 ? Evidence::steady : Evidence::tooFewValues);
    }
    EXPECT_EQ(exam_->phase(kOther), StepExam::Phase::decided);
  }
  EXPECT_EQ(asked, (std::vector<uint64_t>{0, 2, 5, 10, 19, 36, 69}));
}

TEST_F(StepExamTest, AllSitesThatMayChangeAreAskedTogether) {
  for (const uint32_t site : {kExamined, kOther}) exam_->decide(site, Evidence::steady);
  exam_->askAgain(kOther, 4);
  EXPECT_EQ(exam_->phase(kOther), StepExam::Phase::decided);
  exam_->askAgain(kOther, 4);  // that call was taken back
  EXPECT_EQ(exam_->phase(kOther), StepExam::Phase::decided);
  exam_->askAgain(kOther, 5);
  EXPECT_EQ(exam_->phase(kExamined), StepExam::Phase::measuring);
  EXPECT_EQ(exam_->phase(kOther), StepExam::Phase::measuring);
}

// What closed it is known to the rank that saw it, and to the others only that one did: a rank that
// measured again would wait for votes that never come.
TEST_F(StepExamTest, WhatIsClosedIsNotAskedAgainBeforeTheNextEpoch) {
  for (const Evidence own : {Evidence::ofOneSign, Evidence::steady, Evidence::anotherRank}) {
    exam_->decide(kExamined, Evidence::autogradThreads);
    exam_->close(kExamined, own);
    for (uint64_t ordinal = 0; ordinal < 100; ++ordinal) exam_->askAgain(kExamined, ordinal);
    EXPECT_EQ(exam_->phase(kExamined), StepExam::Phase::decided);
    EXPECT_EQ(exam_->outcome(kExamined), own);
  }
  exam_->reopen(8);
  EXPECT_EQ(exam_->phase(kExamined), StepExam::Phase::measuring);
}

TEST_F(StepExamTest, WhatIsKnownIsNotAskedAgain) {
  for (const Evidence known : {Evidence::alike, Evidence::autogradThreads, Evidence::notTheModel}) {
    exam_->decide(kExamined, known);
    for (uint64_t ordinal = 0; ordinal < 100; ++ordinal) exam_->askAgain(kExamined, ordinal);
    EXPECT_EQ(exam_->outcome(kExamined), known);
    EXPECT_EQ(exam_->attempt(kExamined).number, 0u);
  }
}

TEST_F(StepExamTest, WhatIsClosedOnceIsNotClosedByThatAgain) {
  const uint64_t first = exam_->closingTopic(kExamined);
  EXPECT_NE(first, exam_->closingTopic(kOther));
  exam_->decide(kExamined, Evidence::ambiguous);
  EXPECT_EQ(exam_->closingTopic(kExamined), first) << "it was no gradient before";
  exam_->decide(kExamined, Evidence::autogradThreads);
  EXPECT_TRUE(exam_->isTaken(kExamined));
  exam_->reopen(8);
  EXPECT_EQ(exam_->closingTopic(kExamined), first) << "it outlasts epochs";
  exam_->decide(kExamined, Evidence::autogradThreads);
  exam_->close(kExamined, Evidence::anotherThread);
  EXPECT_FALSE(exam_->isTaken(kExamined));
  EXPECT_NE(exam_->closingTopic(kExamined), first);
}

TEST_F(StepExamTest, AnAuditSeesValuesThatHaveBecomeAlike) {
  steps(kMeasuredCalls);
  exam_->decide(kExamined, Evidence::autogradThreads);
  std::vector<float> weights(kBucketCount);
  std::normal_distribution<float> value;
  for (float& weight : weights) weight = value(random_);
  const DeviceValues same{weights.data(), kBucketCount, ncclFloat32};
  exam_->beginAudit(kExamined, same, nullptr);
  exam_->endAudit(kExamined, same, nullptr);
  EXPECT_EQ(found(kExamined), Evidence::alike);
}

TEST(Caller, IsNamedByItsThread) {
  EXPECT_EQ(currentCaller(), Caller::other);
  Caller found = Caller::other;
  std::thread named([&found] {
    pthread_setname_np(pthread_self(), "pt_autograd_3");
    found = currentCaller();
  });
  named.join();
  EXPECT_EQ(found, Caller::autograd);
}

}  // namespace
}  // namespace cinch
