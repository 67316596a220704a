// What keeps strangers out: a key that users share, proofs made with it, numbers nobody can guess.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"

namespace cinch {

using Key = std::vector<uint8_t>;  // empty: none
using Random = std::array<uint8_t, 16>;
using Proof = std::array<uint8_t, 32>;

inline constexpr size_t kMinKeyBytes = 16;
inline constexpr size_t kMaxKeyBytes = 4096;

// Reads the key in the file that `variable` names: the file's bytes without one newline at the end,
// kMinKeyBytes to kMaxKeyBytes. It is this user's or root's, and nobody else may be able to read it
// but one of this user's groups. The error names the file, what is wrong and what helps.
Result<Key> readKeyFile(const char* variable, const std::string& path);

// Random bytes from the kernel. Zeros where it has none (a filter of system calls may forbid them),
// which no opening takes.
Random randomBytes16();
bool isZero(const Random& bytes);

// HMAC-SHA256 (RFC 2104) of the parts one after another.
Proof prove(const Key& key, std::initializer_list<std::span<const uint8_t>> parts);

// Takes as long wherever they differ. Of the same length.
bool sameSecret(std::span<const uint8_t> a, std::span<const uint8_t> b);

}  // namespace cinch
