#include "interpose/agree/agreement_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "common/fork_once.h"
#include "common/network/descriptors.h"
#include "common/network/local_network.h"
#include "common/param.h"
#include "common/signals_blocked.h"
#include "interpose/agree/agreement.h"
#include "interpose/agree/unique_id_stamp.h"

namespace cinch {
namespace {

constexpr uint64_t kListener = 0;
constexpr uint64_t kStopper = 1;
constexpr uint64_t kFirstClient = 2;

constexpr int kEventsAtOnce = 64;
constexpr int kAcceptsAtOnce = 64;
constexpr int kExhaustedNapMilliseconds = 10;
// Strangers take at most this part of what the process may open.
constexpr size_t kStrangersShare = 16;

bool control(const Socket& poller, int operation, int fd, uint64_t id, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  return epoll_ctl(poller.fd(), operation, fd, &event) == 0;
}

Error serverError(const char* what) {
  return errorf(Status::systemError, "agreement server: %s: %s", what, strerrordesc_np(errno));
}

AgreementConnection::SharedFrame frameOf(const Message& message, Channel channel) {
  return std::make_shared<const Bytes>(encodeMessage(message, channel));
}

}  // namespace

AgreementServer::AgreementServer(Socket listener, Socket poller, Socket stopper,
                                 const ServerLimits& limits)
    : listener_(std::move(listener)),
      poller_(std::move(poller)),
      stopper_(std::move(stopper)),
      where_(localEndpoint(listener_)),
      limits_(limits),
      strangers_(std::min(limits.maxStrangers, descriptorLimit() / kStrangersShare)),
      nextId_(kFirstClient),
      sessions_(limits) {}

Result<std::unique_ptr<AgreementServer>> AgreementServer::start(const IpAddress& address,
                                                                const ServerLimits& limits) {
  auto listener = listenOn(address);
  CINCH_TRY(listener);
  Socket poller(epoll_create1(EPOLL_CLOEXEC));
  if (poller.fd() < 0) return serverError("epoll");
  Socket stopper(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (stopper.fd() < 0) return serverError("eventfd");
  if (!control(poller, EPOLL_CTL_ADD, listener.value().fd(), kListener, EPOLLIN) ||
      !control(poller, EPOLL_CTL_ADD, stopper.fd(), kStopper, EPOLLIN)) {
    return serverError("epoll");
  }
  std::unique_ptr<AgreementServer> server(new AgreementServer(
      std::move(listener.value()), std::move(poller), std::move(stopper), limits));
  SignalsBlocked blocked;
  try {
    server->thread_ = std::thread(&AgreementServer::run, server.get());
  } catch (const std::system_error&) {
    return errorf(Status::systemError, "agreement server: cannot start a thread");
  }
  pthread_setname_np(server->thread_.native_handle(), "cinch-agree");
  return server;
}

AgreementServer::~AgreementServer() {
  if (!thread_.joinable()) return;
  eventfd_write(stopper_.fd(), 1);
  thread_.join();
  for (auto& [id, client] : clients_) client.connection.shutdown();
}

Result<void> AgreementServer::serve(uint8_t* id) {
  UniqueIdStamp stamp;
  stamp.server = where_;
  if (getrandom(&stamp.nonce, sizeof stamp.nonce, 0) != sizeof stamp.nonce) {
    return serverError("no random numbers");
  }
  std::lock_guard lock(mutex_);
  CINCH_TRY(
      sessions_.begin(stamp.nonce, Session(AgreementSession(where_.address, limits_.reportTime))));
  writeStamp(stamp, id);
  return {};
}

Result<void> AgreementServer::takeOver(Nonce nonce, int nRanks) {
  const std::lock_guard lock(mutex_);
  if (sessions_.find(nonce) != nullptr)
    return errorf(Status::invalidUsage, "this process serves that communicator already");
  return sessions_.begin(nonce, Session(AgreementSession::takenOver(nRanks, limits_.arrivalTime)));
}

void AgreementServer::forget(Nonce nonce) {
  const std::lock_guard lock(mutex_);
  sessions_.forgetUnused(nonce);
}

void AgreementServer::run() {
  for (Deadline due = kNoDeadline;;) {
    epoll_event events[kEventsAtOnce];
    const int n = epoll_wait(poller_.fd(), events, kEventsAtOnce, pollTimeout(due));
    if (n < 0 && errno != EINTR) return;  // the program has closed the descriptor
    std::lock_guard lock(mutex_);
    bool isListenerReady = false;
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u64 == kStopper) return;
      if (events[i].data.u64 == kListener)
        isListenerReady = true;
      else
        handle(events[i].data.u64, events[i].events);
    }
    // Behind those that wait already: whoever has sent its hello is no stranger who may give way.
    if (isListenerReady) acceptAll();
    expireStrangers();
    expireSessions();
    reap();
    due = std::min(strangers_.deadline(), sessions_.deadline());
  }
}

