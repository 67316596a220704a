#include "interpose/agree/channel_key.h"

#include "common/byte_order.h"
#include "common/param.h"

namespace cinch {
namespace {

enum class Giver : uint8_t { joiningRank = 1, server = 2, askingRank = 3 };

Giver rankThat(Purpose purpose) {
  return purpose == Purpose::join ? Giver::joiningRank : Giver::askingRank;
}

Proof proofOf(Giver giver, const HelloMessage& hello, const Key& key) {
  uint8_t facts[1 + 2 * sizeof(uint64_t)];
  facts[0] = static_cast<uint8_t>(giver);
  storeLittle(hello.nonce, facts + 1);
  storeLittle(static_cast<uint64_t>(hello.hello.rank), facts + 1 + sizeof(uint64_t));
  return prove(key, {facts, hello.number});
}

Error onlyOneHasAKey(const char* who) {
  return errorf(Status::invalidUsage,
                "%s has a key and the other one has none: set CINCH_KEY_FILE on all ranks or on "
                "none",
                who);
}

Error keysDiffer() {
  return errorf(
      Status::invalidUsage,
      "its key differs from this process's: CINCH_KEY_FILE must hold the same bytes on all "
      "ranks");
}

}  // namespace

Result<Key> channelKey() {
  const std::string& path = processParams().params.keyFile;
  return path.empty() ? Result<Key>(Key()) : readKeyFile("CINCH_KEY_FILE", path);
}

void sign(HelloMessage& hello, const Key& key, Purpose purpose) {
  if (key.empty()) return;
  hello.number = randomBytes16();
  hello.proof = proofOf(rankThat(purpose), hello, key);
}

Result<Proof> answerTo(const HelloMessage& hello, const Key& key, Purpose purpose) {
  const bool isSigned = !isZero(hello.number);
  if (isSigned != !key.empty())
    return onlyOneHasAKey(isSigned ? "this process" : "the process that serves");
  if (key.empty()) return Proof{};
  if (!sameSecret(hello.proof, proofOf(rankThat(purpose), hello, key))) return keysDiffer();
  return proofOf(Giver::server, hello, key);
}

Result<void> checkAnswer(const HelloMessage& hello, const Acknowledged& answer, const Key& key) {
  if (key.empty() || sameSecret(answer.proof, proofOf(Giver::server, hello, key))) return {};
  return keysDiffer();
}

}  // namespace cinch
