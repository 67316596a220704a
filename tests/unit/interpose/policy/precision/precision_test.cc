#include "interpose/policy/precision/precision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/codec/registry.h"

namespace cinch {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::vector<wire::CodecFormat> kCandidates = {codec::formatOf("q2"), codec::formatOf("q3"),
                                                    codec::formatOf("q4"), codec::formatOf("q6"),
                                                    codec::formatOf("q8"), codec::formatOf("bf16")};
constexpr uint32_t kQ4 = 2, kBf16 = 5;
constexpr double kShares[] = {0.25, 0.046, 0.01, 5.6e-4, 3.5e-5, 2.8e-6};

// A bucket whose errors are what Gaussian values of the segments' powers would have.
struct PlannedBucket {
  std::vector<PrecisionSegment> segments;
  std::vector<double> errors;

  void add(uint64_t nTiles, double powerPerTile, bool keptRaw = false) {
    segments.push_back({nTiles, keptRaw});
    for (double share : kShares)
      errors.push_back(share * powerPerTile * static_cast<double>(nTiles));
  }
  double& error(size_t segment, size_t candidate) {
    return errors[segment * kCandidates.size() + candidate];
  }
  PrecisionProblem problem() const { return {segments, kCandidates, kQ4, kBf16, errors}; }

  uint64_t bytesOf(const std::vector<uint8_t>& choice) const {
    uint64_t n = 0;
    for (size_t i = 0; i < choice.size(); ++i)
      n += segments[i].nTiles * kCandidates[choice[i]].tileBytes();
    return n;
  }
  double errorOf(const std::vector<uint8_t>& choice) const {
    double sum = 0;
    for (size_t i = 0; i < choice.size(); ++i) sum += errors[i * kCandidates.size() + choice[i]];
    return sum;
  }
  std::vector<uint8_t> uniform() const { return std::vector<uint8_t>(segments.size(), kQ4); }
};

PlannedBucket randomBucket(std::mt19937_64& random, size_t nSegments, double spread) {
  PlannedBucket bucket;
  std::normal_distribution<double> logPower(0, spread);
  std::uniform_real_distribution<double> factor(0.7, 1.4);
  for (size_t i = 0; i < nSegments; ++i) {
    bucket.add(1 + random() % 100, 1e-7 * std::exp(logPower(random)));
    for (size_t k = 0; k < kCandidates.size(); ++k) bucket.error(i, k) *= factor(random);
  }
  return bucket;
}

// Calls visit(choice) for every choice there is.
template <class Visit>
void forEachChoice(size_t nSegments, const Visit& visit) {
  std::vector<uint8_t> choice(nSegments, 0);
  for (;;) {
    visit(choice);
    size_t i = 0;
    while (i < nSegments && ++choice[i] == kCandidates.size()) choice[i++] = 0;
    if (i == nSegments) return;
  }
}

void expectConsistent(const PlannedBucket& bucket, const PrecisionChoice& choice) {
  ASSERT_EQ(choice.candidates.size(), bucket.segments.size());
  EXPECT_EQ(choice.nBytes, bucket.bytesOf(choice.candidates));
  EXPECT_NEAR(choice.error, bucket.errorOf(choice.candidates), 1e-12 * choice.error);
}

TEST(Precision, LoudSegmentsGetMoreBits) {
  PlannedBucket bucket;
  bucket.add(10, 1e-6);
  bucket.add(10, 1e-2);
  bucket.add(10, 1e-6);
  const PrecisionChoice choice = fewestBytes(bucket.problem());
  expectConsistent(bucket, choice);
  EXPECT_EQ(choice.candidates, (std::vector<uint8_t>{0, 3, 0}));
  EXPECT_TRUE(choice.isWithin);
}

TEST(Precision, AnEmptyBucketHasAnEmptyChoice) {
  const PrecisionChoice choice = fewestBytes(PlannedBucket().problem());
  EXPECT_TRUE(choice.candidates.empty());
  EXPECT_TRUE(choice.isWithin);
}

TEST(Precision, FewestBytesIsOptimal) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 40; ++round) {
    const PlannedBucket bucket = randomBucket(random, 1 + random() % 5, 2);
    const double budget = bucket.errorOf(bucket.uniform());
    uint64_t fewest = UINT64_MAX;
    forEachChoice(bucket.segments.size(), [&](const std::vector<uint8_t>& choice) {
      if (bucket.errorOf(choice) <= budget) fewest = std::min(fewest, bucket.bytesOf(choice));
    });
    const PrecisionChoice choice = fewestBytes(bucket.problem());
    expectConsistent(bucket, choice);
    EXPECT_EQ(choice.nBytes, fewest);
    EXPECT_LE(choice.error, budget * (1 + 1e-12));
    EXPECT_EQ(choice.gap, 0);
    EXPECT_LE(fewestBytes(bucket.problem(), budget * (1 + 1e-9)).nBytes, fewest);
  }
}

