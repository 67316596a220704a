#include "tools/cinch/bench/element_type.h"

#include <gtest/gtest.h>

#include <vector>

namespace cinch::bench {
namespace {

TEST(ElementType, SmallIntegersSurviveEveryType) {
  const std::vector<double> values = {0, 1, 2, 63, 100, 127};
  for (const ElementType& type : elementTypes()) {
    std::vector<std::byte> elements(values.size() * type.bytes);
    std::vector<double> back(values.size());
    storeValues(type, values, elements.data());
    loadValues(type, elements.data(), back);
    EXPECT_EQ(back, values) << type.name;
  }
}

TEST(ElementType, SignedTypesHaveNegativeValues) {
  for (const ElementType& type : elementTypes()) {
    if (!type.isSigned) continue;
    const std::vector<double> values = {-5};
    std::vector<std::byte> elements(type.bytes);
    std::vector<double> back(1);
    storeValues(type, values, elements.data());
    loadValues(type, elements.data(), back);
    EXPECT_EQ(back, values) << type.name;
  }
}

TEST(ElementType, IsFoundByName) {
  EXPECT_EQ(findElementType("bfloat16")->id, ncclBfloat16);
  EXPECT_EQ(findElementType("fp8_e4m3"), nullptr);
}

}  // namespace
}  // namespace cinch::bench
