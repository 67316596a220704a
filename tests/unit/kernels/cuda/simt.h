// Enough of CUDA's device language to run the kernels' agents on a CPU: every thread of a CTA is a
// fibre, and warp and CTA collectives make fibres wait for one another. Index arithmetic, packing,
// masks, tails and the participation of all lanes are checked; races and memory ordering are not.
//
// Vector accesses must be aligned as on a device; a violation, or a collective that not every lane
// reaches, ends the test program with a message.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>

#include "kernels/element/element_traits.h"

#define __device__
#define __forceinline__ inline
#define __shared__ static  // one CTA runs at a time

namespace cinch::simt {

struct Index {
  uint32_t x, y, z;
};

struct Dim {
  Index grid;
  uint32_t nThreads;
};

// Runs `thread` for all threads of all CTAs, one CTA after the other.
void run(Dim dim, const std::function<void()>& thread);

// All threads of the warp, or of the CTA, wait for one another.
void joinWarp();
void joinCta();
// Where the threads of a warp, or of a CTA, leave values for one another.
uint64_t* warpSlots();
uint64_t* ctaSlots();
uint32_t nCtaThreads();

[[noreturn]] void fail(const char* message);

template <class Value>
Value exchange(Value value, uint32_t sourceLane);

}  // namespace cinch::simt

extern cinch::simt::Index threadIdx, blockIdx, gridDim, blockDim;

struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};

template <class Value>
Value cinch::simt::exchange(Value value, uint32_t sourceLane) {
  static_assert(sizeof value <= sizeof(uint64_t));
  std::memcpy(&warpSlots()[threadIdx.x % 32], &value, sizeof value);
  joinWarp();
  std::memcpy(&value, &warpSlots()[sourceLane], sizeof value);
  joinWarp();
  return value;
}

template <class Value>
Value __shfl_xor_sync(uint32_t, Value value, uint32_t distance) {
  return cinch::simt::exchange(value, (threadIdx.x % 32) ^ distance);
}

template <class Value>
Value __shfl_sync(uint32_t, Value value, uint32_t source, uint32_t width) {
  return cinch::simt::exchange(value, threadIdx.x % 32 / width * width + source % width);
}

inline bool __any_sync(uint32_t, bool value) {
  uint32_t any = value;
  for (uint32_t distance = 16; distance > 0; distance /= 2)
    any |= __shfl_xor_sync(~0u, any, distance);
  return any != 0;
}

inline void __syncwarp() {
  cinch::simt::joinWarp();
}

inline void __syncthreads() {
  cinch::simt::joinCta();
}

inline bool __syncthreads_and(bool value) {
  cinch::simt::ctaSlots()[threadIdx.x] = value;
  cinch::simt::joinCta();
  bool all = true;
  for (uint32_t i = 0; i < cinch::simt::nCtaThreads(); ++i) all &= cinch::simt::ctaSlots()[i] != 0;
  cinch::simt::joinCta();
  return all;
}

inline int __syncthreads_count(bool value) {
  cinch::simt::ctaSlots()[threadIdx.x] = value;
  cinch::simt::joinCta();
  uint64_t count = 0;
  for (uint32_t i = 0; i < cinch::simt::nCtaThreads(); ++i) count += cinch::simt::ctaSlots()[i];
  cinch::simt::joinCta();
  return static_cast<int>(count);
}

inline void __threadfence() {}

template <class Value>
Value atomicAdd(Value* target, Value value) {
  const Value old = *target;
  *target += value;
  return old;
}
inline void atomicOr(uint32_t* target, uint32_t value) {
  *target |= value;
}
inline uint32_t atomicExch(uint32_t* target, uint32_t value) {
  const uint32_t old = *target;
  *target = value;
  return old;
}
inline void atomicOr_system(uint32_t* target, uint32_t value) {
  *target |= value;
}

// kernels/cuda/agent/instructions.cuh
namespace cinch::cuda {

inline void markCold() {}

inline constexpr bool kHasNanMinimum = true;
inline constexpr bool kHasPackBf16 = true;

inline float minimumOrNan(float a, float b) {
  if (a != a || b != b) return std::numeric_limits<float>::quiet_NaN();
  return a < b ? a : b;
}
inline float maximumOrNan(float a, float b) {
  if (a != a || b != b) return std::numeric_limits<float>::quiet_NaN();
  return a > b ? a : b;
}

// The device has a NaN of its own.
template <ElementType type>
uint32_t roundedOnDevice(float value) {
  return value != value ? 0x7fff : ElementTraits<type>::fromFloat(value);
}
inline uint32_t packBf16(float low, float high) {
  return roundedOnDevice<ElementType::bf16>(low) | roundedOnDevice<ElementType::bf16>(high) << 16;
}
inline uint32_t packFp16(float low, float high) {
  return roundedOnDevice<ElementType::fp16>(low) | roundedOnDevice<ElementType::fp16>(high) << 16;
}
inline float lowFp16(uint32_t packed) {
  return ElementTraits<ElementType::fp16>::toFloat(static_cast<uint16_t>(packed));
}
inline float highFp16(uint32_t packed) {
  return ElementTraits<ElementType::fp16>::toFloat(static_cast<uint16_t>(packed >> 16));
}

}  // namespace cinch::cuda

template <class Value>
Value __ldcs(const Value* from) {
  if (reinterpret_cast<uintptr_t>(from) % sizeof(Value) != 0) cinch::simt::fail("misaligned load");
  return *from;
}

template <class Value>
void __stcs(Value* to, Value value) {
  if (reinterpret_cast<uintptr_t>(to) % sizeof(Value) != 0) cinch::simt::fail("misaligned store");
  *to = value;
}
