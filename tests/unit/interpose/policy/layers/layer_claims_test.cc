#include "interpose/policy/layers/layer_claims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace cinch {
namespace {

using Counts = std::vector<uint64_t>;
using Buckets = std::vector<BucketLayout>;

const BucketLayout kFirst{{30, 2}, {10, 1}}, kSecond{{20, 2}}, kThird{{5, 1}, {15, 2}};

TEST(LayerClaims, WhatNobodyDisputesStands) {
  LayerClaims claims(Counts{40, 20, 7});
  claims.make(0, {kFirst, kSecond});
  claims.make(1, {kSecond});
  EXPECT_EQ(claims.undisputed(), (Buckets{kFirst, kSecond, {}}));
}

TEST(LayerClaims, OneDisputeIsEnough) {
  LayerClaims claims(Counts{40, 20, 20});
  claims.make(0, {kFirst, kSecond});
  claims.make(2, {kSecond, kFirst, kThird});
  claims.make(1, {kSecond});
  EXPECT_EQ(claims.undisputed(), (Buckets{kFirst, {}, kSecond}));
}

TEST(LayerClaims, CallsGoRoundAndRound) {
  LayerClaims claims(Counts{1, 2, 3});
  EXPECT_TRUE(std::ranges::equal(claims.from(2), Counts{3, 1, 2}));
  claims.make(2, {kSecond, kFirst});
  EXPECT_EQ(claims.undisputed(), (Buckets{kFirst, {}, kSecond}));
}

TEST(PlaceBuckets, FindsThemFromAnyCallOnAndAmongOthers) {
  const Buckets model{kFirst, kSecond, kThird};
  Counts period{40, 20, 20, 1};
  Buckets expected{kFirst, kSecond, kThird, {}};
  for (size_t i = 0; i < period.size(); ++i) {
    EXPECT_EQ(placeBuckets(model, period), expected) << i;
    std::rotate(period.begin(), period.begin() + 1, period.end());
    std::rotate(expected.begin(), expected.begin() + 1, expected.end());
  }
}

TEST(PlaceBuckets, MicroBatchesReduceTheSameBucketsAgain) {
  const Buckets expected{kFirst, kSecond, kFirst, kSecond};
  EXPECT_EQ(placeBuckets(Buckets{kFirst, kSecond}, Counts{40, 20, 40, 20}), expected);
}

TEST(PlaceBuckets, WhereTheyFitInTwoWaysNothingIsKnown) {
  EXPECT_EQ(placeBuckets(Buckets{kSecond, kThird}, Counts{20, 20}), Buckets(2));
}

TEST(PlaceBuckets, OtherCallsHaveNone) {
  const Buckets model{kFirst, kSecond, kThird};
  for (const Counts& period : {Counts{}, Counts{40}, Counts{40, 20}, Counts{40, 20, 21},
                               Counts{40, 1, 20, 20}, Counts{20, 40, 20, 1}})
    EXPECT_EQ(placeBuckets(model, period), Buckets(period.size()));
  EXPECT_EQ(placeBuckets({}, Counts{40, 20}), Buckets(2));
}

}  // namespace
}  // namespace cinch
