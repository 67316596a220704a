// How large the codecs' errors are, through a whole encode and decode.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/unit/kernels/data_sets.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

constexpr size_t kManyValues = size_t{4} << 20;
constexpr size_t kSomeValues = size_t{1} << 20;

wire::CodecFormat formatOf(const std::string& name) {
  return codec::findCodec(name)->format;
}

// What `values` become.
std::vector<float> codedOnce(wire::CodecFormat format, const std::vector<float>& values,
                             const CodingRule& rule = {}) {
  const host::HostCodec& codec = host::fastestHostCodec();
  const wire::ShardLayout layout{values.size(), 1, format};
  std::vector<uint8_t> encoded(layout.totalBytes());
  std::vector<float> decoded(values.size());
  SlotState state{};
  uint32_t fault = 0;
  const CallContext call{layout, ElementType::fp32, 1, 2, &state, &fault};
  codec.encodeShards({.call = call,
                      .input = values.data(),
                      .residual = nullptr,
                      .rule = rule,
                      .output = encoded.data()});
  codec.decodeShards({.call = call, .input = encoded.data(), .output = decoded.data()});
  EXPECT_EQ(fault, 0u);
  return decoded;
}

// Squared error over power.
double nmseOf(wire::CodecFormat format, const std::vector<float>& values) {
  const std::vector<float> decoded = codedOnce(format, values);
  double error = 0, power = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = static_cast<double>(values[i]) - static_cast<double>(decoded[i]);
    error += difference * difference;
    power += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return error / power;
}

struct Limit {
  const char* codec;
  double nmse;
};

// At scales from far above gradients to far below them.
void expectLimits(const std::vector<float>& unscaled, std::initializer_list<Limit> limits) {
  for (float scale : {1e4f, 1.0f, 1e-4f, 1e-8f, 1e-12f}) {
    std::vector<float> values(unscaled);
    for (float& value : values) value *= scale;
    for (const Limit& limit : limits) {
      const double found = nmseOf(formatOf(limit.codec), values);
      EXPECT_LE(found, limit.nmse) << limit.codec << " at scale " << scale;
      EXPECT_GT(found, limit.nmse / 2) << limit.codec << " at scale " << scale;
    }
  }
}

TEST(Accuracy, GaussianAtAnyScale) {
  expectLimits(gaussian(kManyValues, 1),
               {{"q4", 1.00e-2}, {"q8", 3.6e-5}, {"h4", 9.6e-3}, {"h3", 3.52e-2}, {"h2", 0.120}});
}

TEST(Accuracy, RotatedLaplaceAtAnyScale) {
  expectLimits(laplace(kManyValues, 2), {{"h4", 9.6e-3}, {"h3", 3.52e-2}, {"h2", 0.120}});
}

TEST(Accuracy, RotatedStudentT3AtAnyScale) {
  expectLimits(studentT3(kManyValues, 3), {{"h4", 9.6e-3}, {"h3", 3.52e-2}, {"h2", 0.120}});
}

// What each family costs, to a few per cent: no change of a codec goes unnoticed. Student's t has
// no fourth moment, so its figures say less.
TEST(Accuracy, OfEveryFamily) {
  const struct {
    const char* codec;
    double gauss, laplace, t3;
  } kExpected[] = {
      {"q2", 0.181, 0.314, 0.507},         {"q3", 0.0457, 0.078, 0.129},
      {"q4", 9.9e-3, 1.7e-2, 2.8e-2},      {"q5", 2.33e-3, 3.96e-3, 6.6e-3},
      {"q6", 5.64e-4, 9.6e-4, 1.6e-3},     {"q8", 3.5e-5, 5.9e-5, 9.8e-5},
      {"h2", 0.119, 0.118, 0.118},         {"h3", 0.0344, 0.0339, 0.0328},
      {"h4", 9.5e-3, 9.35e-3, 9.23e-3},    {"sign", 0.361, 0.497, 0.585},
      {"fp8", 6.6e-4, 6.2e-4, 4.9e-4},     {"bf16", 2.76e-6, 2.76e-6, 2.76e-6},
      {"fp16", 4.31e-8, 4.31e-8, 4.31e-8},
  };
  const std::vector<float> gauss = gaussian(kSomeValues, 4), exponential = laplace(kSomeValues, 5),
                           heavy = studentT3(kSomeValues, 6);
  for (const auto& expected : kExpected) {
    const wire::CodecFormat format = formatOf(expected.codec);
    EXPECT_NEAR(nmseOf(format, gauss) / expected.gauss, 1, 0.02) << expected.codec;
    EXPECT_NEAR(nmseOf(format, exponential) / expected.laplace, 1, 0.03) << expected.codec;
    EXPECT_NEAR(nmseOf(format, heavy) / expected.t3, 1, 0.12) << expected.codec;
  }
}

// Layers of very different sizes, as a bucket holds them: blocks have scales of their own, so that
// it makes no difference.
TEST(Accuracy, LayersKeepTheirOwn) {
  const std::vector<float> values = layered(kSomeValues, 7);
  EXPECT_NEAR(nmseOf(formatOf("q4"), values) / 9.9e-3, 1, 0.05);
  EXPECT_NEAR(nmseOf(formatOf("h4"), values) / 9.5e-3, 1, 0.05);
}

// Real gradients have outliers and zeros: rotation brings them back to what Gaussian ones cost.
TEST(Accuracy, RecordedGradientsRotateIntoGaussianOnes) {
  const std::vector<float> values = recorded(kSomeValues, 8);
  for (const Limit& limit : {Limit{"h4", 9.6e-3}, Limit{"h3", 3.52e-2}, Limit{"h2", 0.120}}) {
    const double found = nmseOf(formatOf(limit.codec), values);
    EXPECT_LE(found, 1.05 * limit.nmse) << limit.codec;
    EXPECT_GT(nmseOf(formatOf(std::string("q") + limit.codec[1]), values), 1.2 * found);
  }
}

// The mean error of dithered codes is zero to four standard errors, in all and in proportion to
// the values; and its square is twice that of the nearest codes, where those span all of the range.
TEST(Accuracy, DitheredCodesAreUnbiased) {
  const std::vector<float> values = gaussian(kManyValues, 8, 1e-3f);
  for (const char* name : {"q2", "q3", "q4", "q5", "q6", "q8"}) {
    const std::vector<float> decoded =
        codedOnce(formatOf(name), values, {.rounding = Rounding::stochastic, .seed = 99});
    double sum = 0, product = 0, square = 0, productSquare = 0, power = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = static_cast<double>(values[i]);
      const double error = static_cast<double>(decoded[i]) - value;
      sum += error;
      product += error * value;
      square += error * error;
      productSquare += error * value * error * value;
      power += value * value;
    }
    EXPECT_LT(std::abs(sum), 4 * std::sqrt(square)) << name;
    EXPECT_LT(std::abs(product), 4 * std::sqrt(productSquare)) << name;
    const double twice = name == std::string("q2") ? 2 / 0.72 : 2;
    EXPECT_NEAR(square / power / nmseOf(formatOf(name), values), twice, 0.1) << name;
  }
}

}  // namespace
}  // namespace cinch::test
