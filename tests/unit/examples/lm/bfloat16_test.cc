#include "examples/lm/bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "examples/lm/random.h"

namespace lm {
namespace {

TEST(Bfloat16, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t half = 0; half < 65536; ++half) {
    const float value = fromBfloat16(static_cast<uint16_t>(half));
    if (std::isnan(value))
      ASSERT_TRUE(std::isnan(fromBfloat16(toBfloat16(value)))) << half;
    else
      ASSERT_EQ(toBfloat16(value), half);
  }
}

TEST(Bfloat16, RoundsToTheNearer) {
  for (uint64_t i = 0; i < 200000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(randomBits(1, 2, i)));
    if (!std::isfinite(value)) continue;
    const auto lower = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    const auto upper = static_cast<uint16_t>(lower + 1);
    const uint16_t rounded = toBfloat16(value);
    ASSERT_TRUE(rounded == lower || rounded == upper) << value;
    if (!std::isfinite(fromBfloat16(upper))) continue;
    const double below = std::abs(static_cast<double>(value) - fromBfloat16(lower));
    const double above = std::abs(static_cast<double>(value) - fromBfloat16(upper));
    if (below == above) continue;
    ASSERT_EQ(rounded, below < above ? lower : upper) << value;
  }
}

TEST(Bfloat16, TiesGoToEven) {
  EXPECT_EQ(toBfloat16(std::bit_cast<float>(0x3F808000u)), 0x3F80);
  EXPECT_EQ(toBfloat16(std::bit_cast<float>(0x3F818000u)), 0x3F82);
}

TEST(Bfloat16, SpecialValuesStayWhatTheyAre) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(fromBfloat16(toBfloat16(kInfinity)), kInfinity);
  EXPECT_EQ(fromBfloat16(toBfloat16(-kInfinity)), -kInfinity);
  EXPECT_EQ(fromBfloat16(toBfloat16(std::numeric_limits<float>::max())), kInfinity);
  // A NaN whose set bits are all in the half that is dropped.
  EXPECT_TRUE(std::isnan(fromBfloat16(toBfloat16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(fromBfloat16(toBfloat16(std::bit_cast<float>(0xFFFFFFFFu)))));
}

}  // namespace
}  // namespace lm
