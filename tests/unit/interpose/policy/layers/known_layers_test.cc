#include "interpose/policy/layers/known_layers.h"

#include <gtest/gtest.h>

#include "interpose/policy/layers/layer_claims.h"

namespace cinch {
namespace {

using Buckets = std::vector<BucketLayout>;
using Calls = std::vector<GradientCall>;

const BucketLayout kFirst{{30, 2}, {10, 1}}, kSecond{{20, 2}}, kThird{{5, 1}, {15, 2}},
    kSmall{{3, 1}};

GradientCall large(uint64_t count, uint32_t slot) {
  return {ncclFloat32, count, slot};
}
GradientCall small(uint64_t count) {
  return {ncclFloat32, count, {}};
}

LayersOfCalls model(const Buckets& buckets) {
  return [buckets](std::span<const uint64_t> counts) { return placeBuckets(buckets, counts); };
}

TEST(KnownLayers, ASmallCallMayBeABucket) {
  const Calls period{large(40, 0), large(20, 1), small(3)};
  const Buckets buckets{kFirst, kSecond, kSmall};
  EXPECT_EQ(layersOfPeriod(period, model(buckets)), buckets);
}

TEST(KnownLayers, OrStandBetweenBuckets) {
  const Calls period{large(40, 0), small(1), small(3), large(20, 1), small(1)};
  const Buckets expected{kFirst, {}, {}, kSecond, {}};
  EXPECT_EQ(layersOfPeriod(period, model({kFirst, kSecond})), expected);
}

TEST(KnownLayers, NoCallsHaveNone) {
  EXPECT_EQ(layersOfPeriod(Calls(), model({kFirst})), Buckets());
}

TEST(KnownLayers, ASlotHasThoseOfItsFirstCall) {
  const Calls period{small(3), large(20, 1), large(20, 0), large(20, 1)};
  const Buckets layers{kSmall, kSecond, {}, kThird};
  EXPECT_EQ(layersOfSlot(period, layers, 1), kSecond);
  EXPECT_EQ(layersOfSlot(period, layers, 0), BucketLayout());
  EXPECT_EQ(layersOfSlot(period, layers, 7), BucketLayout());
}

TEST(KnownLayers, ACountThatOneBucketHasIsEnough) {
  const Calls calls{small(40), small(20), small(40), small(20), small(40)};
  const Buckets layers{kFirst, kSecond, kFirst, kSecond, {}};
  EXPECT_EQ(layersOfCount(calls, layers, 40), kFirst) << "the last step is not complete";
  EXPECT_EQ(layersOfCount(calls, layers, 20), kSecond);
  EXPECT_EQ(layersOfCount(calls, layers, 3), BucketLayout());
}

TEST(KnownLayers, OneThatSeveralHaveIsNot) {
  const Calls calls{small(40), small(20), small(20)};
  EXPECT_EQ(layersOfCount(calls, Buckets{kFirst, kSecond, kThird}, 20), BucketLayout());
  EXPECT_EQ(layersOfCount(calls, Buckets{kFirst, kSecond, kSecond}, 20), kSecond);
}

TEST(KnownLayers, NorOneThatOtherCallsHaveToo) {
  const Calls calls{small(20), small(40), small(20)};
  EXPECT_EQ(layersOfCount(calls, Buckets{{}, kFirst, kSecond}, 20), BucketLayout());
  EXPECT_EQ(layersOfCount(calls, Buckets{{}, kFirst, kSecond}, 40), kFirst);
}

}  // namespace
}  // namespace cinch
