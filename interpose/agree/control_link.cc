#include "interpose/agree/control_link.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/network/descriptors.h"

namespace cinch {
namespace {

// What each side of a connection keeps for the other, which reads nothing: thousands of messages.
// Program threads wait with theirs, so that only answers pile up here.
constexpr size_t kMaxKept = 4 << 20;
constexpr size_t kLinkReadBytes = 16 << 10;
// The server listens before the id exists, so a connection that takes longer is not coming: a
// firewall drops it, for every communicator of the job.
constexpr std::chrono::seconds kConnectTime{10};

// The links of one process. A forked child has none of its parent's, and never touches their locks.
struct LinkTable {
  struct Entry {
    std::mutex mutex;  // held while a link is made: who else wants one waits for that
    std::weak_ptr<ControlLink> link;
    std::string unreachable;  // why; empty: nobody has tried in vain
  };
  const uint64_t generation = forkGeneration();
  const pid_t owner = getpid();  // not every way to fork is counted
  std::mutex mutex;              // guards the map
  std::map<Endpoint, Entry> entries;

  Entry& of(const Endpoint& server) {
    const std::lock_guard lock(mutex);
    return entries[server];
  }

  // Never destroyed: communicators may be made while the process ends.
  static LinkTable& ofProcess() {
    static std::atomic<LinkTable*> current{nullptr};
    LinkTable* table = current.load();
    while (table == nullptr || table->generation != forkGeneration() || table->owner != getpid()) {
      auto* const made = new LinkTable;
      if (current.compare_exchange_strong(table, made)) return *made;
      delete made;
    }
    return *table;
  }
};

}  // namespace

void ControlOutput::attach(ControlReader* reader, uint64_t id) {
  std::lock_guard lock(mutex_);
  reader_ = reader;
  id_ = id;
}

Result<void> ControlOutput::append(const Bytes& frame) {
  if (ended_) return errorf(Status::remoteError, "the connection was closed");
  if (kept_.size() + frame.size() > kMaxKept)
    return errorf(Status::remoteError, "it does not read what it is sent");
  kept_.insert(kept_.end(), frame.begin(), frame.end());
  queued_ += frame.size();
  return flushLocked();
}

Result<void> ControlOutput::send(const Bytes& frame, Deadline deadline,
                                 const std::function<bool()>& isWanted) {
  std::unique_lock lock(mutex_);
  CINCH_TRY(append(frame));
  const uint64_t mine = queued_;
  const auto taken = [&] { return ended_ || queued_ - kept_.size() >= mine || !isWanted(); };
  if (!drained_.wait_until(lock, deadline, taken))
    return errorf(Status::remoteError, "it does not read what it is sent");
  if (ended_) return errorf(Status::remoteError, "the connection was closed");
  return {};
}

Result<void> ControlOutput::enqueue(const Bytes& frame) {
  std::lock_guard lock(mutex_);
  return append(frame);
}

Result<void> ControlOutput::flush() {
  std::lock_guard lock(mutex_);
  if (ended_) return errorf(Status::remoteError, "the connection was closed");
  return flushLocked();
}

Result<void> ControlOutput::flushLocked() {
  auto sent = sendSome(socket_, kept_.data(), kept_.size());
  CINCH_TRY(sent);
  if (sent.value() > 0)
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(sent.value()));
  drained_.notify_all();
  if (watched_ == !kept_.empty()) return {};
  watched_ = !watched_;
  return reader_->watchOutput(id_, socket_.fd(), watched_);
}

void ControlOutput::end() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  if (socket_.fd() >= 0) socket_.shutdown();
  drained_.notify_all();
}

bool ControlOutput::hasEnded() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void ControlOutput::close() {
  std::lock_guard lock(mutex_);
  socket_ = Socket();
}

ControlLink::ControlLink(Socket connected) : output_(std::move(connected)) {
  tolerateOutages(output_.socket());
  input_.setLimit(kMaxServerBytes);
}

