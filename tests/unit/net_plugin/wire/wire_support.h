// Two processes that might meet.
#pragma once

#include <algorithm>
#include <cstddef>

#include "common/byte_order.h"
#include "net_plugin/wire/checksum.h"
#include "net_plugin/wire/handshake.h"

namespace cinch::net {

// Places in the messages, from the tables in handshake.h.
inline constexpr size_t kVersionAt = 8;
inline constexpr size_t kKindAt = 10;
inline constexpr size_t kHasKeyAt = 11;
inline constexpr size_t kFlowAt = 14;
inline constexpr size_t kFlowsAt = 15;
inline constexpr size_t kHelloFromAt = 24;
inline constexpr size_t kHelloNonceAt = 56;
inline constexpr size_t kHelloZerosAt = 72;
inline constexpr size_t kHelloChecksumAt = 76;
inline constexpr size_t kWelcomeZerosAt = 14;
inline constexpr size_t kWelcomeFromAt = 16;
inline constexpr size_t kWelcomeNonceAt = 32;
inline constexpr size_t kWelcomeProofAt = 48;

inline Identity identity(uint8_t number) {
  Identity made;
  made.fill(number);
  return made;
}

inline const Identity kConnecting = identity(0x11);
inline const Identity kListening = identity(0x22);

inline Key key(uint8_t number) {
  return Key(kMinKeyBytes, number);
}

inline Hello sampleHello() {
  return {.features = 0x0005,
          .flow = 2,
          .flows = 4,
          .link = 0x1122334455667788,
          .from = kConnecting,
          .to = kListening};
}

template <size_t n>
std::array<uint8_t, n> copyOf(std::span<const uint8_t> bytes) {
  std::array<uint8_t, n> copy{};
  std::copy_n(bytes.begin(), std::min(n, bytes.size()), copy.begin());
  return copy;
}

template <size_t n>
std::array<uint8_t, n> withBitFlipped(std::array<uint8_t, n> bytes, size_t bit) {
  bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  return bytes;
}

// After a change that is to be judged by itself.
inline HelloBytes withChecksum(HelloBytes bytes) {
  storeLittle(crc32c(bytes.data(), kHelloChecksumAt), &bytes[kHelloChecksumAt]);
  return bytes;
}

inline WelcomeBytes withProof(WelcomeBytes welcome, std::span<const uint8_t> hello,
                              const Key& key) {
  const uint8_t kind = 2;
  const Proof proof = prove(key, {{&kind, 1}, hello, std::span(welcome).first(kWelcomeProofAt)});
  std::copy(proof.begin(), proof.end(), &welcome[kWelcomeProofAt]);
  return welcome;
}

}  // namespace cinch::net
