// Every compilation of the codec agrees with the committed vectors of wire version 1, byte for
// byte.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/golden/golden_file.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

class GoldenTest : public testing::TestWithParam<std::tuple<wire::Codec, ElementType>> {
 protected:
  void SetUp() override {
    const auto [codec, type] = GetParam();
    auto file = GoldenFile::read(std::string(CINCH_GOLDEN_FOLDER "/v1/") + nameOf(codec) + "_" +
                                 nameOf(type) + ".bin");
    ASSERT_TRUE(file.ok()) << file.error().message;
    golden_ = file.value();
    ASSERT_EQ(golden_.layout().codec, codec);
    ASSERT_EQ(golden_.type(), type);
    ASSERT_EQ(golden_.section("input").size(), golden_.layout().count * elementBytes(type));
    ASSERT_EQ(golden_.section("encoded").size(), golden_.layout().totalBytes());
    ASSERT_EQ(golden_.section("reduced").size(), golden_.layout().strideBytes());
    state_.ordinal = golden_.parameters().ordinal;
  }

  CallContext call() {
    return {golden_.layout(),          golden_.type(), golden_.parameters().planId,
            golden_.parameters().slot, &state_,        &fault_};
  }

  std::vector<float> floats(const char* section) const {
    const std::vector<uint8_t>& bytes = golden_.section(section);
    return fromElements(ElementType::fp32, bytes.data(), bytes.size() / sizeof(float));
  }

  // Bits, so that -0 differs from +0.
  void expectBits(const std::vector<float>& found, const char* section) const {
    EXPECT_EQ(toElements(ElementType::fp32, found), golden_.section(section)) << section;
  }

  GoldenFile golden_;
  SlotState state_{};
  uint32_t fault_ = 0;
};

TEST_P(GoldenTest, Encode) {
  for (const host::HostCodec& codec : host::hostCodecs()) {
    SCOPED_TRACE(codec.name);
    std::vector<float> residual = floats("residual");
    std::vector<uint8_t> encoded(golden_.layout().totalBytes(), 0xee);
    codec.encodeShards({call(), golden_.section("input").data(), residual.data(),
                        golden_.parameters().gain, encoded.data(), -1, false});
    EXPECT_EQ(encoded, golden_.section("encoded"));
    expectBits(residual, "nextResidual");
  }
}

TEST_P(GoldenTest, Decode) {
  for (const host::HostCodec& codec : host::hostCodecs()) {
    SCOPED_TRACE(codec.name);
    state_.ordinal = golden_.parameters().ordinal;
    std::vector<uint8_t> decoded(golden_.section("input").size(), 0xee);
    codec.decodeShards({call(), golden_.section("encoded").data(), decoded.data()});
    EXPECT_EQ(decoded, golden_.section("decoded"));
    EXPECT_EQ(fault_, 0u);
    EXPECT_EQ(state_.poisonOrdinal, state_.ordinal) << "the vectors hold NaNs";
  }
}

TEST_P(GoldenTest, Reduce) {
  const GoldenParameters p = golden_.parameters();
  const uint64_t first = golden_.layout().firstElem(p.ownShard);
  for (const host::HostCodec& codec : host::hostCodecs()) {
    SCOPED_TRACE(codec.name);
    std::vector<float> residual = floats("residual"), ownerResidual = floats("ownerResidual");
    std::vector<uint8_t> reduced(golden_.layout().strideBytes(), 0xee);
    codec.reduceShard({call(), p.ownShard, golden_.section("peers").data(),
                       &golden_.section("input")[first * elementBytes(golden_.type())],
                       &residual[first], ownerResidual.data(), p.gain, p.factor, reduced.data(),
                       false});
    EXPECT_EQ(reduced, golden_.section("reduced"));
    EXPECT_EQ(fault_, 0u);
    expectBits(ownerResidual, "nextOwnerResidual");
  }
}

INSTANTIATE_TEST_SUITE_P(Version1, GoldenTest,
                         testing::Combine(testing::ValuesIn(kCodecs), testing::ValuesIn(kTypes)),
                         [](const auto& info) {
                           return nameOf(std::get<0>(info.param)) + "_" +
                                  nameOf(std::get<1>(info.param));
                         });

// The example of docs/wire-format.md.
TEST(GoldenExample, FiveValuesAtFourBits) {
  const float values[] = {0.0f, 1.0f, 2.0f, 15.0f, 7.5f};
  const wire::ShardLayout layout{5, 1, wire::Codec::q4};
  for (const host::HostCodec& codec : host::hostCodecs()) {
    SlotState state{};
    state.ordinal = 1;
    std::vector<uint8_t> expected(560, 0), encoded(layout.totalBytes(), 0xee);
    const uint8_t header[] = {0x9c, 0xc1, 1, 4, 0x44, 0x33, 0x22, 0x11, 2, 0, 0, 0, 1, 0, 0, 0};
    std::memcpy(&expected[0], header, sizeof header);
    const uint8_t pair[] = {0x80, 0x3f, 0, 0};
    std::memcpy(&expected[16], pair, sizeof pair);
    const uint8_t codes[] = {0x10, 0xf2, 0x08};
    std::memcpy(&expected[48], codes, sizeof codes);
    codec.encodeShards({{layout, ElementType::fp32, 0x11223344, 2, &state, nullptr},
                        values,
                        nullptr,
                        0,
                        encoded.data(),
                        -1,
                        false});
    EXPECT_EQ(encoded, expected) << codec.name;
  }
}

}  // namespace
}  // namespace cinch::test
