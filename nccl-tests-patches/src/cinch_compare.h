// Results beside what they should be, within what a codec may do to them. C++14; the work on values
// runs on the device where nvcc compiles this, else on the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "cinch_input.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <mutex>
#define CINCH_ERROR cudaError_t
#else
#define CINCH_ERROR int
#endif

namespace cinch {
inline namespace nccl_tests {  // the library has types of the same names

// What a codec does to values in one round trip, as `cinch explain --tolerance CODEC` states it.
struct Tolerance {
  bool isGiven = false;
  double value = 0;  // of one value, as a part of the largest magnitude that is coded
  double nmse = 0;   // squared error over squared signal
};

// From "VALUE,NMSE"; false, with a line on standard error, where that is something else.
inline bool parseTolerance(const char* text, Tolerance* tolerance) {
  char* end = nullptr;
  tolerance->value = strtod(text, &end);
  if (end != text && *end == ',') {
    const char* second = end + 1;
    tolerance->nmse = strtod(second, &end);
    const bool isGood = end != second && *end == 0 && std::isfinite(tolerance->value) &&
                        std::isfinite(tolerance->nmse) && tolerance->value >= 0 &&
                        tolerance->nmse >= 0;
    tolerance->isGiven = isGood;
    if (isGood) return true;
  }
  fprintf(stderr,
          "--cinch-tolerance: \"%s\" is not VALUE,NMSE, two numbers that `cinch explain "
          "--tolerance CODEC` prints\n",
          text);
  return false;
}

// What a call does with the ranks' values.
struct Reach {
  int nRanks;
  bool averages;
  double step;  // of rounding to the type, as a part of the value

  double share() const { return averages ? 1.0 / nRanks : 1; }
};

// Sums over values; those of results are per check, of all devices of a thread.
struct Sums {
  double largest = 0;
  double squares = 0;
  double squaredError = 0;
  double squaredSignal = 0;
  unsigned long long wrong = 0;

  bool reduces = false;
  double largestSent = 0;
  double meanSquareSent = 0;
  unsigned long long count = 0;
  Reach reach = {1, false, 0};

  void noteSent(const Sums& found, size_t n) {
    largestSent = std::max(largestSent, found.largest);
    if (n > 0) meanSquareSent = std::max(meanSquareSent, found.squares / static_cast<double>(n));
  }
  void addChecked(const Sums& found, size_t n, const Reach& of) {
    squaredError += found.squaredError;
    squaredSignal += found.squaredSignal;
    wrong += found.wrong;
    count += n;
    reach = of;
  }
  double nmse() const {
    if (squaredError == 0) return 0;
    return squaredSignal > 0 ? squaredError / squaredSignal : HUGE_VAL;
  }
};

// How far a value may be off: what each rank sends is coded once, what comes of it once more, and
// every addition rounds.
inline double valueBound(const Tolerance& codec, const Reach& reach, const Sums& sent,
                         double largestResult) {
  const double contributions = reach.nRanks * sent.largestSent * reach.share();
  return codec.value * (contributions + largestResult) +
         reach.step * reach.nRanks * std::max(contributions, largestResult);
}

// And all together, `count` of them, over the square of what they should be. Without a codec the
// single values decide.
inline double nmseBound(const Tolerance& codec, const Sums& sums, double count) {
  if (!codec.isGiven) return HUGE_VAL;
  const Reach& reach = sums.reach;
  const double result = std::max(sums.squaredSignal / std::max(count, 1.0), 1e-300);
  const double sent = reach.nRanks * sums.meanSquareSent * reach.share() * reach.share();
  const double rounding = reach.step * reach.nRanks;
  return codec.nmse * (sent + result) / result + rounding * rounding * (sent + result) / result;
}

CINCH_BOTH inline double toDouble(float value) {
  return value;
}
CINCH_BOTH inline double toDouble(double value) {
  return value;
}
CINCH_BOTH inline void store(float* to, double value) {
  *to = static_cast<float>(value);
}
CINCH_BOTH inline void store(double* to, double value) {
  *to = value;
}

template <class T>
struct Rounding;
template <>
struct Rounding<float> {
  static constexpr double kStep = 1.0 / (1 << 23);
};
template <>
struct Rounding<double> {
  static constexpr double kStep = 1.0 / (1ll << 52);
};

#ifdef __CUDACC__
CINCH_BOTH inline double toDouble(half value) {
  return __half2float(value);
}
CINCH_BOTH inline double toDouble(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
CINCH_BOTH inline void store(half* to, double value) {
  *to = __float2half(static_cast<float>(value));
}
CINCH_BOTH inline void store(__nv_bfloat16* to, double value) {
  *to = __float2bfloat16(static_cast<float>(value));
}
template <>
struct Rounding<half> {
  static constexpr double kStep = 1.0 / (1 << 10);
};
template <>
struct Rounding<__nv_bfloat16> {
  static constexpr double kStep = 1.0 / (1 << 7);
};
#endif

// Values from `offset` on of what several ranks send, added, times `share`. Contributions are
// rounded to the type before they are added, as they are when they are sent.
template <class T>
struct FillSum {
  T* data;
  size_t offset;
  Input input;
  uint64_t seed;
  int firstRank;
  int nRanks;
  double share;

  CINCH_BOTH void operator()(size_t i) const {
    double sum = 0;
    for (int rank = firstRank; rank < firstRank + nRanks; ++rank) {
      T sent;
      store(&sent, inputValue(input, keyOf(seed, rank), offset + i));
      sum += toDouble(sent);
    }
    store(data + i, sum * share);
  }
};

// Each adds what it finds at one place to a part's sums.
template <class T>
struct Magnitudes {
  const T* values;

  CINCH_BOTH void operator()(size_t i, Sums* sums) const {
    const double value = toDouble(values[i]);
    if (!(fabs(value) <= sums->largest)) sums->largest = fabs(value);
    sums->squares += value * value;
  }
};

template <class T>
struct Differences {
  const T* results;
  const T* expected;
  double bound;

  CINCH_BOTH void operator()(size_t i, Sums* sums) const {
    const double right = toDouble(expected[i]);
    const double error = fabs(toDouble(results[i]) - right);
    sums->wrong += !(error <= bound);  // NaN too
    sums->squaredError += error * error;
    sums->squaredSignal += right * right;
  }
};

// NaN stays.
inline void merge(Sums* all, const Sums& part) {
  if (!(part.largest <= all->largest)) all->largest = part.largest;
  all->squares += part.squares;
  all->squaredError += part.squaredError;
  all->squaredSignal += part.squaredSignal;
  all->wrong += part.wrong;
}

#ifdef __CUDACC__

constexpr int kBlocks = 256;
constexpr int kThreads = 256;

template <class Function>
__global__ void eachValue(size_t count, Function function) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride)
    function(i);
}

template <class Function>
__global__ void sumsOfThreads(size_t count, Function function, Sums* parts) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  const size_t first = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  Sums sums = parts[first];
  for (size_t i = first; i < count; i += stride) function(i, &sums);
  parts[first] = sums;
}