TEST(Precision, LeastErrorIsOptimal) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 40; ++round) {
    const PlannedBucket bucket = randomBucket(random, 1 + random() % 5, 2);
    const uint64_t budget = bucket.bytesOf(bucket.uniform()) * (round % 2 ? 3 : 6) / 5;
    double least = kInfinity;
    forEachChoice(bucket.segments.size(), [&](const std::vector<uint8_t>& choice) {
      if (bucket.bytesOf(choice) <= budget) least = std::min(least, bucket.errorOf(choice));
    });
    const PrecisionChoice choice = leastError(bucket.problem(), budget);
    expectConsistent(bucket, choice);
    EXPECT_LE(choice.nBytes, budget);
    EXPECT_NEAR(choice.error, least, 1e-9 * least);
    EXPECT_EQ(choice.gap, 0);
  }
}

TEST(Precision, ManySegments) {
  std::mt19937_64 random(3);
  for (size_t nSegments : {500u, kMaxSegments}) {
    const PlannedBucket bucket = randomBucket(random, nSegments, 1.5);
    const double budget = bucket.errorOf(bucket.uniform());
    const uint64_t nBytes = bucket.bytesOf(bucket.uniform());
    const PrecisionChoice fewest = fewestBytes(bucket.problem());
    expectConsistent(bucket, fewest);
    EXPECT_LE(fewest.error, budget * (1 + 1e-9));
    EXPECT_LT(fewest.nBytes, nBytes * 9 / 10);
    EXPECT_LE(fewest.gap, 1e-4 * static_cast<double>(nBytes));
    const PrecisionChoice least = leastError(bucket.problem(), nBytes);
    EXPECT_LE(least.nBytes, nBytes);
    EXPECT_LT(least.error, 0.8 * budget);
    EXPECT_LE(least.gap, 1e-3 * budget);
  }
}

TEST(Precision, TheSameProblemHasTheSameChoice) {
  std::mt19937_64 random(4);
  const PlannedBucket bucket = randomBucket(random, 300, 1);
  const PlannedBucket copy = bucket;
  EXPECT_EQ(fewestBytes(bucket.problem()).candidates, fewestBytes(copy.problem()).candidates);
  EXPECT_EQ(leastError(bucket.problem(), 1 << 20).candidates,
            leastError(copy.problem(), 1 << 20).candidates);
}

// A power of two changes no digit of an error, and so no choice.
TEST(Precision, ScaleDoesNotMatter) {
  std::mt19937_64 random(5);
  const PlannedBucket bucket = randomBucket(random, 100, 2);
  const auto expected = fewestBytes(bucket.problem()).candidates;
  for (int exponent : {-800, -20, 20, 900}) {
    PlannedBucket scaled = bucket;
    for (double& error : scaled.errors) error = std::ldexp(error, exponent);
    EXPECT_EQ(fewestBytes(scaled.problem()).candidates, expected) << exponent;
  }
}

