#include "net_plugin/socket/link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <thread>

namespace cinch::net {
namespace {

// Rarely read flows still get their turn; only one is read on every look while messages are short.
constexpr unsigned kOthersEvery = 8;
// Before this much silence nobody asks for a sign of life.
constexpr auto kSilence = std::chrono::milliseconds(500);
// A flow whose bytes nobody acknowledges for so long is doubtful: longer than a delayed
// acknowledgement takes. All others wait for the records that it may have swallowed.
constexpr auto kDoubt = std::chrono::milliseconds(60);
// A short message that is not acknowledged is sent again after this.
constexpr auto kRepeatCopies = std::chrono::seconds(1);
constexpr int kRoundTripsToDoubt = 3;  // on links that are longer than that
// And after so long it is sick: longer than TCP's first retry.
constexpr auto kStall = std::chrono::milliseconds(300);
// So is one that is so much slower than the fastest.
constexpr double kMuchSlower = 50;
// Between two looks, which are at most 50 ms apart, unless this process was stopped.
constexpr auto kLongPause = std::chrono::seconds(1);
// The least time that a flow has to answer.
constexpr Clock::duration kFlowPatience = std::chrono::seconds(1);

// Of all links: a peer must not take a connection for one of a link that it had before.
std::atomic<uint32_t> nextChannel{1};

void setUp(const Socket& socket, Clock::duration timeout) {
  const int fd = socket.fd();
  const int on = 1;
  // More than this unsent in the kernel could not go to another flow any more.
  const int unsent = 128 << 10;
  const int idle = 10, interval = 5, probes = 3;
  const int timeoutMs =
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count());
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeoutMs, sizeof timeoutMs);
}

bool lies(const char* buffer, std::span<const char> memory) {
  return buffer >= memory.data() && buffer < memory.data() + memory.size();
}

std::shared_ptr<OutgoingMessage> makeMessage(SendChannel& channel, const void* data, uint64_t total,
                                             uint32_t chunkBytes) {
  const uint32_t number = channel.next++;
  if (total > kEagerBytes) {
    return std::make_shared<OutgoingMessage>(channel.id, number, data, total, chunkBytes);
  }
  const char* bytes = static_cast<const char*>(data);
  return std::make_shared<OutgoingMessage>(channel.id, number,
                                           std::vector<char>(bytes, bytes + total));
}

Error unregistered() {
  return errorf(Status::invalidUsage, "the memory of a message under way was taken back");
}

}  // namespace

Link::Link(const SocketSettings& settings, std::string peer, int nFlows, AcceptChannel accept)
    : settings_(settings),
      peer_(std::move(peer)),
      nFlows_(nFlows),
      accept_(std::move(accept)),
      flows_(nFlows),
      places_(nFlows),
      lostLines_(LogLevel::info, "lost flows to " + peer_),
      failureLines_(LogLevel::info, "flows to " + peer_ + " that cannot be opened"),
      damageLines_(LogLevel::warn, "damaged chunks from " + peer_) {}

void Link::attach(int index, Socket socket) {
  setUp(socket, settings_.timeout);
  const std::string local = localEndpoint(socket).text();
  const std::string remote = remoteEndpoint(socket).text();
  Lock lock(mutex_);
  if (error_) return;
  FlowPointer& place = flows_[index];
  FlowFigures& figures = places_[index];
  figures.local = local;
  figures.remote = remote;
  ++figures.counters.openings;
  // The peer knows better than we do that the old one is dead.
  if (const FlowPointer old = place; old != nullptr) {
    if (!old->isDead.exchange(true)) ++figures.counters.losses;
    cut(*old);
    endDead(*old, lock);
    replaced_.push_back(old);
  }
  place = std::make_shared<Flow>(index, std::move(socket));
  place->writer.enableZeroCopy();
  // Only an answer shows that the peer wants the flow: its link may have failed.
  sayOver(*place, {.type = RecordType::ping}, lock);
  sayState(lock);
}

std::vector<int> Link::missingFlows() {
  Lock lock(mutex_);
  std::vector<int> missing;
  for (int i = 0; i < nFlows_; ++i) {
    if (flows_[i] == nullptr) missing.push_back(i);
  }
  return missing;
}

bool Link::hasFlows() {
  Lock lock(mutex_);
  return std::any_of(flows_.begin(), flows_.end(), [](const FlowPointer& flow) {
    return flow != nullptr && !flow->isDead && flow->hasSpoken;
  });
}

