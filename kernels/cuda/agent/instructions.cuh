// Instructions of the device that C++ has no name for. tests/unit/kernels/cuda/simt.h says on a CPU
// what each of them does.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define CINCH_BEFORE_SM80
#endif

namespace cinch::cuda {

// Opens code that seldom runs. The compiler will not turn it into predicated instructions of the
// code around it, and tests/compile finds it by the instruction, a trigger for profilers' counters.
__device__ inline void markCold() {
  asm volatile("pmevent 0;");
}

// The T that the threads of a CTA have in common.
template <class T>
__device__ T& sharedMemory() {
  __shared__ T memory;
  return memory;
}

#if !defined(CINCH_BEFORE_SM80)
inline constexpr bool kHasNanMinimum = true;

// The smaller and the larger; NaN where either is NaN.
__device__ inline float minimumOrNan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ inline float maximumOrNan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// Two floats rounded to nearest, ties to even; `low` in the low half. NaN becomes 0x7fff.
inline constexpr bool kHasPackBf16 = true;
__device__ inline uint32_t packBf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ inline uint32_t packFp16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
#else
inline constexpr bool kHasNanMinimum = false;
inline constexpr bool kHasPackBf16 = false;
__device__ float minimumOrNan(float a, float b);
__device__ float maximumOrNan(float a, float b);
__device__ uint32_t packBf16(float low, float high);

__device__ inline uint32_t packFp16(float low, float high) {
  uint32_t packed;
  asm("{.reg .f16 a, b; cvt.rn.f16.f32 a, %1; cvt.rn.f16.f32 b, %2; mov.b32 %0, {a, b};}"
      : "=r"(packed)
      : "f"(low), "f"(high));
  return packed;
}
#endif

// The low or the high half, exactly.
__device__ inline float lowFp16(uint32_t packed) {
  float value;
  asm("{.reg .f16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, a;}" : "=f"(value) : "r"(packed));
  return value;
}
__device__ inline float highFp16(uint32_t packed) {
  float value;
  asm("{.reg .f16 a, b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, b;}" : "=f"(value) : "r"(packed));
  return value;
}

}  // namespace cinch::cuda

#endif
