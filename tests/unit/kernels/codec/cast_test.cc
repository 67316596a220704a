#include "kernels/codec/cast.h"

#include "tests/unit/kernels/codec/block_run.h"

namespace cinch::codec {
namespace {

using test::BlockRun;

template <class Storage>
uint32_t codeOf(Storage stored) {
  if constexpr (sizeof stored == 4)
    return bitsOfFloat(stored);
  else
    return stored;
}

template <ElementType type>
void expectRoundedOnce(const std::vector<float>& values) {
  using Traits = ElementTraits<type>;
  const BlockRun<CastCodec<type>> run(values);
  for (uint32_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(run.code(i), codeOf(Traits::fromFloat(values[i]))) << values[i];
    ASSERT_EQ(bitsOfFloat(run.decoded[i]),
              bitsOfFloat(Traits::toFloat(Traits::fromFloat(values[i]))))
        << values[i];
  }
}

// Each value by itself: its neighbours may be anything.
TEST(Cast, RoundsEachValueOnce) {
  const std::vector<float> values = test::awkward(128 * 500, 1);
  for (size_t first = 0; first < values.size(); first += 128) {
    const std::vector<float> block(&values[first], &values[first] + 128);
    expectRoundedOnce<ElementType::bf16>(block);
    expectRoundedOnce<ElementType::fp16>(block);
    expectRoundedOnce<ElementType::fp32>(block);
  }
}

TEST(Cast, Fp32LosesNothing) {
  const std::vector<float> values = test::awkward(128 * 500, 2);
  for (size_t first = 0; first < values.size(); first += 128) {
    const std::vector<float> block(&values[first], &values[first] + 128);
    const BlockRun<CastCodec<ElementType::fp32>> run(block);
    for (uint32_t i = 0; i < block.size(); ++i) {
      if (std::isnan(block[i]))
        ASSERT_TRUE(std::isnan(run.decoded[i]));
      else
        ASSERT_EQ(bitsOfFloat(run.decoded[i]), bitsOfFloat(block[i]));
    }
  }
}

TEST(Cast, KeepsWhatIsNotFinite) {
  const std::vector<float> values = {test::kInfinity, -test::kInfinity, test::kNan, 1.0f, 7e4f};
  const BlockRun<CastCodec<ElementType::bf16>> bf16(values);
  EXPECT_EQ(bf16.decoded[0], test::kInfinity);
  EXPECT_EQ(bf16.decoded[1], -test::kInfinity);
  EXPECT_TRUE(std::isnan(bf16.decoded[2]));
  EXPECT_EQ(bf16.decoded[3], 1.0f);
  const BlockRun<CastCodec<ElementType::fp16>> fp16(values);
  EXPECT_EQ(fp16.decoded[1], -test::kInfinity);
  EXPECT_EQ(fp16.code(2), 0x7e00u);
  EXPECT_EQ(fp16.decoded[3], 1.0f);
  EXPECT_EQ(fp16.decoded[4], test::kInfinity);  // beyond fp16
}

}  // namespace
}  // namespace cinch::codec
