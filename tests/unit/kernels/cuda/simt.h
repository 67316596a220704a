// Enough of CUDA's device language to run the kernels' agents on a CPU: every thread of a CTA is a
// fibre, and warp and CTA collectives make fibres wait for one another. Index arithmetic, packing,
// masks, tails and the participation of all lanes are checked by what comes out; races, between
// threads and between CTAs, by ThreadSanitizer, and accesses beyond memory by AddressSanitizer,
// where what is written in this language is compiled for one of them (CMakeLists.txt beside this).
//
// A misaligned vector access, a mask that is not all lanes, or a collective that not every lane
// reaches ends the test program with a message.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <source_location>

#include "kernels/element/element_traits.h"

#define __device__
#define __forceinline__ inline

namespace cinch::simt {

struct Index {
  uint32_t x, y, z;
};

struct Dim {
  Index grid;
  uint32_t nThreads;
};

// Runs `thread` for all threads of all CTAs. A few CTAs run at a time, as on a multiprocessor, and
// fibres take turns in an order that changes, the same in every run of the program.
void run(Dim dim, const std::function<void()>& thread);

// Where a collective stands in the sources.
using Place = std::source_location;

// All threads of the warp, or of the CTA, wait for one another, and see what the others wrote.
void joinWarp(Place place);
void joinCta(Place place);
// Of the threads of the CTA, those for which it is so; joins them.
uint32_t countInCta(bool isSo, Place place);
// What another lane of the warp gave. Orders no memory.
uint64_t exchange(uint64_t bits, uint32_t sourceLane, Place place);

// What was written before a fence can be read, by whoever draws on the same atomic afterwards and
// then has a fence of its own.
void fence(Place place);
void beforeAtomic(void* target);

// This CTA's memory of a kind, full of nonsense at first. `kind` tells kinds apart.
void* sharedMemory(const void* kind, size_t nBytes);

[[noreturn]] void fail(const char* message);

}  // namespace cinch::simt

extern cinch::simt::Index threadIdx, blockIdx, gridDim, blockDim;

struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};

namespace cinch::simt {

inline void checkMask(uint32_t mask) {
  if (mask != 0xffffffff) fail("a collective of some lanes");
}

template <class Value>
Value exchanged(Value value, uint32_t sourceLane, Place place) {
  static_assert(sizeof value <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(bits, sourceLane, place);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace cinch::simt

template <class Value>
Value __shfl_xor_sync(uint32_t mask, Value value, uint32_t distance,
                      cinch::simt::Place place = cinch::simt::Place::current()) {
  cinch::simt::checkMask(mask);
  return cinch::simt::exchanged(value, (threadIdx.x % 32) ^ distance, place);
}

inline bool __any_sync(uint32_t mask, bool value,
                       cinch::simt::Place place = cinch::simt::Place::current()) {
  uint32_t any = value;
  for (uint32_t distance = 16; distance > 0; distance /= 2)
    any |= __shfl_xor_sync(mask, any, distance, place);
  return any != 0;
}

inline void __syncwarp(cinch::simt::Place place = cinch::simt::Place::current()) {
  cinch::simt::joinWarp(place);
}

inline void __syncthreads(cinch::simt::Place place = cinch::simt::Place::current()) {
  cinch::simt::joinCta(place);
}

inline int __syncthreads_count(bool value,
                               cinch::simt::Place place = cinch::simt::Place::current()) {
  return static_cast<int>(cinch::simt::countInCta(value, place));
}
inline bool __syncthreads_and(bool value,
                              cinch::simt::Place place = cinch::simt::Place::current()) {
  return cinch::simt::countInCta(!value, place) == 0;
}

inline void __threadfence(cinch::simt::Place place = cinch::simt::Place::current()) {
  cinch::simt::fence(place);
}

// Atomics order nothing by themselves, and race with accesses that are none.
inline uint32_t atomicAdd(uint32_t* target, uint32_t value) {
  cinch::simt::beforeAtomic(target);
  return __atomic_fetch_add(target, value, __ATOMIC_RELAXED);
}
inline double atomicAdd(double* target, double value) {
  cinch::simt::beforeAtomic(target);
  double old, sum;
  __atomic_load(target, &old, __ATOMIC_RELAXED);
  sum = old + value;
  __atomic_store(target, &sum, __ATOMIC_RELAXED);
  return old;
}
inline void atomicOr(uint32_t* target, uint32_t value) {
  cinch::simt::beforeAtomic(target);
  __atomic_fetch_or(target, value, __ATOMIC_RELAXED);
}
inline uint32_t atomicExch(uint32_t* target, uint32_t value) {
  cinch::simt::beforeAtomic(target);
  return __atomic_exchange_n(target, value, __ATOMIC_RELAXED);
}
inline void atomicOr_system(uint32_t* target, uint32_t value) {
  atomicOr(target, value);
}

// kernels/cuda/agent/instructions.cuh
namespace cinch::cuda {

inline void markCold() {}

template <class T>
T& sharedMemory() {
  static constexpr char kKind = 0;
  static_assert(alignof(T) <= 16);
  return *static_cast<T*>(simt::sharedMemory(&kKind, sizeof(T)));
}

// Of the generations before 8.0, whose instructions are fewer, or of those since.
#if defined(CINCH_BEFORE_SM80)
inline constexpr bool kHasNanMinimum = false;
inline constexpr bool kHasPackBf16 = false;
#else
inline constexpr bool kHasNanMinimum = true;
inline constexpr bool kHasPackBf16 = true;
#endif

inline float minimumOrNan(float a, float b) {
  if (!kHasNanMinimum) simt::fail("an instruction that this generation has not");
  if (a != a || b != b) return std::numeric_limits<float>::quiet_NaN();
  return a < b ? a : b;
}
inline float maximumOrNan(float a, float b) {
  if (!kHasNanMinimum) simt::fail("an instruction that this generation has not");
  if (a != a || b != b) return std::numeric_limits<float>::quiet_NaN();
  return a > b ? a : b;
}

// The device has a NaN of its own.
template <ElementType type>
uint32_t roundedOnDevice(float value) {
  return value != value ? 0x7fff : ElementTraits<type>::fromFloat(value);
}
inline uint32_t packBf16(float low, float high) {
  if (!kHasPackBf16) simt::fail("an instruction that this generation has not");
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
