#include "interpose/policy/precision/error_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/kernels/data_sets.h"
#include "tests/unit/kernels/support.h"

namespace cinch {
namespace {

using Values = std::vector<float>;

constexpr size_t kBlock = 128;
constexpr const char* kPredicted[] = {"q2", "q3", "q4", "q5", "q6", "q8", "h2", "h3", "h4", "bf16"};

SegmentStatistics statisticsOf(const Values& values) {
  SegmentStatistics statistics{.count = values.size()};
  for (size_t first = 0; first < values.size(); first += kBlock) {
    const size_t end = std::min(first + kBlock, values.size());
    const auto [least, most] = std::minmax_element(values.begin() + static_cast<ptrdiff_t>(first),
                                                   values.begin() + static_cast<ptrdiff_t>(end));
    const double range = static_cast<double>(*most) - *least;
    statistics.squaredRanges += range * range;
  }
  for (float value : values) statistics.power += static_cast<double>(value) * value;
  return statistics;
}

double measured(const codec::CodecInfo& codec, Rounding rounding, const Values& values) {
  const wire::ShardLayout layout{values.size(), 1, codec.format};
  std::vector<uint8_t> encoded(layout.totalBytes());
  SlotState state{};
  state.ordinal = 1;
  uint32_t fault = 0;
  const CallContext call{layout, ElementType::fp32, 1, 0, &state, &fault};
  test::referenceCodec().encodeShards({.call = call,
                                       .input = values.data(),
                                       .residual = nullptr,
                                       .rule = {.rounding = rounding, .seed = 5},
                                       .output = encoded.data()});
  Values decoded(values.size());
  test::referenceCodec().decodeShards({call, encoded.data(), decoded.data()});
  EXPECT_EQ(fault, 0u);
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(values[i]) - decoded[i];
    sum += difference * difference;
  }
  return sum;
}

double ratio(const char* name, const Values& values, Rounding rounding = Rounding::nearest) {
  const codec::CodecInfo& codec = *codec::findCodec(name);
  const auto predicted = predictError(codec, rounding, statisticsOf(values));
  EXPECT_TRUE(predicted.has_value()) << name;
  return predicted.value_or(0) / measured(codec, rounding, values);
}

TEST(ErrorModel, AgreesWithTheCodecsOnGaussianValues) {
  const Values values = test::gaussian(1 << 16, 1, 1e-3f);
  for (const char* name : kPredicted) EXPECT_NEAR(ratio(name, values), 1, 0.05) << name;
}

TEST(ErrorModel, AgreesWithDitheredCodes) {
  const Values values = test::gaussian(1 << 16, 1, 1e-3f);
  for (const char* name : {"q2", "q3", "q4", "q5", "q6", "q8"})
    EXPECT_NEAR(ratio(name, values, Rounding::stochastic), 1, 0.08) << name;
  for (const char* name : {"h2", "h3", "h4", "bf16"})
    EXPECT_NEAR(ratio(name, values, Rounding::stochastic), 1, 0.05) << name;
}

TEST(ErrorModel, HeavyTailsChangeLittle) {
  const Values values = test::laplace(1 << 16, 2, 1e-3f);
  for (const char* name : kPredicted) EXPECT_NEAR(ratio(name, values), 1, 0.1) << name;
}

TEST(ErrorModel, AgreesWithTheCodecsOnRecordedGradients) {
  const Values values = test::recorded(80000, 3);
  for (const char* name : {"q3", "q4", "q5", "q6", "q8", "h2", "h3", "h4"})
    EXPECT_NEAR(ratio(name, values), 1, 0.3) << name;
  EXPECT_NEAR(ratio("q2", values), 1, 0.7);
}

// The last block of a bucket holds few values, the mean of all blocks nearly 128.
TEST(ErrorModel, APartialBlockCountsAsWhatItHolds) {
  const Values values = test::gaussian(kBlock * 64 + 5, 4);
  for (const char* name : kPredicted) EXPECT_NEAR(ratio(name, values), 1, 0.15) << name;
}

TEST(ErrorModel, NothingHasNoError) {
  for (const char* name : kPredicted) {
    const codec::CodecInfo& codec = *codec::findCodec(name);
    EXPECT_EQ(predictError(codec, Rounding::nearest, {}), 0.0) << name;
    EXPECT_EQ(predictError(codec, Rounding::nearest, {.count = 1000}), 0.0) << name;
  }
}

TEST(ErrorModel, Fp32HasNone) {
  const codec::CodecInfo& fp32 = *codec::findCodec("fp32");
  EXPECT_EQ(predictError(fp32, Rounding::nearest, {1000, 1, 1}), 0.0);
}

TEST(ErrorModel, SaysNothingOfOtherCodecs) {
  size_t nKnown = 0;
  for (const codec::CodecInfo& codec : codec::kCodecs)
    nKnown += predictError(codec, Rounding::nearest, {1000, 1, 1}).has_value();
  EXPECT_EQ(nKnown, std::size(kPredicted) + 1) << "fp32 beside them";
  for (const char* name : {"sign", "fp8", "fp16"})
    EXPECT_FALSE(predictError(*codec::findCodec(name), Rounding::nearest, {1000, 1, 1}).has_value())
        << name;
}

}  // namespace
}  // namespace cinch
