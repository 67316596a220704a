#include "net_plugin/wire/handshake.h"

#include <algorithm>
#include <string_view>

#include "common/byte_order.h"
#include "net_plugin/wire/checksum.h"

namespace cinch::net {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "CinchNet"sv;
constexpr size_t kGuardedHelloBytes = kHelloBytes - sizeof(uint32_t);
constexpr size_t kHelloNonceAt = 56;
constexpr size_t kWelcomeNonceAt = 32;
constexpr size_t kProofAt = kWelcomeBytes - sizeof(Proof);

enum class Kind : uint8_t { hello = 1, welcome = 2, confirm = 3 };

void storeHead(Kind kind, bool hasKey, uint16_t features, uint8_t* out) {
  std::copy(kMagic.begin(), kMagic.end(), out);
  storeLittle(kProtocolVersion, out + 8);
  out[10] = static_cast<uint8_t>(kind);
  out[11] = hasKey ? 1 : 0;
  storeLittle(features, out + 12);
}

void store(const Random& bytes, uint8_t* out) {
  std::copy(bytes.begin(), bytes.end(), out);
}

Random loadRandom(const uint8_t* in) {
  Random bytes;
  std::copy_n(in, bytes.size(), bytes.begin());
  return bytes;
}

// With a nonce that is new.
HelloBytes encode(const Hello& hello, bool hasKey) {
  HelloBytes bytes{};
  uint8_t* out = bytes.data();
  storeHead(Kind::hello, hasKey, hello.features, out);
  out[14] = hello.flow;
  out[15] = hello.flows;
  storeLittle(hello.link, out + 16);
  store(hello.from, out + 24);
  store(hello.to, out + 40);
  store(randomBytes16(), out + kHelloNonceAt);
  storeLittle(crc32c(out, kGuardedHelloBytes), out + kGuardedHelloBytes);
  return bytes;
}

Hello decodeHello(const uint8_t* in) {
  return {.features = loadLittle<uint16_t>(in + 12),
          .flow = in[14],
          .flows = in[15],
          .link = loadLittle<uint64_t>(in + 16),
          .from = loadRandom(in + 24),
          .to = loadRandom(in + 40)};
}

// With a nonce that is new. The proof is still missing.
WelcomeBytes encode(const Welcome& welcome, bool hasKey) {
  WelcomeBytes bytes{};
  storeHead(Kind::welcome, hasKey, welcome.features, bytes.data());
  store(welcome.from, &bytes[16]);
  store(randomBytes16(), &bytes[kWelcomeNonceAt]);
  return bytes;
}

Welcome decodeWelcome(const uint8_t* in) {
  return {.features = loadLittle<uint16_t>(in + 12), .from = loadRandom(in + 16)};
}

Proof proofOf(Kind carrier, const Key& key, std::span<const uint8_t, kHelloBytes> hello,
              std::span<const uint8_t, kWelcomeBytes> welcome) {
  const uint8_t kind = static_cast<uint8_t>(carrier);
  return prove(key, {{&kind, 1}, hello, welcome.first<kProofAt>()});
}

Error refusal(const char* why) {
  return errorf(Status::remoteError, "%s", why);
}

Result<void> checkHead(Kind kind, const uint8_t* in) {
  CINCH_TRY(checkFirstBytes({in, kMagic.size()}));
  const unsigned version = loadLittle<uint16_t>(in + 8);
  if (version != kProtocolVersion)
    return errorf(Status::invalidUsage,
                  "it speaks version %u of Cinch's network protocol and this process version %u: "
                  "give all ranks the same libnccl-net-cinch.so",
                  version, kProtocolVersion);
  if (in[10] != static_cast<uint8_t>(kind))
    return refusal("it plays the wrong side of Cinch's network protocol");
  return {};
}

Result<void> checkHasKey(uint8_t theirs, bool ours) {
  if (theirs == (ours ? 1 : 0)) return {};
  return errorf(Status::invalidUsage,
                "it has %s key and this process has %s: set CINCH_NET_KEY_FILE on all ranks or on "
                "none",
                ours ? "no" : "a", ours ? "one" : "none");
}

Result<void> checkProof(bool hasKey, const Proof& expected, std::span<const uint8_t> proof) {
  if (sameSecret(expected, proof)) return {};
  if (!hasKey) return refusal("its answer is damaged, or one to another hello");
  return errorf(Status::invalidUsage,
                "its key differs from that of this process (or its proof is damaged or an old "
                "one): CINCH_NET_KEY_FILE must hold the same bytes on all ranks");
}

}  // namespace

