// What the fuzz targets of the wire have in common: their input, and how they fail.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace cinch::net {

// The fuzzer's bytes, taken from the front; zeros where there are no more.
class FuzzBytes {
 public:
  explicit FuzzBytes(std::span<const uint8_t> bytes) : left_(bytes) {}

  bool isEmpty() const { return left_.empty(); }
  uint8_t byte() { return take<1>()[0]; }
  template <size_t n>
  std::array<uint8_t, n> take() {
    std::array<uint8_t, n> taken{};
    const auto bytes = takeUpTo(n);
    std::copy(bytes.begin(), bytes.end(), taken.begin());
    return taken;
  }
  std::span<const uint8_t> takeUpTo(size_t n) {
    const auto taken = left_.first(std::min(n, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const uint8_t> left_;
};

template <size_t n>
std::array<uint8_t, n> masked(std::array<uint8_t, n> bytes, const std::array<uint8_t, n>& mask) {
  for (size_t i = 0; i < n; ++i) bytes[i] ^= mask[i];
  return bytes;
}

template <size_t n>
bool isZero(const std::array<uint8_t, n>& bytes) {
  return bytes == std::array<uint8_t, n>{};
}

// The fuzzer keeps the input of a process that aborts.
inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

}  // namespace cinch::net
