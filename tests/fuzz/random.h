// Random numbers that are the same on every machine and in every process: the standard library's
// distributions are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace cinch::fuzz {

// A bijection of 64-bit numbers without visible pattern.
inline uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix(seed + 0x9e3779b97f4a7c15u)) {}

  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15u); }
  // 0 to end - 1.
  int below(int end) { return static_cast<int>(next() % static_cast<uint64_t>(end)); }
  // first to last, both included.
  int between(int first, int last) { return first + below(last - first + 1); }
  bool percent(int chance) { return below(100) < chance; }

  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[next() % from.size()];
  }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[next() % from.size()];
  }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[next() % i]);
  }

 private:
  uint64_t state_;
};

}  // namespace cinch::fuzz
