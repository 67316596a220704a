// What one lane holds and moves at a time: eight values, or their codes. Memory is read and written
// in 16-byte accesses where it is aligned to them and all eight values exist, else one by one.
#pragma once

#include "kernels/cuda/agent/half_warp.cuh"

namespace cinch::cuda {

// Eight values as they lie in memory, or in fp32 on their way.
template <class Storage>
struct alignas(16) Octet {
  Storage at[kValuesPerLane];
};
using Values = Octet<float>;

__device__ inline Values filled(float value) {
  return {value, value, value, value, value, value, value, value};
}

inline constexpr uint32_t kVectorBytes = 16;

__device__ inline bool isVectorAligned(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) % kVectorBytes == 0;
}

// Reads the first `n` of eight values; the others are 0. Each is read once per call: it need not
// stay in a cache.
template <class Storage>
__device__ Octet<Storage> loadOctet(const Storage* from, uint32_t n) {
  Octet<Storage> octet = {};
  if (n == kValuesPerLane && isVectorAligned(from)) {
#pragma unroll
    for (uint32_t i = 0; i < sizeof octet / kVectorBytes; ++i) {
      const uint4 vector = __ldcs(reinterpret_cast<const uint4*>(from) + i);
      memcpy(reinterpret_cast<char*>(&octet) + i * kVectorBytes, &vector, kVectorBytes);
    }
  } else {
#pragma unroll
    for (uint32_t i = 0; i < kValuesPerLane; ++i)
      if (i < n) octet.at[i] = __ldcs(from + i);
  }
  return octet;
}

// Writes the first `n` of eight values.
template <class Storage>
__device__ void storeOctet(const Octet<Storage>& octet, Storage* to, uint32_t n) {
  if (n == kValuesPerLane && isVectorAligned(to)) {
#pragma unroll
    for (uint32_t i = 0; i < sizeof octet / kVectorBytes; ++i) {
      uint4 vector;
      memcpy(&vector, reinterpret_cast<const char*>(&octet) + i * kVectorBytes, kVectorBytes);
      __stcs(reinterpret_cast<uint4*>(to) + i, vector);
    }
  } else {
#pragma unroll
    for (uint32_t i = 0; i < kValuesPerLane; ++i)
      if (i < n) __stcs(to + i, octet.at[i]);
  }
}

// The values times `factor`.
template <ElementType type>
__device__ Values toValues(const Octet<typename ElementTraits<type>::Storage>& octet,
                           float factor) {
  Values values;
#pragma unroll
  for (uint32_t i = 0; i < kValuesPerLane; ++i)
    values.at[i] = ElementTraits<type>::toFloat(octet.at[i]) * factor;
  return values;
}

// Rounds the first `n` of eight values to their type and writes them. Returns whether they are
// finite as stored.
template <ElementType type>
__device__ bool storeValues(const Values& values, typename ElementTraits<type>::Storage* to,
                            uint32_t n) {
  Octet<typename ElementTraits<type>::Storage> octet;
  bool allFinite = true;
#pragma unroll
  for (uint32_t i = 0; i < kValuesPerLane; ++i) {
    octet.at[i] = ElementTraits<type>::fromFloat(values.at[i]);
    allFinite &= i >= n || ElementTraits<type>::isStorageFinite(octet.at[i]);
  }
  storeOctet(octet, to, n);
  return allFinite;
}

// The codes of eight values, value 0 in the lowest bits: a word of as many bytes as a code has
// bits.
template <wire::Codec codec>
struct CodeWord;
template <>
struct CodeWord<wire::Codec::q2> {
  using Type = uint16_t;
};
template <>
struct CodeWord<wire::Codec::q4> {
  using Type = uint32_t;
};
template <>
struct CodeWord<wire::Codec::q8> {
  using Type = uint64_t;
};

template <wire::Codec codec>
__device__ uint32_t codeAt(typename CodeWord<codec>::Type word, uint32_t i) {
  return static_cast<uint32_t>(word >> i * wire::bitsOf(codec)) & core::largestCode(codec);
}

}  // namespace cinch::cuda