std::vector<Link::FlowPointer> Link::flows() {
  Lock lock(mutex_);
  std::vector<FlowPointer> present;
  for (const FlowPointer& flow : flows_) {
    if (flow != nullptr) present.push_back(flow);
  }
  // What is well comes first: control and short messages take the first that can.
  std::stable_partition(present.begin(), present.end(),
                        [](const FlowPointer& flow) { return !flow->isSick; });
  return present;
}

bool Link::pump() {
  if (Clock::now() >= speakAt_.load(std::memory_order_relaxed)) hasWork_ = true;
  const bool all = hasLong() || pumps_.fetch_add(1, std::memory_order_relaxed) % kOthersEvery == 0;
  const std::vector<FlowPointer> present = flows();
  // What is short goes first, since to look for more costs as much as to send it.
  bool moved = !hasLong() && hasWork_.load(std::memory_order_relaxed) && sendOver(present);
  for (const FlowPointer& flow : present) {
    moved = receive(*flow) || moved;
    if (!all) break;
  }
  return sendOver(present) || moved;
}

// Ends its connection. What the kernel may still read from a buffer must not go out once the buffer
// is its owner's again: the peer would take it for the message.
void Link::cut(const Flow& flow) {
  flow.writer.holdsPayloads() ? flow.socket.reset() : flow.socket.shutdown();
}

void Link::loseFlow(Flow& flow, const std::string& why, const Lock&) {
  if (flow.isDead.exchange(true)) return;
  cut(flow);
  lastLoss_ = why;
  // With its last connection a peer may go.
  if (sends_.empty() && receives_.empty()) return;
  ++countersOf(flow).losses;
  if (!lostLines_.admits()) return;
  CINCH_NET_INFO("flow %d to %s is lost: %s", flow.index, peer_.c_str(), why.c_str());
}

void Link::loseFlow(Flow& flow, const std::string& why) {
  loseFlow(flow, why, Lock(mutex_));
}

// The peer is gone, or the way to it; what it sent before may still lie here to be read.
void Link::stopWriting(Flow& flow, const std::string& why) {
  Lock lock(mutex_);
  flow.isMute = flow.isSick = flow.isDoubtful = true;
  lastLoss_ = why;
}

// What this flow has taken goes to the others.
void Link::endSending(Flow& flow, const Lock& lock) {
  if (std::exchange(flow.sendingEnded, true)) return;
  flow.leaving.clear();
  flow.sent.clear();
  flow.own.clear();
  for (const auto& [id, channel] : sends_) {
    for (const auto& message : channel->live) {
      if (message->isEnding()) continue;
      const bool waits = message->hasUnsent();
      message->giveBack(flow.index);
      if (!waits && message->hasUnsent() && mayBeSent(*channel, *message)) {
        unsent_.push_front(message);
      }
    }
  }
  hasWork_ = true;
  sayState(lock);
  removeEnded(flow, lock);
}

void Link::endReceiving(Flow& flow, const Lock& lock) {
  if (std::exchange(flow.receivingEnded, true)) return;
  if (flow.arrival && flow.arrival->message != nullptr && !flow.arrival->intoSpare) {
    flow.arrival->message->unclaim(flow.arrival->record.offset, flow.serial);
  }
  flow.arrival.reset();
  removeEnded(flow, lock);
}

void Link::removeEnded(Flow& flow, const Lock& lock) {
  if (!flow.isThrough()) return;
  keepFigures(flow, lock);
  FlowPointer& place = flows_[flow.index];
  if (place.get() == &flow) place.reset();
}

std::shared_ptr<SendChannel> Link::openChannel(const Token& token) {
  Lock lock(mutex_);
  auto channel = std::make_shared<SendChannel>(nextChannel.fetch_add(1), token);
  sends_[channel->id] = channel;
  if (error_) failChannel(*channel, *error_, lock);
  say({.type = RecordType::open, .connection = channel->id, .length = kOpenPayloadBytes}, lock,
      token);
  return channel;
}

Result<bool> Link::isOpened(const SendChannel& channel) {
  Lock lock(mutex_);
  if (channel.error) return *channel.error;
  return channel.isOpened;
}

Result<std::shared_ptr<OutgoingMessage>> Link::post(SendChannel& channel, const void* data,
                                                    uint64_t total) {
  Lock lock(mutex_);
  if (channel.error) return *channel.error;
  std::erase_if(channel.live, [](const auto& it) { return it->isThrough(); });
  const bool full = !channel.live.empty() &&
                    distance(channel.live.front()->number(), channel.next) >= kMaxRequests;
  if (full) return std::shared_ptr<OutgoingMessage>();
  auto message = makeMessage(channel, data, total, settings_.chunkBytes);
  channel.live.push_back(message);
  if (total > kEagerBytes) bulk_ += static_cast<int64_t>(total);
  if (mayBeSent(channel, *message)) {
    unsent_.push_back(message);
    hasWork_ = true;
  }
  return message;
}

