#include "tests/fuzz/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/fuzz/random.h"

namespace cinch::fuzz {
namespace {

constexpr size_t kPatch = 128;  // values that share a magnitude: a block of the codec

double magnitude(uint64_t seed, size_t patch) {
  const auto base = static_cast<int>(seed % 9);
  return std::ldexp(1.0, -base - static_cast<int>(mix(seed + 31 * patch) % 3));
}

// Within [-1, 1], dense around 0.
double shape(uint64_t bits) {
  const double u = static_cast<double>(static_cast<int64_t>(bits) >> 11) * 0x1p-52;
  return u * std::fabs(u);
}

uint16_t bfloatBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class T>
void put(unsigned char* at, T value) {
  memcpy(at, &value, sizeof value);
}

template <class T>
double get(const unsigned char* at) {
  T value;
  memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

double getBfloat(const unsigned char* at) {
  uint16_t half;
  memcpy(&half, at, 2);
  const uint32_t wide = static_cast<uint32_t>(half) << 16;
  float value;
  memcpy(&value, &wide, 4);
  return value;
}

}  // namespace

size_t bytesOf(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

bool isFloat(ncclDataType_t type) {
  return type == ncclFloat16 || type == ncclFloat32 || type == ncclFloat64 || type == ncclBfloat16;
}

double load(const unsigned char* at, ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return get<int8_t>(at);
    case ncclUint8:
      return get<uint8_t>(at);
    case ncclInt32:
      return get<int32_t>(at);
    case ncclUint32:
      return get<uint32_t>(at);
    case ncclInt64:
      return get<int64_t>(at);
    case ncclUint64:
      return get<uint64_t>(at);
    case ncclFloat16:
      return get<_Float16>(at);
    case ncclFloat64:
      return get<double>(at);
    case ncclBfloat16:
      return getBfloat(at);
    default:
      return get<float>(at);
  }
}

void store(unsigned char* at, ncclDataType_t type, double value) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return put(at, static_cast<int8_t>(value));
    case ncclInt32:
    case ncclUint32:
      return put(at, static_cast<int32_t>(value));
    case ncclInt64:
    case ncclUint64:
      return put(at, static_cast<int64_t>(value));
    case ncclFloat16:
      return put(at, static_cast<_Float16>(value));
    case ncclFloat64:
      return put(at, value);
    case ncclBfloat16:
      return put(at, bfloatBits(static_cast<float>(value)));
    default:
      return put(at, static_cast<float>(value));
  }
}

void fillInput(const DataKey& key, int worldRank, ncclDataType_t type, size_t first, size_t count,
               unsigned char* out) {
  const uint64_t stream =
      mix(key.seed ^ mix(static_cast<uint64_t>(key.uid) << 24 |
                         static_cast<uint64_t>(key.round) << 8 | static_cast<uint64_t>(worldRank)));
  const size_t nBytes = bytesOf(type);
  for (size_t i = first; i < first + count; ++i, out += nBytes) {
    const uint64_t bits = mix(stream + i);
    const double value = isFloat(type) ? shape(bits) * magnitude(key.seed, i / kPatch)
                                       : static_cast<double>(bits % 3);
    store(out, type, value);
  }
}

double envelope(uint64_t seed, size_t index) {
  const size_t patch = index / kPatch;
  const double before = patch > 0 ? magnitude(seed, patch - 1) : 0;
  return std::max({before, magnitude(seed, patch), magnitude(seed, patch + 1)});
}

double roundingOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
      return 0x1p-11;
    case ncclBfloat16:
      return 0x1p-8;
    case ncclFloat64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

uint64_t hashOf(const unsigned char* data, size_t nBytes, uint64_t start) {
  uint64_t hash = start;
  size_t i = 0;
  for (; i + 8 <= nBytes; i += 8) {
    uint64_t word;
    memcpy(&word, data + i, 8);
    hash = mix(hash ^ word);
  }
  for (; i < nBytes; ++i) hash = mix(hash ^ data[i]);
  return hash;
}

}  // namespace cinch::fuzz
