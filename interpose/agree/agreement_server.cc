#include "interpose/agree/agreement_server.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

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

bool control(const Socket& poller, int operation, int fd, uint64_t id, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  return epoll_ctl(poller.fd(), operation, fd, &event) == 0;
}

Error serverError(const char* what) {
  return errorf(Status::systemError, "agreement server: %s: %s", what, strerrordesc_np(errno));
}

}  // namespace

AgreementServer::AgreementServer(Socket listener, Socket poller, Socket stopper,
                                 const ServerLimits& limits)
    : listener_(std::move(listener)),
      poller_(std::move(poller)),
      stopper_(std::move(stopper)),
      where_(localEndpoint(listener_)),
      limits_(limits),
      nextId_(kFirstClient) {}

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
  if (!makeRoom()) {
    return errorf(Status::systemError,
                  "agreement server: %zu communicators of this process are in use",
                  sessions_.size());
  }
  AgreementSession state(where_.address, limits_.reportTime);
  sessions_.insert_or_assign(stamp.nonce, Session{std::move(state), {}, served_++, kNoParent, {}});
  writeStamp(stamp, id);
  return {};
}

bool AgreementServer::makeRoom() {
  if (sessions_.size() < limits_.maxIds) return true;
  auto oldest = sessions_.end();
  for (auto at = sessions_.begin(); at != sessions_.end(); ++at) {
    if (!at->second.clients.empty()) continue;
    if (oldest == sessions_.end() || at->second.serial < oldest->second.serial) oldest = at;
  }
  if (oldest == sessions_.end()) return false;
  sessions_.erase(oldest);
  return true;
}

void AgreementServer::run() {
  for (;;) {
    epoll_event events[kEventsAtOnce];
    int n = epoll_wait(poller_.fd(), events, kEventsAtOnce, timeout());
    std::lock_guard lock(mutex_);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u64 == kStopper) return;
      if (events[i].data.u64 == kListener) {
        acceptAll();
      } else {
        handle(events[i].data.u64, events[i].events);
      }
    }
    expireStrangers();
    expireSessions();
    reap();
  }
}

int AgreementServer::timeout() {
  std::lock_guard lock(mutex_);
  Deadline due = strangers_.empty() ? kNoDeadline : strangers_.begin()->second;
  for (Nonce nonce : awaitsTime_) due = std::min(due, sessions_.at(nonce).state.deadline());
  return pollTimeout(due);
}

void AgreementServer::acceptAll() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    auto accepted = acceptFrom(listener_);
    if (!accepted.ok()) {
      // Out of descriptors or memory: a stranger gives way; without strangers, wait a moment, since
      // the listener stays readable.
      if (strangers_.empty()) poll(nullptr, 0, kExhaustedNapMilliseconds);
      if (!strangers_.empty()) strangers_.begin()->second = Clock::now();
      return;
    }
    if (!accepted.value()) return;
    admit(std::move(*accepted.value()));
  }
}

void AgreementServer::admit(Accepted accepted) {
  ConnectionId id = nextId_++;
  AgreementConnection connection(std::move(accepted));
  if (!control(poller_, EPOLL_CTL_ADD, connection.fd(), id, EPOLLIN)) return;
  clients_.emplace(id, Client{std::move(connection)});
  strangers_.emplace(id, deadlineIn(limits_.helloTime));
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
    auto message = client.connection.next();
    CINCH_TRY(message);
    if (!message.value()) return {};
    CINCH_TRY(dispatch(id, client, *message.value()));
  }
}

Result<void> AgreementServer::dispatch(ConnectionId id, Client& client, const Message& message) {
  const HelloMessage* hello = std::get_if<HelloMessage>(&message);
  if ((hello != nullptr) == client.isMember) {
    return errorf(Status::remoteError, "a message out of turn");
  }
  if (hello != nullptr) return greet(id, client, *hello);
  Session& session = sessions_.at(client.nonce);
  if (const Initialised* report = std::get_if<Initialised>(&message)) {
    CINCH_TRY(session.state.report(client.member, *report));
    awaitsTime_.insert(client.nonce);
  } else if (const Vote* vote = std::get_if<Vote>(&message)) {
    CINCH_TRY(session.state.vote(client.member, *vote));
  } else if (const Publication* said = std::get_if<Publication>(&message)) {
    CINCH_TRY(session.state.publish(client.member, *said));
  } else if (const Figures* figures = std::get_if<Figures>(&message)) {
    CINCH_TRY(session.state.pool(client.member, *figures));
    awaitsTime_.insert(client.nonce);
  } else if (const CloseProposal* proposal = std::get_if<CloseProposal>(&message)) {
    CINCH_TRY(session.state.proposeClosing(*proposal));
  } else if (const ClosePrepared* answer = std::get_if<ClosePrepared>(&message)) {
    CINCH_TRY(session.state.closePrepared(client.member, *answer));
  } else {
    return errorf(Status::remoteError, "a message that only servers send");
  }
  broadcast(session);
  return {};
}

Result<void> AgreementServer::greet(ConnectionId id, Client& client, const HelloMessage& message) {
  Result<size_t> joined = join(message, client.connection.from());
  if (!joined.ok()) {
    CINCH_TRY(send(id, client, Rejected{joined.error().message}));
    return joined.error();
  }
  Session& session = sessions_.at(message.nonce);
  strangers_.erase(id);
  client.isMember = true;
  client.nonce = message.nonce;
  client.member = joined.value();
  client.connection.trust();
  session.clients.push_back(id);
  CINCH_TRY(send(id, client, Acknowledged{}));
  broadcast(session);
  return {};
}

