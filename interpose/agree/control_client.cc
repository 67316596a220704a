#include "interpose/agree/control_client.h"

#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "common/log.h"
#include "common/signals_blocked.h"
#include "interpose/agree/inquiry.h"

namespace cinch {
namespace {

// How long a message of some bytes may wait for room in the kernel: the server always reads, but
// the network may be away for minutes.
constexpr std::chrono::seconds kSendTime{600};

// What the others have decided in a round that `client`, which greeted as `hello`, is in doubt of.
// On a thread of its own: it is a rare thing, and may take as long as the network is away.
void askFor(uint64_t round, const HelloMessage& hello,
            const std::shared_ptr<ControlClient>& client) {
  Decisions& decisions = client->decisions();
  CINCH_WARN("AGREE",
             "control channel: the connection to %s ended while the ranks were deciding; it is "
             "asked what they have decided until it can be reached",
             client->server().text().c_str());
  const auto ask = [round, hello, client, &decisions] {
    try {
      const auto isWanted = [&decisions] { return decisions.isAsking(); };
      const Message answer = askForOutcome(client->server(), hello, round, isWanted);
      const auto* const rejected = std::get_if<Rejected>(&answer);
      if (rejected == nullptr) return client->deliver(answer);
      if (isWanted())
        CINCH_WARN("AGREE", "%s", client->serverError(rejected->reason).message.c_str());
    } catch (const std::exception&) {
    }
    decisions.end();
  };
  const SignalsBlocked blocked;
  try {
    std::thread(ask).detach();
  } catch (const std::system_error&) {
    decisions.end();
  }
}

}  // namespace

Result<void> ControlInbox::store(const Message& message) {
  if (const Acknowledged* given = std::get_if<Acknowledged>(&message)) {
    acknowledged = *given;
  } else if (const Verdict* given = std::get_if<Verdict>(&message)) {
    verdict = *given;
  } else {
    return errorf(Status::remoteError, "it sent what only ranks send");
  }
  return {};
}

ControlClient::ControlClient(const Endpoint& server, const HelloMessage& hello)
    : server_(server), hello_(hello) {}

std::shared_ptr<ControlClient> ControlClient::make(const Endpoint& server,
                                                   const HelloMessage& hello) {
  const std::shared_ptr<ControlClient> made(new ControlClient(server, hello));
  made->decisions_.emplace([weak = std::weak_ptr(made)](const Proposal& proposal, bool mayWait) {
    if (const auto client = weak.lock()) client->propose(proposal, mayWait);
  });
  return made;
}

Result<void> ControlClient::start(Deadline deadline) {
  return ControlLink::open(server_, shared_from_this(), deadline);
}

void ControlClient::opened(const std::shared_ptr<ControlLink>& link, Channel channel) {
  const std::lock_guard lock(mutex_);
  way_ = {link, channel};
}

ControlClient::Way ControlClient::way() {
  const std::lock_guard lock(mutex_);
  return way_;
}

Error ControlClient::serverError(const std::string& cause) const {
  return errorf(Status::remoteError, "agreement server at %s: %s", server_.text().c_str(),
                cause.c_str());
}

std::optional<Error> ControlClient::failure() {
  // In a child the locks may be held for ever, and the connection is the parent's.
  if (isForked()) return serverError("the connection is that of the process that forked this one");
  std::lock_guard lock(mutex_);
  return failure_;
}

Result<void> ControlClient::send(const Message& message) {
  if (auto failed = failure()) return *failed;
  const Way way = this->way();
  auto sent =
      way.link->send(message, way.channel, deadlineIn(kSendTime), [this] { return !failure(); });
  if (sent.ok()) return {};
  return serverError(sent.error().message);
}

Result<void> ControlClient::waitFor(const char* what, Deadline deadline, const Ready& ready) {
  if (isForked()) return *failure();
  std::unique_lock lock(mutex_);
  for (;;) {
    if (ready(inbox_)) return {};
    if (failure_) return *failure_;
    if (Clock::now() >= deadline) return serverError(std::string("no ") + what + " in time");
    if (deadline == kNoDeadline) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, deadline);
    }
  }
}

// False where it had ended before.
bool ControlClient::endWith(const std::string& cause) {
  bool isNews = false;
  {
    std::lock_guard lock(mutex_);
    isNews = !failure_;
    if (isNews) failure_ = serverError(cause);
    changed_.notify_all();
  }
  return isNews;
}

void ControlClient::leave(const std::string& cause) {
  const bool isNews = endWith(cause);
  if (decisions_) decisions_->end();
  const Way way = this->way();
  if (!way.link) return;
  if (isNews) static_cast<void>(way.link->enqueue(Leave{}, way.channel));
  way.link->close(way.channel);
}

void ControlClient::lost(const std::string& cause) {
  static_cast<void>(endWith(cause));
  if (const auto round = decisions_->lose()) askFor(*round, hello_, shared_from_this());
}

void ControlClient::propose(const Proposal& proposal, bool mayWait) {
  // Where it fails the connection is ending, and with it every wait.
  if (mayWait) return static_cast<void>(send(proposal));
  const Way way = this->way();
  static_cast<void>(way.link->enqueue(proposal, way.channel));
}

// A server that breaks the protocol ends this session, not the others on the connection.
void ControlClient::deliver(const Message& message) {
  const auto good = receive(message);
  if (!good.ok()) leave(good.error().message);
}

Result<void> ControlClient::receive(const Message& message) {
  if (const auto* prepare = std::get_if<Prepare>(&message)) return answer(*prepare);
  if (const auto* commit = std::get_if<Commit>(&message)) return decisions_->receive(*commit);
  if (const auto* withdraw = std::get_if<Withdraw>(&message)) return decisions_->receive(*withdraw);
  if (const auto* missed = std::get_if<Missed>(&message)) return decisions_->receive(*missed);
  if (const auto* difference = std::get_if<Difference>(&message)) {
    trail_.receive(*difference);
    return {};
  }
  if (const auto* rejected = std::get_if<Rejected>(&message)) {
    lost(rejected->reason);
    return {};
  }
  std::lock_guard lock(mutex_);
  if (failure_) return {};  // this rank has left
  CINCH_TRY(inbox_.store(message));
  changed_.notify_all();
  return {};
}

void ControlClient::tick() {
  const auto trail = trail_.take();
  if (!trail) return;
  const Way way = this->way();
  static_cast<void>(way.link->enqueue(*trail, way.channel));
}

Result<void> ControlClient::answer(const Prepare& message) {
  const auto promised = decisions_->receive(message);
  CINCH_TRY(promised);
  if (!promised.value()) return {};
  const Way way = this->way();
  // Where that fails the link is ending, and who listens to it is told so.
  static_cast<void>(way.link->enqueue(*promised.value(), way.channel));
  return {};
}

}  // namespace cinch
