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
  } kExpected[] = {{"q2", 2},     {"q3", 3},       {"q4", 4},        {"q5", 5},    {"q6", 6},
                   {"q8", 8},     {"q4-64", 68},   {"q4-256", 132},  {"c2", 18},   {"c8", 24},
                   {"c2-64", 82}, {"h2", 34},      {"h3", 35},       {"h4", 36},   {"sign", 49},
                   {"mxfp4", 52}, {"nvfp4", 53},   {"fp8", 56},      {"bf16", 62}, {"fp16", 63},
                   {"fp32", 61},  {"fp8-64", 120}, {"sign-256", 177}};
  for (const auto& [name, id] : kExpected) {
    ASSERT_NE(findCodec(name), nullptr) << name;
    EXPECT_EQ(findCodec(name)->format.id, id) << name;
  }
}

TEST(Registry, FamiliesAreComplete) {
  for (const char* suffix : {"", "-64", "-256"}) {
    for (const char* family : {"q", "c"})
      for (const char* bits : {"2", "3", "4", "5", "6", "8"})
        EXPECT_NE(findCodec(std::string(family) + bits + suffix), nullptr) << family << bits;
    for (const char* family : {"sign", "fp8"})
      EXPECT_NE(findCodec(std::string(family) + suffix), nullptr) << family << suffix;
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

// What the product promises: b + 1/4 bits at most, metadata included, for blocks of 128.
TEST(Registry, BitsPerValue) {
  int nChecked = 0;
  for (const CodecInfo& codec : kCodecs) {
    const std::string name = codec.name;
    if ((name[0] != 'q' && name[0] != 'h') || codec.format.blockElems != 128) continue;
    ++nChecked;
    EXPECT_LE(codec.format.tileBytes() * 8, wire::kTileElems * (codec.format.bits + 0.25)) << name;
  }
  EXPECT_EQ(nChecked, 9);
}

}  // namespace
}  // namespace cinch::codec
