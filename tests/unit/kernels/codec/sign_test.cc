#include "kernels/codec/sign.h"

#include "tests/unit/kernels/codec/block_run.h"

namespace cinch::codec {
namespace {

using test::BlockRun;

TEST(Sign, DecodesToTheMeanMagnitude) {
  const BlockRun<SignCodec> run({1.0f, -2.0f, 3.0f, -6.0f});
  EXPECT_EQ(run.decoded, (std::vector<float>{3.0f, -3.0f, 3.0f, -3.0f}));
  EXPECT_EQ(run.codes[0], 0b0101);
}

TEST(Sign, ZerosArePositive) {
  const BlockRun<SignCodec> run({0.0f, -0.0f, -4.0f, 4.0f});
  EXPECT_EQ(run.decoded, (std::vector<float>{2.0f, 2.0f, -2.0f, 2.0f}));
}

TEST(Sign, MeanIsOverTheValuesThatExist) {
  for (uint32_t n = 1; n <= wire::kBlockElems; ++n) {
    const std::vector<float> values = test::laplace(n, n);
    double sum = 0;
    for (float value : values) sum += static_cast<double>(std::abs(value));
    const BlockRun<SignCodec> run(values);
    EXPECT_NEAR(run.scale().mean, sum / n, sum / n / 256) << n;
    for (uint32_t i = 0; i < n; ++i)
      ASSERT_EQ(std::signbit(run.decoded[i]), std::signbit(values[i])) << n;
  }
}

// The sum is one of octets at distance 4, 2, 1, then across octets: 2^24 + 1 is lost in another.
TEST(Sign, SumsInTheFixedTree) {
  std::vector<float> values(16, 0.0f);
  values[0] = 0x1p24f;
  values[1] = 1.0f;  // joins value 0 last of its octet
  values[5] = 1.0f;  // joins value 1 first, and makes 2
  const BlockRun<SignCodec> run(values);
  EXPECT_EQ(run.meta[0] | run.meta[1] << 8, Bf16::fromFloat((0x1p24f + 2) / 16));
  const MagnitudeSum a{0x1p24f}, b{1.0f};
  EXPECT_EQ(a.mergedWith(b).mergedWith(b).sum, 0x1p24f);
  EXPECT_EQ(a.mergedWith(b.mergedWith(b)).sum, 0x1p24f + 2);
}

TEST(Sign, SumsThatOverflowAreMarked) {
  const BlockRun<SignCodec> run(std::vector<float>(128, test::kLargest));
  for (float decoded : run.decoded) EXPECT_TRUE(std::isnan(decoded));
  const BlockRun<SignCodec> coded(std::vector<float>(128, 0x1p120f));
  for (float decoded : coded.decoded) EXPECT_EQ(decoded, 0x1p120f);
}

}  // namespace
}  // namespace cinch::codec
