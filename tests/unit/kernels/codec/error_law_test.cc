// How errors add up over ranks. With D the error of one coding and r the power of the ranks' inputs
// over that of their sum, the error of an allreduce is at most D (1 + r): r for the inputs, each
// coded once, and one for the sum.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/kernels/data_sets.h"
#include "tests/unit/kernels/virtual_ranks.h"

namespace cinch::test {
namespace {

constexpr uint64_t kCount = 1 << 16;

using Inputs = std::vector<std::vector<float>>;

// `share` of the variance is common to all ranks.
Inputs correlated(const DataSet& data, uint32_t nRanks, float share) {
  const std::vector<float> common = data.make(kCount, 1000, std::sqrt(share));
  Inputs inputs;
  for (uint32_t rank = 0; rank < nRanks; ++rank) {
    inputs.push_back(data.make(kCount, rank, std::sqrt(1 - share)));
    for (size_t i = 0; i < kCount; ++i) inputs.back()[i] += common[i];
  }
  return inputs;
}

std::vector<double> sumOf(const Inputs& inputs) {
  std::vector<double> sum(kCount, 0.0);
  for (const auto& input : inputs)
    for (size_t i = 0; i < kCount; ++i) sum[i] += static_cast<double>(input[i]);
  return sum;
}

double powerOf(const auto& values) {
  double power = 0;
  for (auto value : values) power += static_cast<double>(value) * static_cast<double>(value);
  return power;
}

// The error of an allreduce of `inputs`, over the power of their sum.
double errorOf(wire::CodecFormat codec, const Inputs& inputs) {
  const Collective settings{
      .count = kCount, .nRanks = static_cast<uint32_t>(inputs.size()), .codec = codec};
  VirtualRanks ranks(settings, host::fastestHostCodec());
  for (size_t rank = 0; rank < inputs.size(); ++rank) ranks.setInput(rank, inputs[rank]);
  ranks.run();
  return nmse(ranks.outputOf(0), sumOf(inputs));
}

// One coding's error: a single rank's allreduce codes its input, exact until then, once.
double errorOfOne(wire::CodecFormat codec, const std::vector<float>& input) {
  return errorOf(codec, {input});
}

// Calls check(inputs, r) for ranks that have nothing, something and all in common.
template <class Check>
void forEachInputs(std::initializer_list<float> shares, const Check& check) {
  for (const DataSet& data : {DataSet{"gaussian", gaussian}, DataSet{"laplace", laplace}})
    for (uint32_t nRanks : {2u, 4u, 8u})
      for (float share : shares) {
        SCOPED_TRACE(testing::Message() << data.name << ", " << nRanks << " ranks, " << share);
        const Inputs inputs = correlated(data, nRanks, share);
        double power = 0;
        for (const auto& input : inputs) power += powerOf(input);
        check(inputs, power / powerOf(sumOf(inputs)));
      }
}

TEST(ErrorLaw, HoldsForAnyNumberOfRanks) {
  forEachInputs({0.0f, 0.3f, 1.0f}, [](const Inputs& inputs, double r) {
    for (const char* name : {"q3", "q4", "q6", "q8", "h2", "h3", "h4", "fp8", "bf16"}) {
      const wire::CodecFormat codec = codec::findCodec(std::string_view(name))->format;
      const double one = errorOfOne(codec, inputs[0]), found = errorOf(codec, inputs);
      EXPECT_LE(found, 1.05 * one * (1 + r)) << name;
      EXPECT_GT(found, 0.5 * one) << name;
    }
  });
}

// Two bits between minimum and maximum add so much error of their own that it counts when it is
// coded again.
TEST(ErrorLaw, CoarseCodesCodeTheirOwnError) {
  forEachInputs({0.0f, 0.3f, 1.0f}, [](const Inputs& inputs, double r) {
    const double one = errorOfOne(codec::formatOf("q2"), inputs[0]);
    EXPECT_LE(errorOf(codec::formatOf("q2"), inputs), 1.05 * one * (1 + r + r * one));
  });
}

}  // namespace
}  // namespace cinch::test
