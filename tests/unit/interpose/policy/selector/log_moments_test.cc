#include "interpose/policy/selector/log_moments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace cinch {
namespace {

TEST(LogMoments, LogarithmsAreRight) {
  std::mt19937_64 random(std::random_device{}());
  for (int i = 0; i < 10000; ++i) {
    const uint64_t value = std::max<uint64_t>(random() >> (random() % 64), 1);
    const double log = std::log2(static_cast<double>(value)) * kOctave;
    ASSERT_NEAR(static_cast<double>(logOf(value)), log, 1.01) << value;
    if (value < 1 << 12 || value >> 63 != 0) continue;
    ASSERT_NEAR(static_cast<double>(valueOf(logOf(value))) / static_cast<double>(value), 1, 0.001)
        << value;
  }
  EXPECT_EQ(logOf(1), 0);
  EXPECT_EQ(logOf(uint64_t{1} << 40), 40 * kOctave);
  EXPECT_EQ(valueOf(-5), 1u);
}

TEST(LogMoments, SayWhatDoublesSay) {
  std::mt19937_64 random(std::random_device{}());
  for (int run = 0; run < 1000; ++run) {
    std::normal_distribution<> draw(static_cast<double>(random() % 20000) - 10000, 30000);
    const int n = 4 + static_cast<int>(random() % 300);
    LogMoments moments;
    double sum = 0, squares = 0;
    for (int i = 0; i < n; ++i) {
      const auto log = static_cast<int64_t>(draw(random));
      moments.add(log);
      sum += static_cast<double>(log);
      squares += static_cast<double>(log) * static_cast<double>(log);
    }
    const double mean = sum / n, variance = (squares - sum * mean) / (n - 1);
    EXPECT_NEAR(static_cast<double>(moments.mean()), mean, 1);
    EXPECT_NEAR(static_cast<double>(moments.spread()), std::sqrt(variance), 1.5);
    const double errors = std::abs(mean) / std::sqrt(variance / n * (n - 1) / (n - 3));
    for (const int half : {2, 5}) {
      if (std::abs(errors - half / 2.0) < 0.001) continue;
      EXPECT_EQ(moments.isBeyond(half), errors > half / 2.0) << errors;
    }
  }
}

TEST(LogMoments, FadingMovesNoMean) {
  LogMoments moments;
  for (int i = 0; i < 257; ++i) moments.add(27 * kOctave + (i % 3) * 1000);
  const int64_t mean = moments.mean(), spread = moments.spread();
  moments.fade();
  EXPECT_EQ(moments.count(), 128);
  EXPECT_NEAR(static_cast<double>(moments.mean()), static_cast<double>(mean), 20);
  EXPECT_NEAR(static_cast<double>(moments.spread()), static_cast<double>(spread), 20);
}

TEST(LogMoments, FewSayNothing) {
  LogMoments moments;
  for (int i = 0; i < 3; ++i, moments.add(kOctave)) EXPECT_FALSE(moments.isBeyond(1));
}

}  // namespace
}  // namespace cinch
