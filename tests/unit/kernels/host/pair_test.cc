// Encode and reduce of two codes put together: what an AllReduce of two virtual ranks that exchange
// whole buckets promises.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/kernels/data_sets.h"
#include "tests/unit/kernels/virtual_ranks.h"

namespace cinch::test {
namespace {

constexpr uint64_t kCounts[] = {1, 127, 1024, 1025, 9000};

class PairTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    codec_ = host::findHostCodec(GetParam());
    if (!codec_) GTEST_SKIP() << "this CPU cannot run the " << GetParam() << " codec";
  }

  VirtualRanks ran(const Collective& settings, uint32_t seed) const {
    VirtualRanks ranks(settings, *codec_);
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      ranks.setInput(rank, gaussian(settings.count, 10 * seed + static_cast<uint32_t>(rank)));
    ranks.runPair();
    return ranks;
  }

  // |found - sum|^2 / |sum|^2.
  static double nmse(const Collective& settings, VirtualRanks& ranks) {
    Collective copy = settings;
    double error = 0, power = 0;
    const auto first = gaussian(copy.count, 10), second = gaussian(copy.count, 11);
    const std::vector<float> found = ranks.outputOf(0);
    for (size_t i = 0; i < found.size(); ++i) {
      const double exact = static_cast<double>(first[i]) + static_cast<double>(second[i]);
      error += std::pow(static_cast<double>(found[i]) - exact, 2);
      power += exact * exact;
    }
    return error / power;
  }

  const host::HostCodec* codec_ = nullptr;
};

TEST_P(PairTest, BothRanksEndWithTheSameBytes) {
  uint32_t seed = 0;
  for (uint64_t count : kCounts)
    for (const auto& info : codec::kCodecs)
      for (ElementType type : kTypes) {
        const Collective settings{.count = count,
                                  .nRanks = 2,
                                  .codec = info.format,
                                  .type = type,
                                  .feedback = seed % 2 == 0,
                                  .inputFactor = {.value = seed % 3 ? 1.0f : -0.3f},
                                  .factor = seed % 5 ? 1.0f : 0.5f,
                                  .inPlace = seed % 7 == 0,
                                  .nChunks = 1 + seed % 3,
                                  .isPair = true};
        SCOPED_TRACE(testing::Message() << count << " x " << nameOf(type) << ", " << info.name);
        VirtualRanks ranks = ran(settings, ++seed);
        EXPECT_EQ(ranks[0].output, ranks[1].output);
        for (size_t rank = 0; rank < 2; ++rank) {
          EXPECT_EQ(ranks[rank].fault, 0u);
          EXPECT_EQ(ranks[rank].state.ordinal, 2u) << "the call has ended once";
        }
      }
}

// Of two quantisations of independent values, neither is of the sum: less than the 3 / 2 of a
// scatter and gather, which codes one of the two and then the sum.
TEST_P(PairTest, TheErrorIsThatOfCodingEachRankOnce) {
  Collective settings{.count = 1 << 16, .nRanks = 2, .codec = codec::formatOf("q4")};
  VirtualRanks shards(settings, *codec_);
  for (uint32_t rank = 0; rank < 2; ++rank)
    shards.setInput(rank, gaussian(settings.count, 10 + rank));
  shards.run();
  settings.isPair = true;
  VirtualRanks pair = ran(settings, 1);
  EXPECT_NEAR(nmse(settings, pair) / nmse(settings, shards), 2.0 / 3, 0.05);
}

// Low-gain feedback: what is left out comes later, so that the mean over calls is better than one.
TEST_P(PairTest, FeedbackMakesUpForWhatWasLeftOut) {
  const Collective settings{.count = 4096,
                            .nRanks = 2,
                            .codec = codec::formatOf("q2"),
                            .feedback = true,
                            .rule = {.gain = 1.0f},
                            .isPair = true};
  VirtualRanks ranks(settings, *codec_);
  constexpr int kCalls = 32;
  std::vector<double> mean(settings.count);
  double single = 0;
  const auto first = gaussian(settings.count, 1), second = gaussian(settings.count, 2);
  const auto errorOf = [&](const auto& found) {
    double error = 0;
    for (size_t i = 0; i < settings.count; ++i)
      error += std::pow(static_cast<double>(found[i]) - static_cast<double>(first[i]) -
                            static_cast<double>(second[i]),
                        2);
    return error;
  };
  for (int call = 0; call < kCalls; ++call) {
    ranks.setInput(0, first);
    ranks.setInput(1, second);
    ranks.runPair();
    const std::vector<float> found = ranks.outputOf(1);
    if (call == 0) single = errorOf(found);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(found[i]) / kCalls;
  }
  EXPECT_LT(errorOf(mean), single / 100);
}

TEST_P(PairTest, WhatIsNotFiniteIsSeenByBothRanksAndLeavesNoResidual) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")})
    for (uint32_t nChunks : {1u, 3u}) {
      const Collective settings{
          .count = 9000, .nRanks = 2, .feedback = true, .nChunks = nChunks, .isPair = true};
      VirtualRanks ranks(settings, *codec_);
      std::vector<float> values = gaussian(settings.count, 1);
      values[4321] = bad;
      ranks.setInput(0, values);
      ranks.setInput(1, gaussian(settings.count, 2));
      ranks.runPair();
      EXPECT_EQ(ranks[0].output, ranks[1].output);
      EXPECT_TRUE(std::isnan(ranks.outputOf(1)[4321]));
      for (size_t rank = 0; rank < 2; ++rank)
        EXPECT_EQ(ranks[rank].state.poisonOrdinal, ranks[rank].state.ordinal);
    }
}

// The ordinal of one rank is another call's.
TEST_P(PairTest, BytesOfAnotherCallAreRefused) {
  const Collective settings{.count = 3000, .nRanks = 2, .isPair = true};
  VirtualRanks ranks(settings, *codec_);
  ranks[1].state.ordinal = 7;
  ranks.runPair();
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks[rank].fault, kFaultOrdinal);
    for (float value : ranks.outputOf(rank)) EXPECT_TRUE(std::isnan(value));
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, PairTest,
                         testing::Values("reference", "baseline", "avx2", "avx512"));

}  // namespace
}  // namespace cinch::test
