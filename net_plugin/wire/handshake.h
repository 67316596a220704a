// How a flow opens: two processes that have never met prove that the one was invited by the other.
//
//   connecting side                                          listening side
//   Hello   {flow, link, from, to, features, nonce}  ->
//                             <-  Welcome {from, features, nonce, proof}
//   Confirm {proof}  ->                                      (only where a key is used)
//
// `to` is the listening process's random identity, which only a holder of its handle knows: a
// stranger on the port cannot guess it. With a key (CINCH_NET_KEY_FILE) both sides also prove that
// they hold it: proof = HMAC-SHA256(key, kind || Hello || Welcome without proof), where the kind is
// of the message that carries the proof. Without a key the Welcome's proof is made with an empty
// one: it then tells damage and old answers, not liars. A side with a key refuses one without, and
// the other way around. The handshakes draw the nonces, so old messages prove nothing.
//
// All numbers are little-endian. Offset, size, field:
//
//          Hello                                   Welcome
//    0  8  magic "CinchNet"                   0  8  magic "CinchNet"
//    8  2  version                            8  2  version
//   10  1  kind: 1                           10  1  kind: 2
//   11  1  1: the sender has a key           11  1  1: the sender has a key
//   12  2  features                          12  2  features
//   14  1  flow                              14  2  zero
//   15  1  flows                             16 16  from
//   16  8  link                              32 16  nonce
//   24 16  from                              48 32  proof
//   40 16  to
//   56 16  nonce                                    Confirm (kind 3)
//   72  4  zero                               0 32  proof
//   76  4  CRC32C of the 76 bytes before
//
// The first 11 bytes stay as they are in every version.
//
// An error of these classes says in words what is wrong and what helps. Its status tells who is
// there: invalidUsage a Cinch process that is set up otherwise, which a user wants to know of;
// remoteError anybody else, to be counted and dropped.
//
// The caller moves the bytes (or has a FlowOpening do it); these classes only say what to write and
// judge what was read. One thread at a time uses an object.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "common/network/secret.h"
#include "common/result.h"

namespace cinch::net {

inline constexpr uint16_t kProtocolVersion = 1;

using Identity = Random;  // of a process

struct Hello {
  uint16_t features = 0;  // bits that the sender has; both use what both have
  uint8_t flow = 0;       // which of the link's flows this connection becomes
  uint8_t flows = 0;      // how many the link has, 1 to kMaxFlows
  uint64_t link = 0;      // numbers the links that the connecting process has opened
  Identity from{};
  Identity to{};

  bool operator==(const Hello&) const = default;
};

struct Welcome {
  uint16_t features = 0;
  Identity from{};

  bool operator==(const Welcome&) const = default;
};

inline constexpr int kMaxFlows = 16;
inline constexpr size_t kHelloBytes = 80;
inline constexpr size_t kWelcomeBytes = 80;
inline constexpr size_t kConfirmBytes = 32;

using HelloBytes = std::array<uint8_t, kHelloBytes>;
using WelcomeBytes = std::array<uint8_t, kWelcomeBytes>;
using ConfirmBytes = std::array<uint8_t, kConfirmBytes>;

// Refuses bytes that no Hello and no Welcome begins with: another program is known by the first
// that it sends.
Result<void> checkFirstBytes(std::span<const uint8_t> bytes);

// The connecting side.
class ConnectingHandshake {
 public:
  ConnectingHandshake(const Hello& hello, const Key& key);

  std::span<const uint8_t> hello() const { return hello_; }
  // Judges the answer; then confirm() holds what is still to be written (nothing without a key).
  Result<Welcome> takeWelcome(std::span<const uint8_t, kWelcomeBytes> bytes);
  std::span<const uint8_t> confirm() const;

 private:
  Key key_;
  Identity to_;
  HelloBytes hello_;
  ConfirmBytes confirm_{};
  bool welcomed_ = false;
};

// The listening side.
class ListeningHandshake {
 public:
  ListeningHandshake(const Identity& self, uint16_t features, const Key& key);

  // Judges the first bytes of a stranger; then welcome() holds the answer.
  Result<Hello> takeHello(std::span<const uint8_t, kHelloBytes> bytes);
  std::span<const uint8_t> welcome() const { return welcome_; }
  // How many bytes of confirmation must come: 0 or kConfirmBytes.
  size_t confirmBytes() const { return key_.empty() ? 0 : kConfirmBytes; }
  // Only after takeHello() has taken one.
  Result<void> takeConfirm(std::span<const uint8_t, kConfirmBytes> bytes) const;

 private:
  Key key_;
  Identity self_;
  uint16_t features_;
  HelloBytes hello_{};
  WelcomeBytes welcome_{};
};

}  // namespace cinch::net
