#include "interpose/agree/channel_key.h"

#include "common/param.h"

namespace cinch {
namespace {

enum class End : uint8_t { process = 1, server = 2 };

Proof proofOf(End end, const Key& key, const Random& opening, const Random& challenge) {
  const uint8_t who = static_cast<uint8_t>(end);
  return prove(key, {{&who, 1}, opening, challenge});
}

Error missingKey(const char* who) {
  return errorf(Status::invalidUsage,
                "%s has a key and the other end has none: set CINCH_KEY_FILE "
                "on all ranks or on none",
                who);
}

Error otherKey() {
  return errorf(
      Status::invalidUsage,
      "the other end's key differs: CINCH_KEY_FILE must hold the same bytes on all ranks");
}

// The next message of the server, which sends no other ones yet.
Result<Message> readMessage(const Socket& socket, MessageReader& reader, Deadline deadline) {
  for (;;) {
    auto frame = reader.next();
    CINCH_TRY(frame);
    if (frame.value()) return std::move(frame.value()->message);
    const auto ready = waitReadable(socket, deadline);
    CINCH_TRY(ready);
    if (!ready.value()) return errorf(Status::remoteError, "it does not answer");
    uint8_t bytes[256];
    const auto n = receiveSome(socket, bytes, sizeof bytes);
    CINCH_TRY(n);
    reader.append(bytes, n.value());
  }
}

}  // namespace

Result<Key> channelKey() {
  const std::string& path = processParams().params.keyFile;
  return path.empty() ? Result<Key>(Key()) : readKeyFile("CINCH_KEY_FILE", path);
}

Result<void> proveKey(const Socket& socket, const Key& key, Deadline deadline) {
  if (key.empty()) return {};
  const Opening opening{randomBytes16()};
  CINCH_TRY(sendAll(socket, encodeMessage(opening), deadline));
  MessageReader reader;
  reader.setLimit(kMaxHelloBytes);
  const auto answer = readMessage(socket, reader, deadline);
  CINCH_TRY(answer);
  if (const auto* rejected = std::get_if<Rejected>(&answer.value()))
    return errorf(Status::invalidUsage, "%s", rejected->reason.c_str());
  const auto* challenge = std::get_if<Challenge>(&answer.value());
  if (challenge == nullptr || isZero(challenge->number) || isZero(opening.number))
    return errorf(Status::remoteError, "it answers with something else than a proof of its key");
  if (!sameSecret(challenge->proof, proofOf(End::server, key, opening.number, challenge->number)))
    return otherKey();
  const KeyProof proof{proofOf(End::process, key, opening.number, challenge->number)};
  return sendAll(socket, encodeMessage(proof), deadline);
}

Result<Challenge> KeyCheck::take(const Opening& opening) {
  if (key_->empty()) return missingKey("this process");
  if (isProven_ || awaited_ || isZero(opening.number))
    return errorf(Status::remoteError, "a key is proved out of turn");
  const Random number = randomBytes16();
  awaited_ = proofOf(End::process, *key_, opening.number, number);
  return Challenge{number, proofOf(End::server, *key_, opening.number, number)};
}

Result<void> KeyCheck::take(const KeyProof& proof) {
  if (!awaited_) return errorf(Status::remoteError, "a key is proved out of turn");
  if (!sameSecret(*awaited_, proof.proof)) return otherKey();
  awaited_.reset();
  isProven_ = true;
  return {};
}

Result<void> KeyCheck::mayGoOn() const {
  return isProven_ ? Result<void>() : missingKey("the process that serves");
}

}  // namespace cinch
