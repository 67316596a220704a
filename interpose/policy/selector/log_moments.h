// Times as logarithms, and what is known of many of them. In integers: every rank computes with
// the same timings and must come to the same, whatever its compiler does with floating point.
#pragma once

#include <cstdint>

namespace cinch {

// Logarithms are to base 2, in units of 1/65536: an octave is a factor of two.
inline constexpr int64_t kOctave = 65536;

// log2(value), rounded down to the unit; value > 0.
int64_t logOf(uint64_t value);
// 2^log to within 0.1 %, as far as that is a uint64_t.
uint64_t valueOf(int64_t log);

// Some logarithms, as far as their mean and spread go.
class LogMoments {
 public:
  void add(int64_t log);
  // Halves the weight of all so far.
  void fade();
  int64_t count() const { return n_; }
  int64_t mean() const { return n_ == 0 ? 0 : sum_ / n_; }
  // The standard deviation of one; 0 of fewer than two.
  int64_t spread() const;

  // Whether the mean is further from 0 than so many of its standard errors, in halves of one.
  bool isBeyond(int64_t halfErrors) const;

 private:
  int64_t n_ = 0, sum_ = 0, squares_ = 0;
};

}  // namespace cinch
