#include "interpose/agree/agreement.h"

#include <algorithm>
#include <optional>

#include "common/byte_order.h"
#include "common/network/local_network.h"
#include "common/network/socket.h"
#include "interpose/agree/agreement_server.h"
#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/control_client.h"
#include "interpose/agree/decisions.h"
#include "interpose/agree/unique_id_stamp.h"

namespace cinch {
namespace {

bool isSomewhere(const Endpoint& server) {
  return server.address.family != Family::none;
}

Initialised localReport() {
  std::vector<IpAddress> own;
  for (const Interface& interface : listInterfaces()) own.push_back(interface.address);
  return {own, connectedPeers(kMaxAddresses)};
}

Error tooMany(size_t nBytes) {
  return errorf(Status::invalidArgument, "%zu bytes are too many for one decision", nBytes);
}

}  // namespace

std::optional<VoteOutcome> outcomeOf(std::span<const uint8_t> bytes) {
  if (bytes.empty() || bytes[0] > 1) return {};
  return VoteOutcome{bytes[0] == 1, {bytes.begin() + 1, bytes.end()}};
}

std::vector<uint64_t> leastOf(std::span<const uint8_t> bytes) {
  std::vector<uint64_t> values;
  if (bytes.size() % sizeof(uint64_t) != 0) return values;
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t))
    values.push_back(loadLittle<uint64_t>(&bytes[at]));
  return values;
}

Endpoint offerToServe(const uint8_t* id, int nRanks) {
  const std::optional<UniqueIdStamp> stamp = readStamp(id);
  return stamp ? takeOverAgreement(stamp->server, stamp->nonce, nRanks) : Endpoint{};
}

Endpoint Agreement::offerToServe(const Agreement& parent, uint64_t ordinal, int64_t part,
                                 int nRanks) {
  const ControlClient& from = parent.client();
  if (from.isForked()) return {};
  return takeOverAgreement(from.server(), childNonce(from.nonce(), ordinal, part), nRanks);
}

Agreement::Agreement(Client client, const Hello& hello)
    : hello_(hello), first_(std::move(client)), client_(first_.get()) {}

Agreement::~Agreement() {
  if (first_->isForked()) {
    // Threads of the parent may seem to hold its locks for ever: leave it alone, never destroy it.
    static_cast<void>(new Client(std::move(first_)));
    static_cast<void>(new Client(std::move(moved_)));
  } else {
    close();
    if (!moved_) withdrawOffer();
  }
}

// Where this is rank 0, which has offered to serve, and its process does not.
void Agreement::withdrawOffer() const {
  if (isSomewhere(hello_.server)) forgetAgreement(first_->nonce());
}

Result<std::unique_ptr<Agreement>> Agreement::greet(const uint8_t* id, const Hello& hello,
                                                    int timeoutSeconds) {
  std::optional<UniqueIdStamp> stamp = readStamp(id);
  if (!stamp) return errorf(Status::invalidUsage, "the unique id was made without Cinch");
  return begin(stamp->server, {stamp->nonce, hello, kNoParent}, timeoutSeconds);
}

Result<std::unique_ptr<Agreement>> Agreement::greetChild(const Agreement& parent, uint64_t ordinal,
                                                         int64_t part, const Hello& hello,
                                                         int timeoutSeconds) {
  const ControlClient& from = parent.client();
  const uint64_t nonce = childNonce(from.nonce(), ordinal, part);
  return begin(from.server(), {nonce, hello, from.nonce()}, timeoutSeconds);
}

Result<std::unique_ptr<Agreement>> Agreement::begin(const Endpoint& server,
                                                    const HelloMessage& message,
                                                    int timeoutSeconds) {
  std::unique_ptr<Agreement> agreement(
      new Agreement(ControlClient::make(server, message), message.hello));
  CINCH_TRY(
      handshake(*agreement->first_, message, deadlineIn(std::chrono::seconds(timeoutSeconds))));
  return agreement;
}