void AgreementServer::acceptAll() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    auto accepted = acceptFrom(listener_);
    if (!accepted.ok()) {
      // Out of descriptors or memory: a stranger gives way; without strangers, wait a moment, since
      // the listener stays readable.
      if (!strangers_.hurry(Clock::now())) poll(nullptr, 0, kExhaustedNapMilliseconds);
      return;
    }
    if (!accepted.value()) return;
    admit(std::move(*accepted.value()));
  }
}

void AgreementServer::admit(Accepted accepted) {
  ConnectionId id = nextId_++;
  const IpAddress from = accepted.from.address;
  AgreementConnection connection(std::move(accepted));
  if (static_cast<size_t>(connection.fd()) >= descriptorLimit() / 2) return;  // NCCL's
  if (!control(poller_, EPOLL_CTL_ADD, connection.fd(), id, EPOLLIN)) return;
  clients_.emplace(id, Client{std::move(connection)});
  strangers_.add(id, from, deadlineIn(limits_.helloTime));
}

void AgreementServer::handle(ConnectionId id, uint32_t events) {
  auto found = clients_.find(id);
  if (found == clients_.end()) return;
  Client& client = found->second;
  bool good = true;
  if (events & EPOLLOUT) {
    good = client.connection.flush().ok() && watchOutput(id, client).ok();
  }
  if (good && (events & ~EPOLLOUT)) good = receive(id, client).ok();
  if (!good) doomed_.push_back(id);
}

Result<void> AgreementServer::receive(ConnectionId id, Client& client) {
  CINCH_TRY(client.connection.receive());
  for (;;) {
    auto frame = client.connection.next();
    CINCH_TRY(frame);
    if (!frame.value()) return {};
    CINCH_TRY(dispatch(id, client, *frame.value()));
  }
}

Result<void> AgreementServer::dispatch(ConnectionId id, Client& client, const Frame& frame) {
  const auto found = client.members.find(frame.channel);
  const bool isMember = found != client.members.end();
  if (const HelloMessage* hello = std::get_if<HelloMessage>(&frame.message)) {
    if (isMember) return errorf(Status::remoteError, "a second hello on one channel");
    return greet(id, client, frame.channel, *hello);
  }
  if (const Inquiry* inquiry = std::get_if<Inquiry>(&frame.message))
    return answer(id, client, frame.channel, *inquiry);
  if (!client.isKnown) return errorf(Status::remoteError, "a message before the hello");
  if (!isMember) return {};  // it was turned away, and had sent more before it was told
  const Membership from = found->second;
  Session* const session = sessions_.find(from.nonce);
  Result<void> taken;
  const bool leaves = std::holds_alternative<Leave>(frame.message);
  if (!leaves && session != nullptr) taken = take(from, *session, frame.message);
  if (leaves || !taken.ok()) {
    // What one rank gets wrong ends its own part in the session, not its process's others.
    if (!taken.ok())
      CINCH_TRY(send(id, client, frameOf(Rejected{taken.error().message}, frame.channel)));
    client.members.erase(found);
    leave(from, !leaves);
    if (client.members.empty())
      strangers_.add(id, client.connection.from(), deadlineIn(limits_.helloTime));
    return {};
  }
  sessions_.awaitsTime(from.nonce);
  broadcast(from.nonce);
  return {};
}

