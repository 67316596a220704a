// Rotation of the blocks of a tile in vector registers: rotated_block.h, operation for operation.
//
// Include only where the instructions of the Isa are switched on for everything that follows.
#pragma once

#include "kernels/core/rotation.h"
#include "kernels/host/tile_codec.h"

namespace cinch::host {

template <class Isa>
class VectorRotation {
 public:
  static void rotateTile(uint32_t key, uint32_t firstOctet, float* values) {
    for (uint32_t i = 0; i < kTileElems; i += core::kRotationElems) {
      Block block = load(values + i);
      changeSigns(key, firstOctet + i / wire::kOctetElems, block);
      for (Floats& each : block.at) each = each * core::kRotationScale;
      butterflies(block);
      store(block, values + i);
    }
  }

  static void rotateTileBack(uint32_t key, uint32_t firstOctet, float* values) {
    for (uint32_t i = 0; i < kTileElems; i += core::kRotationElems) {
      Block block = load(values + i);
      butterflies(block);
      changeSigns(key, firstOctet + i / wire::kOctetElems, block);
      store(block, values + i);
    }
  }

 private:
  using Floats = typename Isa::Floats;

  static constexpr uint32_t kLanes = Isa::kLanes;
  static constexpr uint32_t kVectors = core::kRotationElems / kLanes;
  static constexpr uint32_t kVectorOctets = kLanes / wire::kOctetElems;

  struct Block {
    Floats at[kVectors];
  };

  static Block load(const float* values) {
    Block block;
    for (uint32_t i = 0; i < kVectors; ++i) block.at[i] = Isa::load(values + i * kLanes);
    return block;
  }
  static void store(const Block& block, float* values) {
    for (uint32_t i = 0; i < kVectors; ++i) Isa::store(block.at[i], values + i * kLanes);
  }

  static void changeSigns(uint32_t key, uint32_t firstOctet, Block& block) {
    for (uint32_t i = 0; i < kVectors; ++i) {
      uint32_t signs = 0;
      for (uint32_t octet = 0; octet < kVectorOctets; ++octet)
        signs |= core::octetSigns(key, firstOctet + i * kVectorOctets + octet)
                 << octet * wire::kOctetElems;
      block.at[i] = Isa::withSigns(block.at[i], signs);
    }
  }

  static void butterflies(Block& block) {
    for (Floats& each : block.at) each = Isa::butterflies(each);
    for (uint32_t distance = 1; distance < kVectors; distance *= 2)
      for (uint32_t i = 0; i < kVectors; ++i)
        if ((i & distance) == 0) {
          const Floats a = block.at[i], b = block.at[i + distance];
          block.at[i] = a + b;
          block.at[i + distance] = a - b;
        }
  }
};

}  // namespace cinch::host