Result<size_t> AgreementServer::join(const HelloMessage& message, const IpAddress& from) {
  auto found = sessions_.find(message.nonce);
  if (found != sessions_.end() && found->second.parent == message.parent) {
    return found->second.state.join(message.hello, from);
  }
  if (found == sessions_.end() && message.parent != kNoParent) return beginChild(message, from);
  return errorf(Status::remoteError, "this unique id is not, or no longer, in use here");
}

Result<size_t> AgreementServer::beginChild(const HelloMessage& message, const IpAddress& from) {
  auto parent = sessions_.find(message.parent);
  if (parent == sessions_.end() || !parent->second.state.inUse()) {
    return errorf(Status::remoteError,
                  "the communicator that this one was made from is not, or no longer, in use here");
  }
  if (parent->second.failed.count(message.nonce) != 0) {
    return errorf(Status::remoteError, "the other ranks have stopped waiting for this one");
  }
  if (!makeRoom()) {
    rememberFailed(message.parent, message.nonce);
    return errorf(Status::systemError,
                  "agreement server: %zu communicators of this process are in use",
                  sessions_.size());
  }
  Session child{AgreementSession::ofChild(), {}, served_++, message.parent, {}};
  auto joined = child.state.join(message.hello, from);
  if (joined.ok()) sessions_.emplace(message.nonce, std::move(child));
  return joined;
}

Result<void> AgreementServer::send(ConnectionId id, Client& client, const Message& message) {
  CINCH_TRY(client.connection.send(encodeMessage(message)));
  return watchOutput(id, client);
}

Result<void> AgreementServer::watchOutput(ConnectionId id, const Client& client) {
  uint32_t events = client.connection.hasOutput() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (control(poller_, EPOLL_CTL_MOD, client.connection.fd(), id, events)) return {};
  return serverError("epoll");
}

void AgreementServer::broadcast(Session& session) {
  for (const Message& message : session.state.takeBroadcasts()) {
    for (ConnectionId id : session.clients) {
      auto found = clients_.find(id);
      if (found == clients_.end()) continue;  // it has left
      if (!send(id, found->second, message).ok()) doomed_.push_back(id);
    }
  }
}

void AgreementServer::expireStrangers() {
  while (!strangers_.empty()) {
    auto [id, due] = *strangers_.begin();
    if (strangers_.size() <= limits_.maxStrangers && Clock::now() < due) return;
    doomed_.push_back(id);
    strangers_.erase(strangers_.begin());
  }
}

void AgreementServer::expireSessions() {
  std::vector<Nonce> due;
  for (Nonce nonce : awaitsTime_) {
    if (sessions_.at(nonce).state.deadline() <= Clock::now()) due.push_back(nonce);
  }
  for (Nonce nonce : due) {
    Session& session = sessions_.at(nonce);
    session.state.expire();
    broadcast(session);
  }
  std::erase_if(awaitsTime_,
                [&](Nonce nonce) { return sessions_.at(nonce).state.deadline() == kNoDeadline; });
}

void AgreementServer::reap() {
  // To drop a member may decide votes, and telling the others may find more that are gone.
  while (!doomed_.empty()) {
    ConnectionId id = doomed_.back();
    doomed_.pop_back();
    drop(id);
  }
}

void AgreementServer::drop(ConnectionId id) {
  auto found = clients_.find(id);
  if (found == clients_.end()) return;
  // Explicitly, as a forked child may hold copies of the descriptor: closing would not be enough.
  control(poller_, EPOLL_CTL_DEL, found->second.connection.fd(), id, 0);
  found->second.connection.shutdown();
  Client gone = std::move(found->second);
  clients_.erase(found);
  strangers_.erase(id);
  if (!gone.isMember) return;
  Session& session = sessions_.at(gone.nonce);
  session.state.leave(gone.member);
  broadcast(session);
  if (session.state.over()) end(gone.nonce);
}

void AgreementServer::end(Nonce nonce) {
  const Session& session = sessions_.at(nonce);
  if (!session.state.complete()) rememberFailed(session.parent, nonce);
  awaitsTime_.erase(nonce);
  sessions_.erase(nonce);
}

// A child's late ranks are turned away at once, not left to wait for the others in vain. It is only
// kindness: each rank greets a child once, so that what is begun anew is never complete.
void AgreementServer::rememberFailed(Nonce parent, Nonce child) {
  auto found = sessions_.find(parent);
  if (found == sessions_.end() || found->second.failed.size() == limits_.maxFailed) return;
  found->second.failed.insert(child);
}

bool areIdsFixed() {
  const char* const where = environmentVariable("NCCL_COMM_ID");
  return where != nullptr && *where != '\0';
}

Result<void> serveAgreement(uint8_t* id) {
  // Never destroyed: the thread runs until the process ends. A forked child has no thread, so that
  // its first id starts a server of its own.
  static std::mutex mutex;
  static AgreementServer* server = nullptr;
  static pid_t owner = 0;
  std::lock_guard lock(mutex);
  if (server == nullptr || owner != getpid()) {
    auto text = [](const char* value) { return std::string(value == nullptr ? "" : value); };
    auto address = chooseAddress(listInterfaces(), text(environmentVariable("NCCL_SOCKET_IFNAME")),
                                 text(environmentVariable("NCCL_SOCKET_FAMILY")));
    CINCH_TRY(address);
    auto started = AgreementServer::start(address.value(), ServerLimits{});
    CINCH_TRY(started);
    server = started.value().release();
    owner = getpid();
  }
  return server->serve(id);
}

}  // namespace cinch
