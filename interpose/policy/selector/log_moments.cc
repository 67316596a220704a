#include "interpose/policy/selector/log_moments.h"

#include <bit>
#include <cstdlib>

namespace cinch {
namespace {

using Wide = __int128;  // products of sums

constexpr int kFractionBits = 16;

uint64_t rootOf(uint64_t square) {
  uint64_t root = 0;
  for (uint64_t bit = 1ull << 31; bit != 0; bit >>= 1)
    if ((root + bit) * (root + bit) <= square) root += bit;
  return root;
}

}  // namespace

// A bit of the fraction is whether the square of what is left is 2 or more.
int64_t logOf(uint64_t value) {
  const int whole = std::bit_width(value) - 1;
  uint64_t mantissa = value << (63 - whole);  // in [1, 2), as 1.63
  int64_t log = whole;
  for (int i = 0; i < kFractionBits; ++i) {
    const auto square = static_cast<unsigned __int128>(mantissa) * mantissa;
    const bool isTwo = (square >> 127) != 0;
    mantissa = static_cast<uint64_t>(square >> (isTwo ? 64 : 63));
    log = 2 * log + isTwo;
  }
  return log;
}

// By halving: the logarithm grows with what is sought.
uint64_t valueOf(int64_t log) {
  if (log <= 0) return 1;
  if (log >= 63 * kOctave) return UINT64_MAX;
  uint64_t value = 1ull << (log / kOctave);
  uint64_t step = value;
  for (int i = 0; i < 10; ++i)
    if (step /= 2; logOf(value + step) <= log) value += step;
  return value;
}

void LogMoments::add(int64_t log) {
  ++n_;
  sum_ += log;
  squares_ += log * log;
}

// Of an odd number one goes first, lest the mean moves: logarithms are far from 0.
void LogMoments::fade() {
  if (n_ % 2 != 0) {
    const int64_t usual = mean();
    --n_;
    sum_ -= usual;
    squares_ -= usual * usual;
  }
  n_ /= 2;
  sum_ /= 2;
  squares_ /= 2;
}

int64_t LogMoments::spread() const {
  if (n_ < 2) return 0;
  const Wide square = (static_cast<Wide>(n_) * squares_ - static_cast<Wide>(sum_) * sum_) /
                      (static_cast<Wide>(n_) * (n_ - 1));
  return square <= 0 ? 0 : static_cast<int64_t>(rootOf(static_cast<uint64_t>(square)));
}

// The squared standard error is (n squares - sum^2) / (n^2 (n - 1)). Of few values it is not known
// well either: the variance of Student's t with n - 1 degrees of freedom is (n - 1) / (n - 3).
bool LogMoments::isBeyond(int64_t halfErrors) const {
  if (n_ <= 3) return false;
  const Wide sum = sum_;
  const Wide scatter = static_cast<Wide>(n_) * squares_ - sum * sum;
  return 4 * (n_ - 3) * sum * sum > halfErrors * halfErrors * scatter;
}

}  // namespace cinch
