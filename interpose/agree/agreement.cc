#include "interpose/agree/agreement.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>

#include "common/network/local_network.h"
#include "common/network/socket.h"
#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/unique_id_stamp.h"

namespace cinch {
namespace {

// How long a message of some bytes may wait for room in the kernel: the server always reads.
constexpr std::chrono::seconds kSendTime{10};
// The server listens before the id exists, so a connection that takes longer is not coming: a
// firewall drops it, for every communicator of the job.
constexpr std::chrono::seconds kConnectTime{10};

Error serverError(const Endpoint& server, const std::string& cause) {
  return errorf(Status::remoteError, "agreement server at %s: %s", server.text().c_str(),
                cause.c_str());
}

Initialised localReport() {
  std::vector<IpAddress> own;
  for (const Interface& interface : listInterfaces()) own.push_back(interface.address);
  return {own, connectedPeers(kMaxAddresses)};
}

}  // namespace

// Of all threads that wait, one reads from the connection and hands what it finds to the others.
struct Agreement::State {
  using Ready = std::function<bool()>;

  State(Socket connected, const Endpoint& where, const HelloMessage& hello)
      : socket(std::move(connected)),
        server(where),
        nonce(hello.nonce),
        isChild(hello.parent != kNoParent) {
    input.setLimit(kMaxServerBytes);
  }

  Result<void> send(const Message& message);
  // Waits until ready(), which is called under the lock, or the connection ends.
  Result<void> waitFor(const char* what, Deadline deadline, const Ready& ready);
  // Reads once, with the lock released meanwhile. Only one thread at a time.
  void readOnce(std::unique_lock<std::mutex>& lock, Deadline deadline);
  void take(const uint8_t* bytes, size_t n);
  void store(const Message& message);
  void fail(const std::string& cause);
  // Fails, and ends the connection and every wait. Takes the lock.
  void leave(const std::string& cause);

