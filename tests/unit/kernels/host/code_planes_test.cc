// Codes of any width lie where wire/tile_layout.h says, and come back.
#include "kernels/host/code_planes.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace cinch::host {
namespace {

template <uint32_t bits>
void expectPlanes() {
  std::mt19937 random(bits);
  const wire::CodecFormat format = {.id = 1, .bits = bits, .blockMetaBytes = 0};
  for (int round = 0; round < 20; ++round) {
    std::vector<CodeOf<bits>> codes(kBlockElems), unpacked(kBlockElems);
    for (auto& code : codes)
      code = static_cast<CodeOf<bits>>(random() & ((uint64_t{1} << bits) - 1));
    std::vector<uint8_t> expected(format.blockCodeBytes()), packed(format.blockCodeBytes(), 0xee);
    for (uint32_t i = 0; i < kBlockElems; ++i)
      wire::insertCode(format, expected.data(), i, codes[i]);
    packCodes<bits>(codes.data(), packed.data());
    ASSERT_EQ(packed, expected) << bits << " bits";
    unpackCodes<bits>(packed.data(), unpacked.data());
    ASSERT_EQ(unpacked, codes) << bits << " bits";
  }
}

TEST(CodePlanes, AreThoseOfTheWireFormat) {
  expectPlanes<1>();
  expectPlanes<2>();
  expectPlanes<3>();
  expectPlanes<4>();
  expectPlanes<5>();
  expectPlanes<6>();
  expectPlanes<8>();
  expectPlanes<16>();
  expectPlanes<32>();
}

}  // namespace
}  // namespace cinch::host
