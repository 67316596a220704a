// FNV-1a, 64 bits: guards against accidents, not against attackers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cinch {

// `hash` is that of the bytes before, where these are only some of those that are hashed.
inline uint64_t hashBytes(const uint8_t* bytes, size_t n, uint64_t hash = 0xcbf29ce484222325) {
  for (size_t i = 0; i < n; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
  return hash;
}

inline uint64_t hashText(std::string_view text) {
  return hashBytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

}  // namespace cinch