Result<void> AgreementServer::take(const Membership& from, Session& session,
                                   const Message& message) {
  AgreementSession& state = session.state;
  if (const Initialised* report = std::get_if<Initialised>(&message))
    return state.report(from.member, *report);
  if (const Vote* vote = std::get_if<Vote>(&message)) return state.vote(from.member, *vote);
  if (const Retraction* retraction = std::get_if<Retraction>(&message))
    return state.retract(from.member, *retraction);
  if (const Figures* figures = std::get_if<Figures>(&message))
    return state.pool(from.member, *figures);
  if (const Proposal* proposal = std::get_if<Proposal>(&message))
    return state.propose(from.member, *proposal);
  if (const Prepared* answer = std::get_if<Prepared>(&message))
    return state.prepared(from.member, *answer);
  if (const Trail* trail = std::get_if<Trail>(&message)) return state.compare(from.member, *trail);
  return errorf(Status::remoteError, "a message that only servers send");
}

Result<void> AgreementServer::greet(ConnectionId id, Client& client, Channel channel,
                                    const HelloMessage& message) {
  const Result<Proof> proof = answerTo(message, limits_.key, Purpose::join);
  const Result<size_t> joined = proof.ok() ? sessions_.join(message, client.connection.from())
                                           : Result<size_t>(proof.error());
  if (!joined.ok()) {
    // A stranger has its time: a hello of another thread of its process may follow.
    return send(id, client, frameOf(Rejected{joined.error().message}, channel));
  }
  strangers_.remove(id);
  client.isKnown = true;
  client.connection.trust();
  client.members.emplace(channel, Membership{message.nonce, joined.value()});
  CINCH_TRY(send(id, client, frameOf(Acknowledged{proof.value()}, channel)));
  sessions_.find(message.nonce)->seat(joined.value(), {id, channel});
  broadcast(message.nonce);
  return {};
}

// Who asks stays a stranger, whose connection is soon ended.
Result<void> AgreementServer::answer(ConnectionId id, Client& client, Channel channel,
                                     const Inquiry& inquiry) {
  const HelloMessage& from = inquiry.from;
  const Result<Proof> proof = answerTo(from, limits_.key, Purpose::ask);
  if (!proof.ok()) return send(id, client, frameOf(Rejected{proof.error().message}, channel));
  endPartOf(from.nonce, from.hello.rank);
  const std::optional<Message> outcome = sessions_.outcomeOf(from.nonce, inquiry.round);
  if (!outcome)
    return send(
        id, client,
        frameOf(Rejected{"what the ranks decided is not, or no longer, known here"}, channel));
  CINCH_TRY(send(id, client, frameOf(Acknowledged{proof.value()}, channel)));
  return send(id, client, frameOf(*outcome, channel));
}

// The connection that it has lost may look well from here for as long as the network is away.
void AgreementServer::endPartOf(Nonce nonce, int rank) {
  const Session* const session = sessions_.find(nonce);
  if (session == nullptr) return;
  const std::optional<size_t> member = session->state.memberOf(rank);
  if (!member || *member >= session->seats.size()) return;
  const Seat seat = session->seats[*member];
  if (const auto found = clients_.find(seat.connection); found != clients_.end()) {
    found->second.members.erase(seat.channel);
    // Its process's other ranks have lost the same connection, and ask, too.
    if (found->second.members.empty()) doomed_.push_back(seat.connection);
  }
  leave({nonce, *member}, true);
}

Result<void> AgreementServer::send(ConnectionId id, Client& client,
                                   AgreementConnection::SharedFrame frame) {
  CINCH_TRY(client.connection.send(std::move(frame)));
  return watchOutput(id, client);
}

Result<void> AgreementServer::watchOutput(ConnectionId id, const Client& client) {
  uint32_t events = client.connection.hasOutput() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (control(poller_, EPOLL_CTL_MOD, client.connection.fd(), id, events)) return {};
  return serverError("epoll");
}

void AgreementServer::broadcast(Nonce nonce) {
  Session* const session = sessions_.find(nonce);
  if (session == nullptr) return;
  for (const Message& message : session->state.takeBroadcasts()) {
    // The result of a handshake of many ranks is long, and mostly theirs on the same channel.
    std::map<Channel, AgreementConnection::SharedFrame> frames;
    for (const Seat& seat : session->seats) {
      const auto found = clients_.find(seat.connection);
      if (found == clients_.end()) continue;  // its process has left, or it is still to come
      const auto member = found->second.members.find(seat.channel);
      if (member == found->second.members.end() || member->second.nonce != nonce) continue;
      AgreementConnection::SharedFrame& frame = frames[seat.channel];
      if (frame == nullptr) frame = frameOf(message, seat.channel);
      if (!send(seat.connection, found->second, frame).ok()) doomed_.push_back(seat.connection);
    }
  }
}