Result<std::shared_ptr<IncomingMessage>> Link::post(const std::shared_ptr<ReceiveChannel>& channel,
                                                    void* buffer, uint64_t capacity) {
  Lock lock(mutex_);
  if (channel->error) return *channel->error;
  std::shared_ptr<IncomingMessage>& place = channel->postedAt(channel->next);
  if (place != nullptr && place->outcome == Outcome::pending) {
    return std::shared_ptr<IncomingMessage>();
  }
  const auto message = std::make_shared<IncomingMessage>(channel->next, buffer, capacity);
  place = message;
  ++channel->next;
  if (channel->isClosedFor(message->number())) {
    endReceives(*channel, lock);
    return message;
  }
  const Record grant{.type = RecordType::grant,
                     .connection = channel->id,
                     .message = message->number(),
                     .total = capacity};
  // Only a long message waits for it, and one that was will be again.
  channel->wasLong ? say(grant, lock) : sayLater(grant, lock);
  deliverEarly(*channel, message->number(), lock);
  return message;
}

// Waits for what has been told to fail. One call to the kernel that does not wait, or the
// checksums for it, is all that can be under way.
template <class Messages>
void Link::waitForEnd(const Messages& messages, Lock& lock) {
  const auto isUsed = [](const auto& it) {
    return it != nullptr && it->outcome == Outcome::pending;
  };
  while (std::any_of(messages.begin(), messages.end(), isUsed)) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
}

void Link::forget(SendChannel& channel, std::span<const char> memory) {
  Lock lock(mutex_);
  const bool isUsed =
      std::any_of(channel.live.begin(), channel.live.end(), [&](const auto& message) {
        return message->outcome == Outcome::pending && lies(message->data(), memory);
      });
  if (!isUsed) return;
  failChannel(channel, unregistered(), lock);
  waitForEnd(channel.live, lock);
}

void Link::forget(ReceiveChannel& channel, std::span<const char> memory) {
  Lock lock(mutex_);
  const bool isUsed =
      std::any_of(channel.posted.begin(), channel.posted.end(), [&](const auto& message) {
        return message != nullptr && message->outcome == Outcome::pending &&
               lies(message->at(0), memory);
      });
  if (!isUsed) return;
  failChannel(channel, unregistered(), lock);
  waitForEnd(channel.posted, lock);
}

void Link::close(const std::shared_ptr<SendChannel>& channel) {
  Lock lock(mutex_);
  endSends(*channel, channel->firstUnsendable(),
           errorf(Status::invalidUsage, "the connection was closed"), lock);
  channel->isClosed = true;
  sayForGood({.type = RecordType::close, .connection = channel->id, .message = channel->end}, lock);
  dropClosed(lock);
  waitForEnd(channel->live, lock);
}

void Link::close(const std::shared_ptr<ReceiveChannel>& channel) {
  Lock lock(mutex_);
  failChannel(*channel, errorf(Status::invalidUsage, "the connection was closed"), lock);
  receives_.erase(channel->id);
  closedReceives_.insert(channel->id);
  sayClosed(*channel, lock);
  waitForEnd(channel->posted, lock);
}

// Those closed connections whose peer has it all.
void Link::dropClosed(const Lock&) {
  std::erase_if(sends_,
                [](const auto& it) { return it.second->isClosed && it.second->isThrough(); });
}

// Nobody else can say and send this, should the process end.
void Link::flush(Clock::duration patience) {
  const Clock::time_point end = Clock::now() + patience;
  const auto isOut = [this] {
    Lock lock(mutex_);
    if (!control_.empty()) hasWork_ = true;
    dropClosed(lock);
    const bool lingers = std::any_of(sends_.begin(), sends_.end(),
                                     [](const auto& it) { return it.second->hasCopies(); });
    return error_ || (control_.empty() && !lingers);
  };
  while (!isOut() && Clock::now() < end) {
    if (!pump()) std::this_thread::yield();
  }
}

Error Link::errorOf(const SendChannel& channel) {
  Lock lock(mutex_);
  return channel.error.value_or(Error{});
}

Error Link::errorOf(const ReceiveChannel& channel) {
  Lock lock(mutex_);
  return channel.error.value_or(Error{});
}

Result<void> Link::check(const SendChannel& channel) {
  Lock lock(mutex_);
  if (channel.error) return *channel.error;
  return {};
}

