#include "kernels/core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace cinch::core {
namespace {

void expectWords(const Random128& found, const Random128& expected) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(found.word[i], expected.word[i]) << i;
}

// The published answers for Philox4x32-7.
TEST(Philox, KnownAnswers) {
  expectWords(philox({{0, 0, 0, 0}}, 0), {{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}});
  expectWords(philox({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, ~uint64_t{0}),
              {{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}});
  expectWords(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822),
              {{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}});
}

TEST(Dither, SpansOneCodeWithoutItsEnds) {
  EXPECT_EQ(ditherOf({{0, 0, 0, 0}}, 0), -0.5f + 0x1p-17f);
  EXPECT_EQ(ditherOf({{0xffff, 0, 0, 0}}, 0), 0.5f - 0x1p-17f);
  EXPECT_EQ(ditherOf({{0x7fff, 0, 0, 0}}, 0), -ditherOf({{0x8000, 0, 0, 0}}, 0));
}

TEST(Dither, EachValueHasItsOwnBits) {
  for (uint32_t index = 0; index < 8; ++index) {
    Random128 random{};
    random.word[index / 2] = index % 2 ? 0xffff0000 : 0xffff;
    for (uint32_t other = 0; other < 8; ++other)
      EXPECT_EQ(ditherOf(random, other) > 0, other == index) << index << " " << other;
  }
}

// All that a dither is keyed by changes it.
TEST(Dither, StreamsDiffer) {
  std::set<uint32_t> firstWords;
  size_t nStreams = 0;
  const DitherKey usual{77, 3, 0, 9, 5};
  for (const DitherKey& key :
       {usual, DitherKey{78, 3, 0, 9, 5}, DitherKey{77, 4, 0, 9, 5}, DitherKey{77, 3, 1, 9, 5},
        DitherKey{77, 3, 0, 10, 5}, DitherKey{77, 3, 0, 9, 6},
        DitherKey{uint64_t{77} << 32, 3, 0, 9, 5}})
    for (uint32_t octet : {0u, 1u, 0xffffffffu}) {
      firstWords.insert(key.ofOctet(octet).word[0]);
      ++nStreams;
    }
  EXPECT_EQ(firstWords.size(), nStreams);
}

// Mean 0, variance 1/12, and no memory from one value to the next.
TEST(Dither, IsUniform) {
  constexpr uint32_t kOctets = 50000;
  const DitherKey key{1, 2, 0, 3, 4};
  double sum = 0, squares = 0, products = 0, last = 0;
  for (uint32_t octet = 0; octet < kOctets; ++octet)
    for (uint32_t i = 0; i < 8; ++i) {
      const double dither = ditherOf(key.ofOctet(octet), i);
      ASSERT_LT(std::abs(dither), 0.5);
      sum += dither;
      squares += dither * dither;
      products += dither * last;
      last = dither;
    }
  constexpr double n = 8.0 * kOctets;
  EXPECT_LT(std::abs(sum / n), 4 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 12, 4 * std::sqrt(1.0 / 180 / n));
  EXPECT_LT(std::abs(products / n), 4 * (1.0 / 12) / std::sqrt(n));
}

}  // namespace
}  // namespace cinch::core
