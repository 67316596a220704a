// Little-endian integers in byte buffers, whatever the host's own order.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace cinch {

template <std::unsigned_integral T>
void storeLittle(T value, uint8_t* out) {
  for (size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<uint8_t>(value >> (8 * i));
}

template <std::unsigned_integral T>
T loadLittle(const uint8_t* in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | (T{in[i]} << (8 * i)));
  return value;
}

}  // namespace cinch