bool Link::hasChannels() {
  Lock lock(mutex_);
  return !sends_.empty() || !receives_.empty();
}

// From this number on nothing is sent any more.
void Link::endSends(SendChannel& channel, uint32_t end, const Error& error, const Lock& lock) {
  if (!channel.error) channel.end = end;
  if (!channel.error) channel.error = error;
  const bool givesBack = std::any_of(channel.live.begin(), channel.live.end(), [](const auto& it) {
    return !it->isCopy() && !it->isEnding();
  });
  for (const FlowPointer& flow : flows_) {
    if (!givesBack || flow == nullptr || !flow->writer.holdsPayloads()) continue;
    loseFlow(*flow, kMayStillSend, lock);
  }
  for (const auto& message : channel.live) {
    if (distance(end, message->number()) >= 0) message->fail();
    settle(*message, lock);
  }
}

void Link::failChannel(SendChannel& channel, const Error& error, const Lock& lock) {
  endSends(channel, channel.firstUndelivered(), error, lock);
}

void Link::failChannel(ReceiveChannel& channel, const Error& error, const Lock& lock) {
  if (!channel.error) channel.error = error;
  for (const auto& message : channel.posted) {
    if (message == nullptr) continue;
    message->fail();
    settle(channel, *message, lock);
  }
}

void Link::failAll(const Error& error, const Lock& lock) {
  if (error_) return;
  error_ = error;
  failed_ = true;
  // Who waits gets the error, and whoever handed it the request says it. Peers that have finished
  // just go.
  if (!isAwaited(lock)) CINCH_NET_INFO("%s", error.message.c_str());
  for (const auto& [id, channel] : sends_) failChannel(*channel, error, lock);
  for (const auto& [id, channel] : receives_) failChannel(*channel, error, lock);
  dropClosed(lock);
  for (const FlowPointer& flow : flows_) {
    if (flow == nullptr) continue;
    flow->isDead = true;
    cut(*flow);
  }
}

void Link::fail(const Error& error) {
  Lock lock(mutex_);
  const std::string cause = lastLoss_.empty() ? "" : " (last: " + lastLoss_ + ")";
  failAll({error.status, error.message + cause}, lock);
}

// True where somebody waits for the peer: for a connection, or with a request.
bool Link::isAwaited(const Lock&) const {
  const auto isPending = [](const auto& message) {
    return message != nullptr && message->outcome == Outcome::pending;
  };
  const auto awaitsSend = [&](const auto& it) {
    const SendChannel& channel = *it.second;
    return !channel.isOpened || std::any_of(channel.live.begin(), channel.live.end(), isPending);
  };
  const auto awaitsReceive = [&](const auto& it) {
    return std::any_of(it.second->posted.begin(), it.second->posted.end(), isPending);
  };
  return std::any_of(sends_.begin(), sends_.end(), awaitsSend) ||
         std::any_of(receives_.begin(), receives_.end(), awaitsReceive);
}

// True where the peer has something to answer.
bool Link::isOwed(const Lock& lock) const {
  return isAwaited(lock) || std::any_of(sends_.begin(), sends_.end(),
                                        [](const auto& it) { return !it.second->isThrough(); });
}

// A flow that says nothing while others do is as good as dead, whatever its kernel acknowledges.
void Link::checkFlowLife(Flow& flow, Clock::time_point now, const Lock& lock) {
  if (flow.pingSince && flow.lastHeard > *flow.pingSince) flow.pingSince.reset();
  if (!flow.pingSince && now - flow.lastHeard > kSilence) {
    flow.pingSince = now;
    sayOver(flow, {.type = RecordType::ping}, lock);
  }
  const bool isLate =
      flow.pingSince && now - *flow.pingSince > std::max(settings_.timeout / 6, kFlowPatience);
  if (isLate && now - lastHeard_ < kSilence) loseFlow(flow, "it has gone silent", lock);
}

// A peer may be slow for ever, but not silent: its helper answers even while its program computes.
void Link::checkLife(Clock::time_point now, const Lock& lock) {
  const bool owed = isOwed(lock);
  if (!owed || (pingSince_ && lastHeard_ > *pingSince_)) pingSince_.reset();
  for (const FlowPointer& flow : flows_) {
    if (flow == nullptr || flow->isDead) continue;
    if (!owed) flow->pingSince.reset();
    if (owed) checkFlowLife(*flow, now, lock);
    if (flow->pingSince && !pingSince_) pingSince_ = flow->pingSince;
  }
  if (!pingSince_ || now - *pingSince_ < settings_.timeout) return;
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(settings_.timeout).count();
  failAll(errorf(Status::remoteError,
                 "%s has given no sign of life for %lld s (CINCH_NET_TIMEOUT): is its process "
                 "stopped, or the network between the hosts cut?",
                 peer_.c_str(), static_cast<long long>(waited)),
          lock);
}