TEST(Precision, KeptRawIsRawAndItsErrorIsNoBudgetForOthers) {
  PlannedBucket bucket;
  bucket.add(10, 1e-3);
  bucket.add(10, 1e3, true);
  const PrecisionChoice choice = fewestBytes(bucket.problem());
  EXPECT_EQ(choice.candidates, (std::vector<uint8_t>{kQ4, kBf16}));
  EXPECT_EQ(choice.nBytes, bucket.bytesOf(choice.candidates));
  EXPECT_EQ(choice.error, bucket.error(0, kQ4));
}

TEST(Precision, WithoutAUsableErrorASegmentHasTheStandard) {
  for (double bad : {kNan, kInfinity, -kInfinity, -1.0, 1e300}) {
    PlannedBucket bucket;
    for (int i = 0; i < 4; ++i) bucket.add(10, 1e-3);
    const auto without = fewestBytes(bucket.problem(), 4e-4).candidates;
    bucket.add(10, 1e-3);
    for (size_t k = 0; k < kCandidates.size(); ++k) bucket.error(4, k) = bad;
    for (const PrecisionChoice& choice :
         {fewestBytes(bucket.problem()), fewestBytes(bucket.problem(), 4e-4),
          leastError(bucket.problem(), 10 * 5 * kCandidates[kQ4].tileBytes())}) {
      EXPECT_EQ(choice.candidates[4], kQ4) << bad;
      EXPECT_TRUE(std::isfinite(choice.error)) << bad;
      EXPECT_TRUE(choice.isWithin) << bad;
    }
    auto with = fewestBytes(bucket.problem(), 4e-4).candidates;
    with.pop_back();
    EXPECT_EQ(with, without) << bad;
  }
}

TEST(Precision, ACandidateWithoutAUsableErrorIsNotChosen) {
  for (double bad : {kNan, kInfinity, -1.0}) {
    PlannedBucket bucket;
    bucket.add(10, 1e-9);
    bucket.add(10, 1.0);
    bucket.error(0, 0) = bad;
    EXPECT_EQ(fewestBytes(bucket.problem(), 1.0).candidates[0], 1) << bad;
  }
}

TEST(Precision, NoErrorAnywhereTakesTheFewestBytes) {
  PlannedBucket bucket;
  for (int i = 0; i < 5; ++i) bucket.add(10, 0.0);
  EXPECT_EQ(fewestBytes(bucket.problem()).candidates, std::vector<uint8_t>(5, 0));
  EXPECT_EQ(fewestBytes(bucket.problem(), 0.0).candidates, std::vector<uint8_t>(5, 0));
  const PrecisionChoice choice = leastError(bucket.problem(), 1 << 20);
  EXPECT_EQ(choice.error, 0.0);
}

// However small, an error is not none.
TEST(Precision, ABudgetOfZeroBuysNoError) {
  PlannedBucket bucket;
  bucket.add(10, 1e-300);
  bucket.error(0, kBf16) = 0;
  EXPECT_EQ(fewestBytes(bucket.problem(), 0.0).candidates[0], kBf16);
}

TEST(Precision, ABudgetThatCannotBeMetIsMetAsFarAsPossible) {
  PlannedBucket bucket;
  for (int i = 0; i < 5; ++i) bucket.add(10, 1.0);
  for (double budget : {1e-9, 0.0, -1.0, kNan}) {
    const PrecisionChoice choice = fewestBytes(bucket.problem(), budget);
    EXPECT_FALSE(choice.isWithin);
    EXPECT_EQ(choice.candidates, std::vector<uint8_t>(5, kBf16));
  }
  const PrecisionChoice choice = leastError(bucket.problem(), 100);
  EXPECT_FALSE(choice.isWithin);
  EXPECT_EQ(choice.candidates, std::vector<uint8_t>(5, 0));
}

TEST(Precision, ABudgetWithoutEndBuysEverything) {
  PlannedBucket bucket;
  for (int i = 0; i < 5; ++i) bucket.add(10, 1.0);
  EXPECT_EQ(fewestBytes(bucket.problem(), kInfinity).candidates, std::vector<uint8_t>(5, 0));
  EXPECT_EQ(leastError(bucket.problem(), UINT64_MAX).candidates, std::vector<uint8_t>(5, kBf16));
}

}  // namespace
}  // namespace cinch
