#include "kernels/codec/float8.h"

#include "tests/unit/kernels/codec/block_run.h"

namespace cinch::codec {
namespace {

using test::BlockRun;

TEST(Float8, LargestMagnitudeIsTheLargestCode) {
  for (float largest : {448.0f, 7e-20f, 3e20f, 1.0f}) {
    const BlockRun<Float8Codec> run({largest / 3, -largest, 0.0f});
    EXPECT_EQ(run.code(1), 0xfeu);
    EXPECT_EQ(run.code(2), 0u);
    EXPECT_NEAR(run.decoded[1] / largest, -1, 1.0 / 256);
    EXPECT_NEAR(run.decoded[0] / largest, 1.0 / 3, 1.0 / 3 / 14);
  }
}

// Half a last place of 4 significant bits, or of the subnormal numbers below 2^-6 of the unit.
TEST(Float8, ErrorIsBounded) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const std::vector<float> values =
        test::studentT3(128, seed, std::ldexp(1.0f, static_cast<int>(seed % 180) - 90));
    const BlockRun<Float8Codec> run(values);
    const float unit = run.scale().unit;
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_LE(std::abs(values[i] - run.decoded[i]),
                std::max(std::abs(values[i]) / 16, unit * 0x1p-10f) * 1.00001f)
          << seed;
  }
}

TEST(Float8, NothingOverflows) {
  const BlockRun<Float8Codec> run({test::kLargest, -test::kLargest, 1.0f});
  for (float decoded : run.decoded) EXPECT_TRUE(std::isfinite(decoded));
}

}  // namespace
}  // namespace cinch::codec
