#include "interpose/policy/layers/layer_claims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace cinch {
namespace {

using Counts = std::vector<uint64_t>;
using Buckets = std::vector<BucketLayout>;

const BucketLayout kOne{{30, 2}, {10, 1}}, kTwo{{20, 2}}, kThree{{5, 1}, {15, 2}};

TEST(LayerClaims, WhatNobodyDisputesStands) {
  LayerClaims claims(Counts{40, 20, 7});
  claims.make(0, {kOne, kTwo});
  claims.make(1, {kTwo});
  EXPECT_EQ(claims.undisputed(), (Buckets{kOne, kTwo, {}}));
}

TEST(LayerClaims, OneDisputeIsEnough) {
  LayerClaims claims(Counts{40, 20, 20});
  claims.make(0, {kOne, kTwo});
  claims.make(2, {kTwo, kOne, kThree});
  claims.make(1, {kTwo});
  EXPECT_EQ(claims.undisputed(), (Buckets{kOne, {}, kTwo}));
}

TEST(LayerClaims, CallsGoRoundAndRound) {
  LayerClaims claims(Counts{1, 2, 3});
  EXPECT_TRUE(std::ranges::equal(claims.from(2), Counts{3, 1, 2}));
  claims.make(2, {kTwo, kOne});
  EXPECT_EQ(claims.undisputed(), (Buckets{kOne, {}, kTwo}));
}

TEST(PlaceBuckets, FindsThemFromAnyCallOnAndAmongOthers) {
  const Buckets model{kOne, kTwo, kThree};
  Counts period{40, 20, 20, 1};
  Buckets expected{kOne, kTwo, kThree, {}};
  for (size_t i = 0; i < period.size(); ++i) {
    EXPECT_EQ(placeBuckets(model, period), expected) << i;
    std::rotate(period.begin(), period.begin() + 1, period.end());
    std::rotate(expected.begin(), expected.begin() + 1, expected.end());
  }
}

TEST(PlaceBuckets, MicroBatchesReduceTheSameBucketsAgain) {
  const Buckets expected{kOne, kTwo, kOne, kTwo};
  EXPECT_EQ(placeBuckets(Buckets{kOne, kTwo}, Counts{40, 20, 40, 20}), expected);
}

TEST(PlaceBuckets, WhereTheyFitInTwoWaysNothingIsKnown) {
  EXPECT_EQ(placeBuckets(Buckets{kTwo, kThree}, Counts{20, 20}), Buckets(2));
}

TEST(PlaceBuckets, OtherCallsHaveNone) {
  const Buckets model{kOne, kTwo, kThree};
  for (const Counts& period : {Counts{}, Counts{40}, Counts{40, 20}, Counts{40, 20, 21},
                               Counts{40, 1, 20, 20}, Counts{20, 40, 20, 1}})
    EXPECT_EQ(placeBuckets(model, period), Buckets(period.size()));
  EXPECT_EQ(placeBuckets({}, Counts{40, 20}), Buckets(2));
}

}  // namespace
}  // namespace cinch
