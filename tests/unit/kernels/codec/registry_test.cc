#include "kernels/codec/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace cinch::codec {
namespace {

TEST(Registry, FindsByNameAndId) {
  for (const CodecInfo& codec : kCodecs) {
    EXPECT_EQ(findCodec(codec.name), &codec);
    EXPECT_EQ(findCodec(codec.format.id), &codec);
  }
  EXPECT_EQ(findCodec(""), nullptr);
  EXPECT_EQ(findCodec("q1"), nullptr);
  EXPECT_EQ(findCodec("q4-32"), nullptr);
  EXPECT_EQ(findCodec(uint8_t{0}), nullptr);
  EXPECT_EQ(findCodec(wire::kMixedCodec), nullptr);
}

// Ids are on the wire: none may change.
TEST(Registry, IdsAreThoseOfTheDocument) {
  const struct {
    const char* name;
    uint8_t id;
  } kExpected[] = {{"q2", 2},   {"q3", 3},    {"q4", 4},    {"q5", 5},   {"q6", 6},
                   {"q8", 8},   {"h2", 34},   {"h3", 35},   {"h4", 36},  {"sign", 49},
                   {"fp8", 56}, {"fp32", 61}, {"bf16", 62}, {"fp16", 63}};
  EXPECT_EQ(std::size(kExpected), kCodecs.size());
  for (const auto& [name, id] : kExpected) {
    ASSERT_NE(findCodec(name), nullptr) << name;
    EXPECT_EQ(findCodec(name)->format.id, id) << name;
  }
}

TEST(Registry, PassesTheTypeOfAnId) {
  for (const CodecInfo& codec : kCodecs) {
    const std::string found = withCodec(codec.format.id, std::string("none"),
                                        []<class C>() { return std::string(C::kName); });
    EXPECT_EQ(found, codec.name);
  }
  EXPECT_EQ(withCodec(uint8_t{0}, 7, []<class C>() { return 1; }), 7);
}

// What the product promises: b + 1/4 bits at most, metadata included.
TEST(Registry, BitsPerValue) {
  int nChecked = 0;
  for (const CodecInfo& codec : kCodecs) {
    const std::string name = codec.name;
    if (name[0] != 'q' && name[0] != 'h') continue;
    ++nChecked;
    EXPECT_LE(codec.format.tileBytes() * 8, wire::kTileElems * (codec.format.bits + 0.25)) << name;
  }
  EXPECT_EQ(nChecked, 9);
}

}  // namespace
}  // namespace cinch::codec