Result<std::shared_ptr<ControlLink>> ControlLink::to(const Endpoint& server, Deadline deadline) {
  LinkTable::Entry& entry = LinkTable::ofProcess().of(server);
  const std::lock_guard lock(entry.mutex);
  if (auto link = entry.link.lock(); link && !link->isEnding()) return link;
  if (!entry.unreachable.empty())
    return errorf(Status::systemError, "%s", entry.unreachable.c_str());
  CINCH_TRY(haveSpareDescriptors());
  const Deadline enough = deadlineIn(kConnectTime);
  auto connected = connectTo(server, std::min(deadline, enough));
  if (!connected.ok()) {
    const Error error = errorf(Status::systemError,
                               "agreement server: %s: open the firewall between the hosts, or "
                               "choose the network with NCCL_SOCKET_IFNAME",
                               connected.error().message.c_str());
    if (Clock::now() >= enough) entry.unreachable = error.message;
    return error;
  }
  std::shared_ptr<ControlLink> link(new ControlLink(std::move(connected.value())));
  CINCH_TRY(link->start());
  entry.link = link;
  return link;
}

Result<void> ControlLink::start() {
  auto reader = ControlReader::ofProcess();
  CINCH_TRY(reader);
  auto id = reader.value()->add(output_.socket().fd(), shared_from_this());
  CINCH_TRY(id);
  output_.attach(reader.value(), id.value());
  return {};
}

Result<void> ControlLink::open(const Endpoint& server, const std::shared_ptr<Listener>& listener,
                               Deadline deadline) {
  CINCH_TRY(ControlReader::ofProcess());  // which counts forks, before there is a lock to be held
  for (;;) {
    auto link = to(server, deadline);
    CINCH_TRY(link);
    if (link.value()->add(listener)) return {};
  }
}

// False where the last user of the link has just left.
bool ControlLink::add(const std::shared_ptr<Listener>& listener) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return false;
  const Channel channel = next_++;
  listener->opened(shared_from_this(), channel);
  listeners_.emplace(channel, listener);
  return true;
}

void ControlLink::close(Channel channel) {
  {
    const std::lock_guard lock(mutex_);
    if (listeners_.erase(channel) == 0 || !listeners_.empty()) return;
    failure_ = "nobody uses the connection any more";
  }
  output_.end();  // of which the reader hears
}

// Whoever sends something must not be the one that ends the link: what the other side has sent
// before it went may be waiting to be read. The reader delivers that, and then finds the end.
Result<void> ControlLink::checked(Result<void> sent) {
  if (!sent.ok()) output_.end();
  return sent;
}

Result<void> ControlLink::send(const Message& message, Channel channel, Deadline deadline,
                               const std::function<bool()>& isWanted) {
  return checked(output_.send(encodeMessage(message, channel), deadline, isWanted));
}

Result<void> ControlLink::enqueue(const Message& message, Channel channel) {
  return checked(output_.enqueue(encodeMessage(message, channel)));
}

bool ControlLink::onReadable() {
  uint8_t bytes[kLinkReadBytes];
  auto received = receiveSome(output_.socket(), bytes, sizeof bytes);
  Result<void> good = received.ok() ? Result<void>() : Result<void>(received.error());
  if (good.ok()) {
    input_.append(bytes, received.value());
    good = deliverAll();
  }
  if (!good.ok()) fail(good.error().message);
  return good.ok();
}

Result<void> ControlLink::deliverAll() {
  for (;;) {
    auto frame = input_.next();
    CINCH_TRY(frame);
    if (!frame.value()) return {};
    std::shared_ptr<Listener> listener;
    {
      const std::lock_guard lock(mutex_);
      const auto found = listeners_.find(frame.value()->channel);
      if (found != listeners_.end()) listener = found->second.lock();
    }
    // What is for a rank that has left meanwhile is nobody's.
    if (listener) listener->deliver(frame.value()->message);
  }
}

void ControlLink::onWritable() {
  static_cast<void>(checked(output_.flush()));
}

void ControlLink::onTick() {
  std::map<Channel, std::weak_ptr<Listener>> listeners;
  {
    const std::lock_guard lock(mutex_);
    listeners = listeners_;
  }
  for (const auto& [channel, weak] : listeners)
    if (const auto listener = weak.lock()) listener->tick();
}

bool ControlLink::isEnding() {
  if (output_.hasEnded()) return true;
  const std::lock_guard lock(mutex_);
  return !failure_.empty();
}

void ControlLink::fail(const std::string& cause) {
  std::map<Channel, std::weak_ptr<Listener>> listeners;
  {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = cause;
    listeners.swap(listeners_);
  }
  output_.end();
  for (const auto& [channel, weak] : listeners)
    if (const auto listener = weak.lock()) listener->lost(cause);
}

}  // namespace cinch
