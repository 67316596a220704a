// What is special about the codec of docs/writing-a-codec.md.
#include "tests/codec_kit/ternary.h"

#include "tests/unit/kernels/codec/block_run.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

using codec::TernaryCodec;
using TernaryRun = BlockRun<TernaryCodec>;

TEST(Ternary, IsFoundByNameAndId) {
  const codec::CodecInfo* const found = codec::findCodec("ternary");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found, codec::findCodec(TernaryCodec::kFormat.id));
  EXPECT_EQ(found->format.tileBytes(), 16u + 256u);  // 2.125 bits per value
}

TEST(Ternary, ValuesAreOfThreeLevels) {
  const TernaryRun run(gaussian(128, 1));
  const float level = run.scale().level;
  for (uint32_t i = 0; i < 128; ++i) {
    EXPECT_LT(run.code(i), 3u);
    EXPECT_TRUE(run.decoded[i] == -level || run.decoded[i] == 0 || run.decoded[i] == level);
  }
}

// Nine of ten values are zero: the level is that of the tenth, and zeros stay zero.
TEST(Ternary, ZerosDoNotCount) {
  std::vector<float> values(128, 0.0f);
  for (size_t i = 0; i < values.size(); i += 10) values[i] = i % 20 ? -2.0f : 2.0f;
  const TernaryRun run(values);
  const float level = codec::Bf16::toFloat(codec::Bf16::fromFloat(2 * TernaryCodec::kLevelPerMean));
  for (size_t i = 0; i < values.size(); ++i) {
    const float expected = values[i] == 0 ? 0 : values[i] < 0 ? -level : level;
    EXPECT_EQ(run.decoded[i], expected);
  }
}

TEST(Ternary, AnyCodeOfAPeerDecodes) {
  const codec::TernaryScale scale(codec::Level{0x3f80});
  EXPECT_EQ(scale.decode(3), 2.0f);
}

// 0.190 is the least that three levels can do to Gaussian values.
TEST(Ternary, ErrorIsCloseToTheLeastOfThreeLevels) {
  const std::vector<float> values = gaussian(128 * 2000, 7, 1e-6f);
  std::vector<float> decoded;
  for (size_t first = 0; first < values.size(); first += 128) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(first);
    const TernaryRun run(std::vector<float>(begin, begin + 128));
    decoded.insert(decoded.end(), run.decoded.begin(), run.decoded.end());
  }
  const double error = nmse(decoded, {values.begin(), values.end()});
  EXPECT_GT(error, 0.185);
  EXPECT_LT(error, 0.195);
}

}  // namespace
}  // namespace cinch::test