Result<void> checkFirstBytes(std::span<const uint8_t> bytes) {
  const size_t n = std::min(bytes.size(), kMagic.size());
  if (std::equal(kMagic.begin(), kMagic.begin() + n, bytes.begin())) return {};
  return refusal("it is not a Cinch peer: another program has found this port");
}

ConnectingHandshake::ConnectingHandshake(const Hello& hello, const Key& key)
    : key_(key), to_(hello.to), hello_(encode(hello, !key.empty())) {}

Result<Welcome> ConnectingHandshake::takeWelcome(std::span<const uint8_t, kWelcomeBytes> bytes) {
  const uint8_t* in = bytes.data();
  const bool hasKey = !key_.empty();
  CINCH_TRY(checkHead(Kind::welcome, in));
  CINCH_TRY(checkHasKey(in[11], hasKey));
  const Proof expected = proofOf(Kind::welcome, key_, hello_, bytes);
  CINCH_TRY(checkProof(hasKey, expected, bytes.subspan<kProofAt>()));
  const Welcome welcome = decodeWelcome(in);
  if (welcome.from != to_)
    return refusal("another process answers than the one that was asked for");
  if (isZero(loadRandom(in + kWelcomeNonceAt)) || loadLittle<uint16_t>(in + 14) != 0)
    return refusal("its answer is malformed");
  confirm_ = proofOf(Kind::confirm, key_, hello_, bytes);
  welcomed_ = true;
  return welcome;
}

std::span<const uint8_t> ConnectingHandshake::confirm() const {
  const bool isOwed = welcomed_ && !key_.empty();
  return std::span(confirm_).first(isOwed ? kConfirmBytes : 0);
}

ListeningHandshake::ListeningHandshake(const Identity& self, uint16_t features, const Key& key)
    : key_(key), self_(self), features_(features) {}

Result<Hello> ListeningHandshake::takeHello(std::span<const uint8_t, kHelloBytes> bytes) {
  const uint8_t* in = bytes.data();
  CINCH_TRY(checkHead(Kind::hello, in));
  if (loadLittle<uint32_t>(in + kGuardedHelloBytes) != crc32c(in, kGuardedHelloBytes))
    return refusal("its hello arrived damaged");
  const Hello hello = decodeHello(in);
  // Before all that tells about this process: who does not know it learns nothing of it.
  if (!sameSecret(hello.to, self_) || isZero(self_))
    return refusal("it asks for another process than this one: its handle is an old one");
  CINCH_TRY(checkHasKey(in[11], !key_.empty()));
  if (hello.flows < 1 || hello.flows > kMaxFlows || hello.flow >= hello.flows ||
      isZero(hello.from) || isZero(loadRandom(in + kHelloNonceAt)) ||
      loadLittle<uint32_t>(in + 72) != 0)
    return refusal("its hello is malformed");
  std::copy(bytes.begin(), bytes.end(), hello_.begin());
  welcome_ = encode(Welcome{features_, self_}, !key_.empty());
  const Proof proof = proofOf(Kind::welcome, key_, hello_, welcome_);
  std::copy(proof.begin(), proof.end(), &welcome_[kProofAt]);
  return hello;
}

Result<void> ListeningHandshake::takeConfirm(std::span<const uint8_t, kConfirmBytes> bytes) const {
  return checkProof(!key_.empty(), proofOf(Kind::confirm, key_, hello_, welcome_), bytes);
}

}  // namespace cinch::net
