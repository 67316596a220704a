#include "kernels/codec/mxfp4.h"

#include "tests/unit/kernels/codec/block_run.h"

namespace cinch::codec {
namespace {

using test::BlockRun;

TEST(Mxfp4, KnownGroup) {
  // The largest magnitude, 6, is in [4, 8): the shared power is 1, which e8m0 stores as 127.
  const BlockRun<Mxfp4Codec> run({0.0f, 0.5f, 1.0f, -1.5f, 2.0f, -3.0f, 4.0f, 6.0f});
  EXPECT_EQ(run.meta, (std::vector<uint8_t>{127, 0, 0, 0}));
  EXPECT_EQ(run.codes[0], 0x10);
  EXPECT_EQ(run.codes[1], 0xb2);
  EXPECT_EQ(run.codes[2], 0xd4);
  EXPECT_EQ(run.codes[3], 0x76);
  EXPECT_EQ(run.decoded[3], -1.5f);
}

TEST(Mxfp4, GroupsHavePowersOfTheirOwn) {
  std::vector<float> values(128);
  for (size_t i = 0; i < 128; ++i) values[i] = std::ldexp(1.0f, static_cast<int>(i / 32) * 20 - 40);
  const BlockRun<Mxfp4Codec> run(values);
  EXPECT_EQ(run.meta, (std::vector<uint8_t>{85, 105, 125, 145}));
  EXPECT_EQ(run.decoded, values);
}

// What is not finite marks its group only.
TEST(Mxfp4, MarksAreOfGroups) {
  std::vector<float> values(128, 1.0f);
  values[70] = test::kInfinity;
  const BlockRun<Mxfp4Codec> run(values);
  EXPECT_EQ(run.meta, (std::vector<uint8_t>{125, 125, 0xff, 125}));
  for (size_t i = 0; i < 128; ++i) ASSERT_EQ(std::isnan(run.decoded[i]), i / 32 == 2) << i;
}

TEST(Mxfp4, ErrorIsBounded) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const std::vector<float> values =
        test::gaussian(128, seed, std::ldexp(1.0f, static_cast<int>(seed % 250) - 125));
    const BlockRun<Mxfp4Codec> run(values);
    for (size_t i = 0; i < values.size(); ++i) {
      const float unit = run.scale(i).unit;
      // Between 4 and 6 levels are 2 apart; up to 8 saturates at 6.
      ASSERT_LE(std::abs(values[i] - run.decoded[i]),
                unit * (std::abs(values[i]) > 6 * unit    ? 2.0f
                        : std::abs(values[i]) >= 4 * unit ? 1.0f
                        : std::abs(values[i]) >= 2 * unit ? 0.5f
                                                          : 0.25f))
          << seed;
    }
  }
}

TEST(Mxfp4, ExtremesStayFinite) {
  const BlockRun<Mxfp4Codec> huge({test::kLargest, -test::kLargest});
  EXPECT_EQ(huge.meta[0], 252);
  EXPECT_EQ(huge.decoded[0], 6 * 0x1p125f);
  const BlockRun<Mxfp4Codec> tiny({test::kSmallest, -0x1p-126f});
  EXPECT_EQ(tiny.meta[0], 0);
  EXPECT_EQ(tiny.decoded[1], -0x1p-126f);
}

}  // namespace
}  // namespace cinch::codec
