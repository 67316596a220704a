#include "tools/cinch/codec_costs.h"

#include <gtest/gtest.h>

#include "kernels/codec/registry.h"

namespace cinch {
namespace {

CodecCosts someCosts() {
  const CodecCost cost = {{1e-6, 2e-10}, {3e-6, 0}, {0, 1.0 / 3}};
  return {.machine = "AVX2, a \"CPU\", Cinch 1",
          .costs = {{"q4 fp32", {cost, "2026-01-02"}}, {"h3 bf16", {{}, "2025-12-31"}}}};
}

// `text` with `part` in place of the first `replaced`.
std::string with(std::string text, const std::string& replaced, const std::string& part) {
  const size_t at = text.find(replaced);
  EXPECT_NE(at, std::string::npos) << replaced;
  return text.replace(at, replaced.size(), part);
}

TEST(CodecCosts, AreReadAsTheyWereWritten) {
  const CodecCosts costs = someCosts();
  const auto read = parseCodecCosts(formatCodecCosts(costs));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().machine, costs.machine);
  ASSERT_EQ(read.value().costs.size(), costs.costs.size());
  for (const auto& [key, kept] : costs.costs) {
    const KeptCost& other = read.value().costs.at(key);
    EXPECT_EQ(other.date, kept.date);
    for (LinearCost CodecCost::*part :
         {&CodecCost::encode, &CodecCost::reduce, &CodecCost::decode}) {
      EXPECT_EQ((other.cost.*part).fixedSeconds, (kept.cost.*part).fixedSeconds);
      EXPECT_EQ((other.cost.*part).secondsPerByte, (kept.cost.*part).secondsPerByte);
    }
  }
}

TEST(CodecCosts, WhatIsWrongIsSaid) {
  const std::string text = formatCodecCosts(someCosts());
  const auto errorOf = [](const std::string& wrong) {
    const auto read = parseCodecCosts(wrong);
    return read.ok() ? "nothing" : read.error().message;
  };
  EXPECT_TRUE(errorOf(with(text, "\"version\": 1", "\"version\": 2")).find("another version") !=
              std::string::npos);
  EXPECT_TRUE(errorOf(with(text, "2e-10", "-2e-10")).find("s_per_byte") != std::string::npos);
  EXPECT_TRUE(errorOf(with(text, "2e-10", "1e999")) != "nothing");
  EXPECT_TRUE(errorOf(with(text, "fixed_s", "fixed")).find("fixed_s") != std::string::npos);
  EXPECT_TRUE(errorOf(with(text, "\"machine\"", "\"host\"")).find("machine") != std::string::npos);
  for (size_t size = 0; size + 2 < text.size(); size += 7)
    EXPECT_NE(errorOf(text.substr(0, size)), "nothing") << size;
  for (const char* other : {"", "7", "[]", "null", "{}"}) EXPECT_NE(errorOf(other), "nothing");
}

TEST(CodecCosts, WhatCostsDependOnIsInTheKey) {
  const codec::CodecInfo& codec = *codec::findCodec("q4");
  const CodingRule plain;
  EXPECT_EQ(codecCostKey(codec, ElementType::bf16, plain), "q4 bf16");
  EXPECT_EQ(codecCostKey(codec, ElementType::fp32, {.gain = 1, .residualType = ResidualType::int8}),
            "q4 fp32 residual int8");
  EXPECT_EQ(codecCostKey(codec, ElementType::fp16, {.rounding = Rounding::stochastic}),
            "q4 fp16 dithered");
}

TEST(CodecCosts, EachHostHasItsOwn) {
  const std::string path = codecCostsPath("/cache");
  EXPECT_EQ(path.find("/cache/codec-costs."), 0u);
  EXPECT_GT(path.size(), std::string("/cache/codec-costs..json").size());
}

}  // namespace
}  // namespace cinch
