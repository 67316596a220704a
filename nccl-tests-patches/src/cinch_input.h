// Inputs like those of a training job, for nccl-tests: any process can work out what any rank
// sends. C++14, for the host and the device alike.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define CINCH_BOTH __host__ __device__
#else
#define CINCH_BOTH
#endif

namespace cinch {
inline namespace nccl_tests {  // the library has types of the same names

enum class InputKind { stock, gauss, student, file };

// What the ranks send. `recorded`: `count` values in the memory of whoever asks; null but for
// `file`.
struct Input {
  InputKind kind = InputKind::stock;
  const float* recorded = nullptr;
  size_t count = 0;
};

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
CINCH_BOTH inline uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A key for each fill of a buffer and each rank, so that none sends what another does.
CINCH_BOTH inline uint64_t keyOf(uint64_t seed, int rank) {
  return mixed(mixed(seed + 0x9e3779b97f4a7c15u) + static_cast<uint64_t>(rank));
}

// In (0, 1).
CINCH_BOTH inline double uniform(uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 0.5) * (1.0 / 9007199254740992.0);
}

// Of variance 1, by Box and Muller.
CINCH_BOTH inline double gaussian(uint64_t key, uint64_t index) {
  constexpr double kTwoPi = 6.283185307179586;
  const double radius = sqrt(-2 * log(uniform(mixed(key + 2 * index))));
  return radius * cos(kTwoPi * uniform(mixed(key + 2 * index + 1)));
}

// Student's t with 3 degrees of freedom, of which gradients' tails are. Not of variance 1: that of
// so heavy a tail is made by its few largest values.
CINCH_BOTH inline double studentT3(uint64_t key, uint64_t index) {
  double square = 0;
  for (uint64_t i = 1; i <= 3; ++i) {
    const double part = gaussian(key, 4 * index + i);
    square += part * part;
  }
  return gaussian(key, 4 * index) / sqrt(square / 3);
}

// Value `index` of a rank's buffer. Recorded values start at another place on each rank.
CINCH_BOTH inline double inputValue(const Input& input, uint64_t key, uint64_t index) {
  switch (input.kind) {
    case InputKind::gauss:
      return gaussian(key, index);
    case InputKind::student:
      return studentT3(key, index);
    case InputKind::file:
      return input.recorded[(index + key % input.count) % input.count];
    default:
      return 0;
  }
}

}  // namespace nccl_tests
}  // namespace cinch