void AgreementServer::expireStrangers() {
  for (const ConnectionId id : strangers_.takeOut(Clock::now())) {
    handle(id, EPOLLIN);  // its hello may be there, and nobody has looked yet
    const auto found = clients_.find(id);
    if (found != clients_.end() && found->second.members.empty()) doomed_.push_back(id);
  }
}

void AgreementServer::expireSessions() {
  for (const Nonce nonce : sessions_.expire()) {
    broadcast(nonce);
    sessions_.endIfOver(nonce);
  }
}

void AgreementServer::reap() {
  // To drop a member may decide votes, and telling the others may find more that are gone.
  while (!doomed_.empty()) {
    const ConnectionId id = doomed_.back();
    doomed_.pop_back();
    const auto found = clients_.find(id);
    if (found == clients_.end()) continue;
    // Explicitly, as a forked child may hold copies of the descriptor: closing would not be enough.
    control(poller_, EPOLL_CTL_DEL, found->second.connection.fd(), id, 0);
    found->second.connection.shutdown();
    const Client gone = std::move(found->second);
    clients_.erase(found);
    strangers_.remove(id);
    for (const auto& [channel, membership] : gone.members) leave(membership, true);
  }
}

void AgreementServer::leave(const Membership& gone, bool isLost) {
  sessions_.leave(gone.nonce, gone.member, isLost);
  broadcast(gone.nonce);
  sessions_.endIfOver(gone.nonce);
}

bool areIdsFixed() {
  const char* const where = environmentVariable("NCCL_COMM_ID");
  return where != nullptr && *where != '\0';
}

namespace {

// The server of this process. Never destroyed: its thread runs until the process ends. A forked
// child has no thread, so that it gets a server of its own.
struct ServerOfProcess {
  std::mutex mutex;
  AgreementServer* server = nullptr;
  pid_t owner = 0;

  AgreementServer* running() const { return owner == getpid() ? server : nullptr; }

  Result<AgreementServer*> start() {
    if (running() != nullptr) return server;
    const auto text = [](const char* value) { return std::string(value == nullptr ? "" : value); };
    auto address = chooseAddress(listInterfaces(), text(environmentVariable("NCCL_SOCKET_IFNAME")),
                                 text(environmentVariable("NCCL_SOCKET_FAMILY")));
    CINCH_TRY(address);
    raiseDescriptorLimit();
    CINCH_TRY(haveSpareDescriptors());
    ServerLimits limits;
    // Half of what a rank waits for the others' votes: these fail where one does not come.
    limits.arrivalTime = std::chrono::seconds(processParams().params.voteTimeout) / 2;
    auto key = channelKey();
    CINCH_TRY(key);
    limits.key = std::move(key.value());
    auto started = AgreementServer::start(address.value(), limits);
    CINCH_TRY(started);
    server = started.value().release();
    owner = getpid();
    return server;
  }
};

constinit ServerOfProcess theServer;

// The lock is held over a fork, so that a child never finds it held by a thread that is not there.
void lockServer() {
  theServer.mutex.lock();
}
void unlockServer() {
  theServer.mutex.unlock();
}

ServerOfProcess& serverOfProcess() {
  static_cast<void>(handleForks<lockServer, unlockServer, unlockServer>());
  return theServer;
}

}  // namespace

Result<void> serveAgreement(uint8_t* id) {
  ServerOfProcess& process = serverOfProcess();
  const std::lock_guard lock(process.mutex);
  auto server = process.start();
  CINCH_TRY(server);
  return server.value()->serve(id);
}

Endpoint takeOverAgreement(const Endpoint& from, uint64_t nonce, int nRanks) {
  ServerOfProcess& process = serverOfProcess();
  const std::lock_guard lock(process.mutex);
  const AgreementServer* const running = process.running();
  if (running != nullptr && running->where() == from) return {};
  if (nRanks < 1 || nRanks > kMaxRanks) return {};
  auto server = process.start();
  if (!server.ok() || !server.value()->takeOver(nonce, nRanks).ok()) return {};
  return server.value()->where();
}

void forgetAgreement(uint64_t nonce) {
  ServerOfProcess& process = serverOfProcess();
  const std::lock_guard lock(process.mutex);
  if (AgreementServer* const running = process.running()) running->forget(nonce);
}

}  // namespace cinch
