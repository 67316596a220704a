// Test values of every element type, written without the code under test.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/nccl_types.h"

namespace cinch::test {

inline constexpr ncclDataType_t kNumericTypes[] = {
    ncclInt8,   ncclUint8,   ncclInt32,   ncclUint32,  ncclInt64,
    ncclUint64, ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16};

inline size_t typeBytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

inline bool isFloating(ncclDataType_t type) {
  return type == ncclFloat16 || type == ncclFloat32 || type == ncclFloat64 || type == ncclBfloat16;
}

inline bool isUnsigned(ncclDataType_t type) {
  return type == ncclUint8 || type == ncclUint32 || type == ncclUint64;
}

// Bits of the fraction, the leading one not counted.
inline int fractionBits(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
      return 10;
    case ncclBfloat16:
      return 7;
    case ncclFloat32:
      return 23;
    default:
      return 52;
  }
}

// The bits of a short float that equals `value` exactly (a normal number or zero).
inline uint16_t shortFloatBits(double value, int nFraction, int bias) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<uint16_t>(std::ldexp(fraction, nFraction + 1));
  const uint16_t sign = value < 0 ? 0x8000 : 0;
  const int biased = exponent - 1 + bias;
  return static_cast<uint16_t>(sign | biased << nFraction | (mantissa & ((1 << nFraction) - 1)));
}

inline double shortFloatValue(uint16_t bits, int nFraction, int bias) {
  const int mantissa = bits & ((1 << nFraction) - 1);
  const int biased = (bits & 0x7fff) >> nFraction;
  const double magnitude = biased == 0
                               ? std::ldexp(mantissa, 1 - bias - nFraction)
                               : std::ldexp(mantissa + (1 << nFraction), biased - bias - nFraction);
  return bits & 0x8000 ? -magnitude : magnitude;
}

template <class T>
void put(std::vector<char>* buffer, size_t index, T value) {
  memcpy(buffer->data() + index * sizeof value, &value, sizeof value);
}

template <class T>
T get(const std::vector<char>& buffer, size_t index) {
  T value;
  memcpy(&value, buffer.data() + index * sizeof value, sizeof value);
  return value;
}

// Stores `value`, which the type can hold exactly, as element number `index`.
inline void store(ncclDataType_t type, std::vector<char>* buffer, size_t index, double value) {
  switch (type) {
    case ncclInt8:
      return put(buffer, index, static_cast<int8_t>(value));
    case ncclUint8:
      return put(buffer, index, static_cast<uint8_t>(value));
    case ncclInt32:
      return put(buffer, index, static_cast<int32_t>(value));
    case ncclUint32:
      return put(buffer, index, static_cast<uint32_t>(value));
    case ncclInt64:
      return put(buffer, index, static_cast<int64_t>(value));
    case ncclUint64:
      return put(buffer, index, static_cast<uint64_t>(value));
    case ncclFloat16:
      return put(buffer, index, shortFloatBits(value, 10, 15));
    case ncclBfloat16:
      return put(buffer, index, shortFloatBits(value, 7, 127));
    case ncclFloat32:
      return put(buffer, index, static_cast<float>(value));
    default:
      return put(buffer, index, value);
  }
}

inline double load(ncclDataType_t type, const std::vector<char>& buffer, size_t index) {
  switch (type) {
    case ncclInt8:
      return get<int8_t>(buffer, index);
    case ncclUint8:
      return get<uint8_t>(buffer, index);
    case ncclInt32:
      return get<int32_t>(buffer, index);
    case ncclUint32:
      return get<uint32_t>(buffer, index);
    case ncclInt64:
      return static_cast<double>(get<int64_t>(buffer, index));
    case ncclUint64:
      return static_cast<double>(get<uint64_t>(buffer, index));
    case ncclFloat16:
      return shortFloatValue(get<uint16_t>(buffer, index), 10, 15);
    case ncclBfloat16:
      return shortFloatValue(get<uint16_t>(buffer, index), 7, 127);
    case ncclFloat32:
      return get<float>(buffer, index);
    default:
      return get<double>(buffer, index);
  }
}

}  // namespace cinch::test