Result<void> Agreement::handshake(ControlClient& client, const HelloMessage& message,
                                  Deadline deadline) {
  const Hello& hello = message.hello;
  if (hello.nRanks > kMaxRanks || hello.rank < 0 || hello.rank >= hello.nRanks) {
    return errorf(Status::invalidArgument, "there is no rank %d of %d", hello.rank, hello.nRanks);
  }
  const auto key = channelKey();
  CINCH_TRY(key);
  HelloMessage own = message;
  sign(own, key.value(), Purpose::join);
  CINCH_TRY(client.start(deadline));
  CINCH_TRY(client.send(own));
  Acknowledged answer;
  CINCH_TRY(client.waitFor("answer", deadline, [&](const ControlInbox& inbox) {
    if (inbox.acknowledged) answer = *inbox.acknowledged;
    return inbox.acknowledged.has_value();
  }));
  const auto isKnown = checkAnswer(own, answer, key.value());
  return isKnown.ok() ? isKnown : Result<void>(client.serverError(isKnown.error().message));
}

Result<Verdict> Agreement::awaitVerdict(int timeoutSeconds) {
  const std::chrono::seconds time(timeoutSeconds);
  auto verdict = receiveVerdict(deadlineIn(time));
  if (first_->isForked()) return verdict;
  Result<void> moved;
  if (verdict.ok() && isSomewhere(verdict.value().server))
    moved = moveTo(verdict.value().server, deadlineIn(time));
  else
    withdrawOffer();
  if (verdict.ok() && moved.ok()) return verdict;
  close();
  CINCH_TRY(moved);
  return verdict;
}

Result<Verdict> Agreement::receiveVerdict(Deadline deadline) {
  // What a child's server waits for is the other members' hellos, not reports. An error is no
  // reason to give up: the server may have ended after its answer.
  if (!first_->isChild()) static_cast<void>(first_->send(localReport()));
  std::optional<Verdict> verdict;
  CINCH_TRY(first_->waitFor("verdict", deadline, [&](const ControlInbox& inbox) {
    verdict = inbox.verdict;
    return verdict.has_value();
  }));
  return *verdict;
}

Result<void> Agreement::moveTo(const Endpoint& server, Deadline deadline) {
  const HelloMessage message{first_->nonce(), hello_, kNoParent};
  moved_ = ControlClient::make(server, message);
  client_.store(moved_.get());
  // close() sets the flag before it looks for the client.
  if (closed_.load()) moved_->leave("this rank has left");
  const auto joined = handshake(*moved_, message, deadline);
  if (!joined.ok()) {
    moved_->leave("it could not join where rank 0 serves");
    withdrawOffer();
  }
  first_->leave("rank 0 serves this communicator");
  return joined;
}

Result<void> Agreement::castVote(uint64_t topic, bool yes, std::span<const uint8_t> bytes) {
  if (bytes.size() > kMaxDecided) return tooMany(bytes.size());
  return client().send(Vote{topic, yes, Bytes(bytes.begin(), bytes.end())});
}

Result<void> Agreement::retractVote(uint64_t topic) {
  return client().send(Retraction{topic});
}

Result<void> Agreement::pool(uint64_t topic, std::span<const uint64_t> figures) {
  if (figures.size() > kMaxFigures)
    return errorf(Status::invalidArgument, "%zu figures are too many to pool", figures.size());
  return client().send(Figures{topic, {figures.begin(), figures.end()}});
}

Result<void> Agreement::propose(uint64_t topic, std::span<const uint8_t> bytes) {
  if (bytes.size() > kMaxDecided) return tooMany(bytes.size());
  return client().send(Proposal{topic, kNoOrdinal, Bytes(bytes.begin(), bytes.end())});
}

Decisions& Agreement::decisions() const {
  return client().decisions();
}

CallTrail& Agreement::trail() const {
  return client().trail();
}

void Agreement::close() {
  if (first_->isForked()) return;  // the connection is the parent's
  closed_.store(true);
  first_->leave("this rank has left");
  client().leave("this rank has left");
}

}  // namespace cinch
