// Numbers by chance, fast and the same everywhere for a seed: the generators of the standard
// library are slow, and its distributions differ from library to library.
#pragma once

#include <cmath>
#include <cstdint>

namespace cinch::identity {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // SplitMix64.
  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // From 0 to n - 1.
  uint64_t below(uint64_t n) { return bits() % n; }
  // Both included.
  uint64_t between(uint64_t least, uint64_t most) { return least + below(most - least + 1); }
  int intBetween(int least, int most) {
    return static_cast<int>(between(0, static_cast<uint64_t>(most - least))) + least;
  }
  bool oneIn(uint64_t n) { return below(n) == 0; }
  bool withChance(double p) { return uniform() < p; }
  // From 0 to 1.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double uniform(double least, double most) { return least + (most - least) * uniform(); }
  double logUniform(double least, double most) {
    return least * std::exp(uniform() * std::log(most / least));
  }
  // Nearly normal, of variance 1: the sum of four 16-bit numbers. Its tails end at 3.5.
  float normal() {
    const uint64_t four = bits();
    const uint64_t sum =
        (four & 0xffff) + (four >> 16 & 0xffff) + (four >> 32 & 0xffff) + (four >> 48);
    constexpr float kMean = 2 * 65535.0f, kScale = 1.7320508f / 65536;
    return (static_cast<float>(sum) - kMean) * kScale;
  }

 private:
  uint64_t state_;
};

// What a bfloat16 keeps of a value: rounded to even.
float toBfloat16(float value);

}  // namespace cinch::identity
