#include "net_plugin/wire/checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

namespace cinch::net {
namespace {

using Checksum = uint32_t (*)(const void*, size_t, uint32_t);

uint32_t bitwise(const uint8_t* bytes, size_t n, uint32_t before = 0) {
  uint32_t value = ~before;
  for (size_t i = 0; i < n; ++i) {
    value ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~value;
}

std::vector<uint8_t> randomBytes(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(n);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

class Crc32c : public ::testing::TestWithParam<Checksum> {
 protected:
  uint32_t of(const std::vector<uint8_t>& bytes) {
    return GetParam()(bytes.data(), bytes.size(), 0);
  }
};

TEST_P(Crc32c, GivesTheValuesOfTheStandard) {
  std::vector<uint8_t> rising(32), falling(32);
  for (uint8_t i = 0; i < 32; ++i) rising[i] = falling[31 - i] = i;
  EXPECT_EQ(of(std::vector<uint8_t>(32, 0)), 0x8a9136aau);
  EXPECT_EQ(of(std::vector<uint8_t>(32, 0xff)), 0x62a8ab43u);
  EXPECT_EQ(of(rising), 0x46dd794eu);
  EXPECT_EQ(of(falling), 0x113fdb5cu);
  constexpr std::string_view kDigits = "123456789";
  EXPECT_EQ(GetParam()(kDigits.data(), kDigits.size(), 0), 0xe3069283u);
  EXPECT_EQ(GetParam()(nullptr, 0, 0), 0u);
}

TEST_P(Crc32c, AgreesAtEveryAlignmentAndShortLength) {
  const std::vector<uint8_t> bytes = randomBytes(400, 1);
  for (size_t first = 0; first < 64; ++first)
    for (size_t n = 0; n <= 300; ++n)
      ASSERT_EQ(GetParam()(&bytes[first], n, 0), bitwise(&bytes[first], n)) << first << " " << n;
}

TEST_P(Crc32c, AgreesAroundEveryLengthWhereLanesBegin) {
  const std::vector<uint8_t> bytes = randomBytes(3 * 6 * 1024 + 100, 2);
  for (size_t lanes = 1; lanes <= 6; ++lanes)
    for (size_t n = lanes * 3 * 1024 - 9; n <= lanes * 3 * 1024 + 9; ++n)
      ASSERT_EQ(GetParam()(&bytes[3], n, 7), bitwise(&bytes[3], n, 7)) << n;
}

TEST_P(Crc32c, ContinuesWhereverItIsCut) {
  const std::vector<uint8_t> bytes = randomBytes(20000, 3);
  const uint32_t whole = bitwise(bytes.data(), bytes.size());
  for (size_t cut = 0; cut <= bytes.size(); cut += cut < 300 ? 1 : 997) {
    const uint32_t front = GetParam()(bytes.data(), cut, 0);
    ASSERT_EQ(GetParam()(bytes.data() + cut, bytes.size() - cut, front), whole) << cut;
  }
}

TEST_P(Crc32c, SeesEveryFlippedBitOfAChunk) {
  std::vector<uint8_t> bytes = randomBytes(4096, 4);
  const uint32_t whole = of(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += 7) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    ASSERT_NE(of(bytes), whole) << bit;
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Crc32c, ::testing::Values(crc32c, crc32cByTables),
                         [](const auto& info) {
                           return info.param == crc32c ? "Fastest" : "ByTables";
                         });

}  // namespace
}  // namespace cinch::net
