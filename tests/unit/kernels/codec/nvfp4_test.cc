#include "kernels/codec/nvfp4.h"

#include <cstring>

#include "tests/unit/kernels/codec/block_run.h"

namespace cinch::codec {
namespace {

using test::BlockRun;

float blockUnitOf(const BlockRun<Nvfp4Codec>& run) {
  float unit;
  std::memcpy(&unit, run.meta.data(), sizeof unit);
  return unit;
}

TEST(Nvfp4, KnownBlock) {
  std::vector<float> values(128, 0.0f);
  values[0] = -2688.0f;  // 448 * 6
  values[16] = 6.0f;
  values[17] = 1.5f;
  const BlockRun<Nvfp4Codec> run(values);
  EXPECT_EQ(blockUnitOf(run), 1.0f);
  EXPECT_EQ(run.meta[4], 0x7e);  // 448
  EXPECT_EQ(run.meta[5], 0x38);  // 1
  for (size_t group = 2; group < 8; ++group) EXPECT_EQ(run.meta[4 + group], 0);
  EXPECT_EQ(run.code(0), 0xfu);
  EXPECT_EQ(run.code(16), 0x7u);
  EXPECT_EQ(run.code(17), 0x3u);
  EXPECT_EQ(run.decoded, values);
}

TEST(Nvfp4, MarksAreOfBlocks) {
  std::vector<float> values = test::gaussian(128, 1);
  values[100] = test::kNan;
  const BlockRun<Nvfp4Codec> run(values);
  EXPECT_EQ(run.meta, (std::vector<uint8_t>{0, 0, 0xc0, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0}));
  for (float decoded : run.decoded) EXPECT_TRUE(std::isnan(decoded));
}

// A group's factor has 4 significant bits, so 6 times it may be a sixteenth short of the largest.
TEST(Nvfp4, ErrorIsBounded) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const std::vector<float> values =
        test::laplace(128, seed, std::ldexp(1.0f, static_cast<int>(seed % 180) - 90));
    const BlockRun<Nvfp4Codec> run(values);
    for (size_t i = 0; i < values.size(); ++i) {
      const float unit = run.scale(i).unit, magnitude = std::abs(values[i]);
      ASSERT_LE(magnitude, 6 * unit * (1 + 1.0f / 15));
      ASSERT_LE(std::abs(values[i] - run.decoded[i]), unit *
                                                          (magnitude >= 4 * unit   ? 1.0f
                                                           : magnitude >= 2 * unit ? 0.5f
                                                                                   : 0.25f) *
                                                          1.00001f)
          << seed;
    }
  }
}

// Groups far below the block's largest value have the factor 0 and decode to zeros.
TEST(Nvfp4, FarSmallerGroupsVanish) {
  std::vector<float> values(128, 1e-9f);
  values[127] = 1.0f;
  const BlockRun<Nvfp4Codec> run(values);
  EXPECT_EQ(run.meta[4], 0);
  EXPECT_EQ(run.decoded[0], 0.0f);
  EXPECT_EQ(run.code(0), 0u);
  EXPECT_NEAR(run.decoded[127], 1.0f, 1e-6f);
}

TEST(Nvfp4, ExtremesStayFinite) {
  const BlockRun<Nvfp4Codec> huge({test::kLargest, -test::kLargest});
  for (float decoded : huge.decoded) EXPECT_TRUE(std::isfinite(decoded));
  const BlockRun<Nvfp4Codec> tiny({0x1p-109f, 0x1p-126f});
  EXPECT_EQ(blockUnitOf(tiny), 0.0f);
  EXPECT_EQ(tiny.decoded[0], 0.0f);
}

}  // namespace
}  // namespace cinch::codec
