#include "interpose/agree/agreement.h"

#include <algorithm>
#include <optional>

#include "common/network/local_network.h"
#include "common/network/socket.h"
#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/control_client.h"
#include "interpose/agree/unique_id_stamp.h"

namespace cinch {
namespace {

// The server listens before the id exists, so a connection that takes longer is not coming: a
// firewall drops it, for every communicator of the job.
constexpr std::chrono::seconds kConnectTime{10};

Initialised localReport() {
  std::vector<IpAddress> own;
  for (const Interface& interface : listInterfaces()) own.push_back(interface.address);
  return {own, connectedPeers(kMaxAddresses)};
}

}  // namespace

Agreement::Agreement(std::shared_ptr<ControlClient> client) : client_(std::move(client)) {}

Agreement::~Agreement() {
  if (client_->isForked()) {
    // Threads of the parent may seem to hold its locks for ever: leave it alone, never destroy it.
    static_cast<void>(new std::shared_ptr<ControlClient>(std::move(client_)));
  } else {
    client_->end();
  }
}

Result<std::unique_ptr<Agreement>> Agreement::greet(const uint8_t* id, const Hello& hello,
                                                    int timeoutSeconds) {
  std::optional<UniqueIdStamp> stamp = readStamp(id);
  if (!stamp) return errorf(Status::invalidUsage, "the unique id was made without Cinch");
  return meet(stamp->server, {stamp->nonce, hello, kNoParent}, timeoutSeconds);
}

Result<std::unique_ptr<Agreement>> Agreement::greetChild(const Agreement& parent, uint64_t ordinal,
                                                         int64_t part, const Hello& hello,
                                                         int timeoutSeconds) {
  const ControlClient& from = *parent.client_;
  const uint64_t nonce = childNonce(from.nonce(), ordinal, part);
  return meet(from.server(), {nonce, hello, from.nonce()}, timeoutSeconds);
}

Result<std::unique_ptr<Agreement>> Agreement::meet(const Endpoint& server,
                                                   const HelloMessage& message,
                                                   int timeoutSeconds) {
  Deadline deadline = deadlineIn(std::chrono::seconds(timeoutSeconds));
  const Hello& hello = message.hello;
  if (hello.nRanks > kMaxRanks || hello.rank < 0 || hello.rank >= hello.nRanks) {
    return errorf(Status::invalidArgument, "there is no rank %d of %d", hello.rank, hello.nRanks);
  }
  auto connected = connectTo(server, std::min(deadline, deadlineIn(kConnectTime)));
  if (!connected.ok()) {
    return errorf(
        Status::systemError,
        "agreement server: %s: open the firewall between the hosts, or choose the network "
        "with NCCL_SOCKET_IFNAME",
        connected.error().message.c_str());
  }
  std::unique_ptr<Agreement> agreement(new Agreement(
      std::make_shared<ControlClient>(std::move(connected.value()), server, message)));
  ControlClient& client = *agreement->client_;
  CINCH_TRY(client.start());
  CINCH_TRY(client.send(message));
  CINCH_TRY(client.waitFor("answer", deadline,
                           [](const ControlInbox& inbox) { return inbox.acknowledged; }));
  return agreement;
}

Result<Verdict> Agreement::awaitVerdict(int timeoutSeconds) {
  Deadline deadline = deadlineIn(std::chrono::seconds(timeoutSeconds));
  // What a child's server waits for is the other members' hellos, not reports.
  Result<void> done = client_->isChild() ? Result<void>() : client_->send(localReport());
  std::optional<Verdict> verdict;
  auto take = [&](const ControlInbox& inbox) {
    verdict = inbox.verdict;
    return verdict.has_value();
  };
  if (done.ok()) done = client_->waitFor("verdict", deadline, take);
  if (done.ok()) return *verdict;
  close();
  return done.error();
}

Result<void> Agreement::castVote(uint64_t topic, bool yes) {
  return client_->send(Vote{topic, yes});
}

Result<bool> Agreement::awaitVote(uint64_t topic, int timeoutSeconds) {
  const Deadline deadline = deadlineIn(std::chrono::seconds(timeoutSeconds));
  bool yes = false;
  auto take = [&](ControlInbox& inbox) {
    auto found = inbox.outcomes.find(topic);
    if (found == inbox.outcomes.end()) return false;
    yes = found->second;
    inbox.outcomes.erase(found);
    return true;
  };
  CINCH_TRY(client_->waitFor("vote of all ranks", deadline, take));
  return yes;
}

Result<void> Agreement::publish(uint64_t topic, std::span<const uint8_t> bytes) {
  if (bytes.size() > kMaxPublished)
    return errorf(Status::invalidArgument, "%zu bytes are too many to publish", bytes.size());
  return client_->send(Publication{topic, Bytes(bytes.begin(), bytes.end())});
}

Result<std::vector<uint8_t>> Agreement::awaitPublication(uint64_t topic, int timeoutSeconds) {
  const Deadline deadline = deadlineIn(std::chrono::seconds(timeoutSeconds));
  std::optional<Bytes> bytes;
  auto take = [&](ControlInbox& inbox) {
    auto found = inbox.published.find(topic);
    if (found == inbox.published.end()) return inbox.publisherLeft;
    bytes = std::move(found->second);
    inbox.publishedBytes -= bytes->size();
    inbox.published.erase(found);
    return true;
  };
  CINCH_TRY(client_->waitFor("word of rank 0", deadline, take));
  if (!bytes) return client_->serverError("rank 0 has left");
  return std::move(*bytes);
}

Result<void> Agreement::pool(uint64_t topic, std::span<const uint64_t> figures) {
  if (figures.size() > kMaxFigures)
    return errorf(Status::invalidArgument, "%zu figures are too many to pool", figures.size());
  return client_->send(Figures{topic, {figures.begin(), figures.end()}});
}

Result<std::vector<uint64_t>> Agreement::awaitPool(uint64_t topic, int timeoutSeconds) {
  const Deadline deadline = deadlineIn(std::chrono::seconds(timeoutSeconds));
  std::vector<uint64_t> values;
  auto take = [&](ControlInbox& inbox) {
    auto found = inbox.pooled.find(topic);
    if (found == inbox.pooled.end()) return false;
    values = std::move(found->second);
    inbox.pooled.erase(found);
    return true;
  };
  CINCH_TRY(client_->waitFor("figures of all ranks", deadline, take));
  return values;
}

std::shared_ptr<CallGate> Agreement::openGate(uint64_t topic) {
  return client_->openGate(topic);
}

void Agreement::close() {
  if (client_->isForked()) return;  // the connection is the parent's
  client_->leave("this rank has left");
}

}  // namespace cinch