// Calls function(i) for all i < count on the current device; waits for it.
template <class Function>
CINCH_ERROR forEach(size_t count, Function function) {
  eachValue<<<kBlocks, kThreads>>>(count, function);
  const cudaError_t error = cudaGetLastError();
  return error != cudaSuccess ? error : cudaDeviceSynchronize();
}

// The sums of function(i, sums) over all i < count, on the current device.
template <class Function>
CINCH_ERROR reduceOnDevice(size_t count, Function function, Sums* all) {
  constexpr size_t kParts = static_cast<size_t>(kBlocks) * kThreads;
  static Sums parts[kParts];
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  std::fill(parts, parts + kParts, Sums());
  void* parts_dev = nullptr;
  cudaError_t error = cudaMalloc(&parts_dev, sizeof parts);
  if (error != cudaSuccess) return error;
  error = cudaMemcpy(parts_dev, parts, sizeof parts, cudaMemcpyDefault);
  if (error == cudaSuccess) {
    sumsOfThreads<<<kBlocks, kThreads>>>(count, function, static_cast<Sums*>(parts_dev));
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaMemcpy(parts, parts_dev, sizeof parts, cudaMemcpyDefault);
  cudaFree(parts_dev);
  for (const Sums& part : parts) merge(all, part);
  return error;
}

#else

template <class Function>
CINCH_ERROR forEach(size_t count, Function function) {
  for (size_t i = 0; i < count; ++i) function(i);
  return 0;
}

template <class Function>
CINCH_ERROR reduceOnDevice(size_t count, Function function, Sums* all) {
  for (size_t i = 0; i < count; ++i) function(i, all);
  return 0;
}

#endif

}  // namespace nccl_tests
}  // namespace cinch
