// The scalar of PreMulSum: where it comes from, and that it acts as one rounded product per value.
#include "kernels/core/input_factor.h"

#include <gtest/gtest.h>

#include "tests/unit/kernels/data_sets.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

TEST(InputFactor, IsOneUnlessGiven) {
  for (ElementType type : kTypes) EXPECT_EQ(core::valueOf({}, type), 1.0f);
}

TEST(InputFactor, DeviceScalarsAreOfTheCallsType) {
  for (ElementType type : kTypes) {
    const std::vector<uint8_t> scalar = toElements(type, {-0.75f});
    EXPECT_EQ(core::valueOf({.value = 5.0f, .device = scalar.data()}, type), -0.75f)
        << nameOf(type);
  }
}

// What an encode launch leaves behind.
struct Encoded {
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> residual;
  bool operator==(const Encoded&) const = default;
};

Encoded encode(const host::HostCodec& codec, ElementType type, const std::vector<uint8_t>& input,
               const InputFactor& factor) {
  const uint64_t count = input.size() / elementBytes(type);
  const auto layout = wire::ShardLayout{count, 2, codec::formatOf("q8")};
  SlotState state{};
  state.ordinal = 1;
  uint32_t fault = 0;
  std::vector<float> residual = gaussian(count, 8, 0.01f);
  Encoded encoded{std::vector<uint8_t>(layout.totalBytes()), {}};
  codec.encodeShards({.call = {layout, type, 1, 2, &state, &fault},
                      .input = input.data(),
                      .inputFactor = factor,
                      .residual = residual.data(),
                      .rule = {.gain = 0.1f},
                      .output = encoded.bytes.data()});
  encoded.residual = toElements(ElementType::fp32, residual);
  return encoded;
}

// With NaNs, subnormal numbers and all bit patterns.
TEST(InputFactor, OneChangesNoBit) {
  for (ElementType type : kTypes) {
    const std::vector<uint8_t> input = toElements(type, awkward(40000, 2));
    const std::vector<uint8_t> one = toElements(type, {1.0f});
    for (const host::HostCodec& codec : host::hostCodecs()) {
      const Encoded plain = encode(codec, type, input, {});
      EXPECT_EQ(encode(codec, type, input, {.value = 1.0f}), plain) << codec.name;
      EXPECT_EQ(encode(codec, type, input, {.device = one.data()}), plain) << codec.name;
    }
  }
}

// Values of any type times a factor are coded as the fp32 numbers that the products round to.
TEST(InputFactor, ProductsAreRoundedOnceInFp32) {
  for (ElementType type : kTypes) {
    const std::vector<uint8_t> input = toElements(type, awkward(40000, 3));
    std::vector<float> products = fromElements(type, input.data(), 40000);
    for (float& product : products) product *= -1.37f;
    const std::vector<uint8_t> multiplied = toElements(ElementType::fp32, products);
    for (const host::HostCodec& codec : host::hostCodecs())
      EXPECT_EQ(encode(codec, type, input, {.value = -1.37f}),
                encode(codec, ElementType::fp32, multiplied, {}))
          << codec.name << " " << nameOf(type);
  }
}

}  // namespace
}  // namespace cinch::test