  const Socket socket;
  const Endpoint server;
  const uint64_t nonce;
  const bool isChild;
  const pid_t owner = getpid();
  std::mutex sendMutex;

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool reading = false;
  MessageReader input;
  bool acknowledged = false;
  std::optional<Verdict> verdict;
  std::map<uint64_t, bool> outcomes;                 // of votes that nobody has awaited yet
  std::map<uint64_t, Bytes> published;               // likewise
  std::map<uint64_t, std::vector<uint64_t>> pooled;  // likewise
  bool publisherLeft = false;
  std::optional<Error> failure;  // the connection is of no more use
};

Result<void> Agreement::State::send(const Message& message) {
  {
    std::lock_guard lock(mutex);
    if (failure) return *failure;
  }
  Bytes frame = encodeMessage(message);
  Result<void> sent;
  {
    std::lock_guard lock(sendMutex);
    sent = sendAll(socket, frame, deadlineIn(kSendTime));
  }
  if (sent.ok()) return {};
  // Half a message may be on its way: nothing can follow it.
  leave(sent.error().message);
  return serverError(server, sent.error().message);
}

Result<void> Agreement::State::waitFor(const char* what, Deadline deadline, const Ready& ready) {
  std::unique_lock lock(mutex);
  for (;;) {
    if (ready()) return {};
    if (failure) return *failure;
    if (Clock::now() >= deadline)
      return serverError(server, std::string("no ") + what + " in time");
    if (!reading) {
      readOnce(lock, deadline);
    } else if (deadline == kNoDeadline) {
      changed.wait(lock);
    } else {
      changed.wait_until(lock, deadline);
    }
  }
}

void Agreement::State::readOnce(std::unique_lock<std::mutex>& lock, Deadline deadline) {
  reading = true;
  lock.unlock();
  uint8_t bytes[4096];
  auto readable = waitReadable(socket, deadline);
  Result<size_t> received = size_t{0};
  if (!readable.ok()) received = readable.error();
  if (readable.ok() && readable.value()) received = receiveSome(socket, bytes, sizeof bytes);
  lock.lock();
  reading = false;
  if (received.ok()) {
    take(bytes, received.value());
  } else {
    fail(received.error().message);
  }
  // Those who wait must look for what came, and one of them must read on.
  changed.notify_all();
}

void Agreement::State::take(const uint8_t* bytes, size_t n) {
  input.append(bytes, n);
  while (!failure) {
    auto message = input.next();
    if (!message.ok()) return fail(message.error().message);
    if (!message.value()) return;
    store(*message.value());
  }
}

void Agreement::State::store(const Message& message) {
  if (std::holds_alternative<Acknowledged>(message)) {
    acknowledged = true;
  } else if (const Verdict* told = std::get_if<Verdict>(&message)) {
    verdict = *told;
  } else if (const Outcome* outcome = std::get_if<Outcome>(&message)) {
    outcomes[outcome->topic] = outcome->yes;
  } else if (const Publication* said = std::get_if<Publication>(&message)) {
    published[said->topic] = said->bytes;
  } else if (const Pool* pool = std::get_if<Pool>(&message)) {
    pooled[pool->topic] = pool->values;
  } else if (std::holds_alternative<PublisherLeft>(message)) {
    publisherLeft = true;
  } else if (const Rejected* rejected = std::get_if<Rejected>(&message)) {
    fail(rejected->reason);
  } else {
    fail("it sent what only ranks send");
  }
}

void Agreement::State::fail(const std::string& cause) {
  if (!failure) failure = serverError(server, cause);
}

void Agreement::State::leave(const std::string& cause) {
  std::lock_guard lock(mutex);
  fail(cause);
  socket.shutdown();  // wakes the thread that reads, which wakes the others
  changed.notify_all();
}

Agreement::Agreement(std::unique_ptr<State> state) : state_(std::move(state)) {}

Agreement::~Agreement() {
  close();
  // In a forked child other threads of the parent may seem to be waiting for ever: leave it alone.
  if (state_->owner != getpid()) static_cast<void>(state_.release());
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
  const State& from = *parent.state_;
  const uint64_t nonce = childNonce(from.nonce, ordinal, part);
  return meet(from.server, {nonce, hello, from.nonce}, timeoutSeconds);
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
  std::unique_ptr<Agreement> agreement(
      new Agreement(std::make_unique<State>(std::move(connected.value()), server, message)));
  State& state = *agreement->state_;
  CINCH_TRY(state.send(message));
  CINCH_TRY(state.waitFor("answer", deadline, [&] { return state.acknowledged; }));
  return agreement;
}

Result<Verdict> Agreement::awaitVerdict(int timeoutSeconds) {
  Deadline deadline = deadlineIn(std::chrono::seconds(timeoutSeconds));
  // What a child's server waits for is the other members' hellos, not reports.
  Result<void> done = state_->isChild ? Result<void>() : state_->send(localReport());
  if (done.ok()) {
    done = state_->waitFor("verdict", deadline, [&] { return state_->verdict.has_value(); });
  }
  if (done.ok()) return *state_->verdict;
  close();
  return done.error();
}

Result<void> Agreement::castVote(uint64_t topic, bool yes) {
  return state_->send(Vote{topic, yes});
}

Result<bool> Agreement::awaitVote(uint64_t topic, int timeoutSeconds) {
  const Deadline deadline = deadlineIn(std::chrono::seconds(timeoutSeconds));
  bool yes = false;
  auto take = [&] {
    auto found = state_->outcomes.find(topic);
    if (found == state_->outcomes.end()) return false;
    yes = found->second;
    state_->outcomes.erase(found);
    return true;
  };
  CINCH_TRY(state_->waitFor("vote of all ranks", deadline, take));
  return yes;
}

Result<void> Agreement::publish(uint64_t topic, std::span<const uint8_t> bytes) {
  if (bytes.size() > kMaxPublished)
    return errorf(Status::invalidArgument, "%zu bytes are too many to publish", bytes.size());
  return state_->send(Publication{topic, Bytes(bytes.begin(), bytes.end())});
}

Result<std::vector<uint8_t>> Agreement::awaitPublication(uint64_t topic, int timeoutSeconds) {
  const Deadline deadline = deadlineIn(std::chrono::seconds(timeoutSeconds));
  std::optional<Bytes> bytes;
  auto take = [&] {
    auto found = state_->published.find(topic);
    if (found == state_->published.end()) return state_->publisherLeft;
    bytes = std::move(found->second);
    state_->published.erase(found);
    return true;
  };
  CINCH_TRY(state_->waitFor("word of rank 0", deadline, take));
  if (!bytes) return serverError(state_->server, "rank 0 has left");
  return std::move(*bytes);
}

Result<void> Agreement::pool(uint64_t topic, std::span<const uint64_t> figures) {
  if (figures.size() > kMaxFigures)
    return errorf(Status::invalidArgument, "%zu figures are too many to pool", figures.size());
  return state_->send(Figures{topic, {figures.begin(), figures.end()}});
}

Result<std::vector<uint64_t>> Agreement::awaitPool(uint64_t topic, int timeoutSeconds) {
  const Deadline deadline = deadlineIn(std::chrono::seconds(timeoutSeconds));
  std::vector<uint64_t> values;
  auto take = [&] {
    auto found = state_->pooled.find(topic);
    if (found == state_->pooled.end()) return false;
    values = std::move(found->second);
    state_->pooled.erase(found);
    return true;
  };
  CINCH_TRY(state_->waitFor("figures of all ranks", deadline, take));
  return values;
}

void Agreement::close() {
  if (state_->owner != getpid()) return;  // the connection is the parent's
  state_->leave("this rank has left");
}

}  // namespace cinch
