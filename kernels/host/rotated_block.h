// Rotation of the blocks of a tile (core/rotation.h), in place.
#pragma once

#include "kernels/core/rotation.h"
#include "kernels/wire/wire_format.h"

namespace cinch::host {

template <uint32_t distance>
inline void butterfliesAt(float* values) {
  for (uint32_t i = 0; i < core::kRotationElems; i += 2 * distance)
    for (uint32_t n = i; n < i + distance; ++n) {
      const float a = values[n], b = values[n + distance];
      values[n] = a + b;
      values[n + distance] = a - b;
    }
}

inline void butterflies(float* values) {
  butterfliesAt<1>(values);
  butterfliesAt<2>(values);
  butterfliesAt<4>(values);
  butterfliesAt<8>(values);
  butterfliesAt<16>(values);
  butterfliesAt<32>(values);
  butterfliesAt<64>(values);
}

inline void changeSigns(uint32_t key, uint32_t firstOctet, float* values) {
  for (uint32_t octet = 0; octet < core::kRotationElems / wire::kOctetElems; ++octet) {
    const uint32_t signs = core::octetSigns(key, firstOctet + octet);
    for (uint32_t i = 0; i < wire::kOctetElems; ++i)
      values[octet * wire::kOctetElems + i] =
          core::withSign(values[octet * wire::kOctetElems + i], signs, i);
  }
}

struct PortableRotation {
  static void rotateTile(uint32_t key, uint32_t firstOctet, float* values) {
    for (uint32_t i = 0; i < wire::kTileElems; i += core::kRotationElems) {
      changeSigns(key, firstOctet + i / wire::kOctetElems, values + i);
      for (uint32_t n = i; n < i + core::kRotationElems; ++n) values[n] *= core::kRotationScale;
      butterflies(values + i);
    }
  }

  static void rotateTileBack(uint32_t key, uint32_t firstOctet, float* values) {
    for (uint32_t i = 0; i < wire::kTileElems; i += core::kRotationElems) {
      butterflies(values + i);
      changeSigns(key, firstOctet + i / wire::kOctetElems, values + i);
    }
  }
};

}  // namespace cinch::host
