#include "kernels/core/feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/kernels/data_sets.h"

namespace cinch::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();

TEST(Feedback, AddsAShareOfTheResidual) {
  EXPECT_EQ((FeedbackRule{0.5f}.compensate(3.0f, 4.0f)), 5.0f);
  EXPECT_EQ((FeedbackRule{0.0f}.compensate(3.0f, 4.0f)), 3.0f);
  EXPECT_EQ((FeedbackRule{1.0f}.compensate(3.0f, -4.0f)), -1.0f);
}

TEST(Feedback, KeepsWhatCodingLeftOut) {
  EXPECT_EQ((FeedbackRule{0.1f}.next(1.0f, 3.0f, 2.5f)), 1.5f);
  EXPECT_EQ((FeedbackRule{0.1f, 0.5f}.next(1.0f, 3.0f, 2.5f)), 1.0f);
  EXPECT_EQ((FeedbackRule{0.1f, 0.0f}.next(1.0f, 3.0f, 2.5f)), 0.5f);
}

TEST(Feedback, ResidualsStayFinite) {
  constexpr FeedbackRule kRule{1.0f};
  EXPECT_EQ(kRule.next(kLargest, kLargest, 0.0f), 0.0f);
  EXPECT_EQ(kRule.next(0.0f, kNan, 0.0f), 0.0f);
  EXPECT_EQ(kRule.next(0.0f, 1.0f, -kInfinity), 0.0f);
  EXPECT_EQ(kRule.next(0.0f, kInfinity, kInfinity), 0.0f);
}

// However coarsely values are coded, what was put in is what came out and what is kept.
TEST(Feedback, NothingIsDroppedWithoutDecay) {
  constexpr FeedbackRule kRule{0.1f};
  double put = 0, taken = 0;
  float residual = 0;
  for (float value : test::gaussian(10000, 1)) {
    const float decoded = std::round(kRule.compensate(value, residual));
    residual = kRule.next(residual, value, decoded);
    put += value;
    taken += decoded;
  }
  EXPECT_NEAR(put, taken + residual, 1e-2);
  EXPECT_GT(std::abs(put), 1.0);
}

// Gain and decay b: the residual is what coding did to p, times b from step to step.
TEST(Feedback, DecayForgets) {
  constexpr FeedbackRule kRule{0.5f, 0.5f};
  float residual = 8.0f;
  for (int step = 0; step < 10; ++step) residual = kRule.next(residual, 1.0f, 1.0f);
  EXPECT_EQ(residual, 8.0f / 1024);
}

}  // namespace
}  // namespace cinch::core