// Where no thread came by since a flow died.
void Link::endDead(Flow& flow, const Lock& lock) {
  const std::unique_lock sending(flow.sending, std::try_to_lock);
  if (sending) endSending(flow, lock);
  const std::unique_lock receiving(flow.receiving, std::try_to_lock);
  if (receiving) endReceiving(flow, lock);
}

// Where this process was stopped itself, nothing can be said of the peer.
void Link::forgivePause(Clock::time_point now, const Lock&) {
  const bool wasStopped = now - std::exchange(lastLook_, now) > kLongPause;
  if (!wasStopped) return;
  pingSince_.reset();
  lastHeard_ = now;
  for (const FlowPointer& flow : flows_) {
    if (flow == nullptr) continue;
    flow->pingSince.reset();
    flow->lastHeard = now;
  }
}

void Link::look(Clock::time_point now) {
  for (const FlowPointer& flow : flows()) {
    if (!flow->isDead) continue;
    Lock lock(mutex_);
    endDead(*flow, lock);
  }
  Lock lock(mutex_);
  std::erase_if(replaced_, [&](const FlowPointer& flow) {
    endDead(*flow, lock);
    return flow->isThrough();
  });
  dropClosed(lock);
  if (error_) return;
  repeatCopies(now, lock);
  forgivePause(now, lock);
  judgeFlows(now, lock);
  const bool anySure = std::any_of(flows_.begin(), flows_.end(), isSure);
  for (const FlowPointer& flow : flows_) {
    if (anySure && flow != nullptr && flow->isDoubtful && !flow->isCovered) cover(*flow, lock);
  }
  checkLife(now, lock);
}

// A copy that nobody has acknowledged for long goes once more: whatever became of it or of the
// answer.
void Link::repeatCopies(Clock::time_point now, const Lock&) {
  for (const auto& [id, channel] : sends_) {
    if (channel->live.empty()) continue;
    const std::shared_ptr<OutgoingMessage>& front = channel->live.front();
    if (std::exchange(channel->frontNumber, front->number()) != front->number()) {
      channel->frontSince = now;
    }
    const bool isTaken = front->isCopy() && !front->isEnding() && !front->hasUnsent();
    if (!isTaken || now - channel->frontSince < kRepeatCopies) continue;
    channel->frontSince = now;
    front->giveBackChunk(0);
    unsent_.push_back(front);
    hasWork_ = true;
  }
}

// What this flow was given may never arrive: others say it again, and send again what is short.
void Link::cover(Flow& flow, const Lock& lock) {
  flow.isCovered = true;
  sayState(lock);
  for (const auto& [id, channel] : sends_) {
    for (const auto& message : channel->live) {
      if (!message->isCopy() || message->isEnding() || message->hasUnsent()) continue;
      message->giveBack(flow.index);
      if (message->hasUnsent()) unsent_.push_back(message);
    }
  }
}

// Which flows are sick, which doubtful?
void Link::judgeFlows(Clock::time_point now, const Lock& lock) {
  double fastest = 0;
  for (const FlowPointer& flow : flows_) {
    if (flow == nullptr || flow->isDead) continue;
    sample(*flow, now, lock);
    fastest = std::max(fastest, flow->rate.bytesPerSecond());
  }
  for (const FlowPointer& flow : flows_) {
    if (flow == nullptr) continue;
    const double rate = flow->rate.bytesPerSecond();
    const bool sick = flow->isMute || flow->rate.isStalled(now, kStall) ||
                      (rate > 0 && rate * kMuchSlower < fastest);
    if (sick && !flow->isSick) ++countersOf(*flow).quarantines;
    flow->isSick = sick;
    const bool doubtful =
        sick || (flow->rate.isStalled(now, kDoubt) &&
                 flow->rate.isStalled(now, kRoundTripsToDoubt * flow->writer.roundTrip()));
    flow->isDoubtful = doubtful;
    flow->isCovered = flow->isCovered && doubtful;
  }
}

void Link::addPollTargets(std::vector<std::pair<int, short>>* targets) {
  Lock lock(mutex_);
  for (const FlowPointer& flow : flows_) {
    if (flow == nullptr || flow->isDead) continue;
    const short events = flow->isFull ? POLLIN | POLLOUT : POLLIN;
    targets->push_back({flow->socket.fd(), events});
  }
}

}  // namespace cinch::net
