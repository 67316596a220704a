// Codes of any width lie where wire/tile_layout.h says, and come back.
#include "kernels/host/code_planes.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace cinch::host {
namespace {

template <uint32_t bits, uint32_t nCodes>
void expectPlanes() {
  std::mt19937 random(bits * 1000 + nCodes);
  const wire::CodecFormat format = {
      .id = 1, .bits = bits, .blockMetaBytes = 0, .blockElems = nCodes};
  for (int round = 0; round < 20; ++round) {
    std::vector<CodeOf<bits>> codes(nCodes), unpacked(nCodes);
    for (auto& code : codes)
      code = static_cast<CodeOf<bits>>(random() & ((uint64_t{1} << bits) - 1));
    std::vector<uint8_t> expected(format.blockCodeBytes()), packed(format.blockCodeBytes(), 0xee);
    for (uint32_t i = 0; i < nCodes; ++i) wire::insertCode(format, expected.data(), i, codes[i]);
    packCodes<bits, nCodes>(codes.data(), packed.data());
    ASSERT_EQ(packed, expected) << bits << " bits, " << nCodes << " codes";
    unpackCodes<bits, nCodes>(packed.data(), unpacked.data());
    ASSERT_EQ(unpacked, codes) << bits << " bits, " << nCodes << " codes";
  }
}

template <uint32_t bits>
void expectPlanesOfAllBlocks() {
  expectPlanes<bits, 64>();
  expectPlanes<bits, 128>();
  expectPlanes<bits, 256>();
}

TEST(CodePlanes, AreThoseOfTheWireFormat) {
  expectPlanesOfAllBlocks<1>();
  expectPlanesOfAllBlocks<2>();
  expectPlanesOfAllBlocks<3>();
  expectPlanesOfAllBlocks<4>();
  expectPlanesOfAllBlocks<5>();
  expectPlanesOfAllBlocks<6>();
  expectPlanesOfAllBlocks<8>();
  expectPlanesOfAllBlocks<16>();
  expectPlanesOfAllBlocks<32>();
}

}  // namespace
}  // namespace cinch::host
