// What the two ends of a link tell one another besides payloads. Every record says how things are,
// none says what changed: it may come late, twice, or after a later one.
#include "net_plugin/socket/link.h"

#include <algorithm>

namespace cinch::net {
namespace {

constexpr size_t kLastWordsKept = 256;
// How long records that nobody waits for may wait for company, and how many: a write costs more
// than most answers take, the answer of a busy program included. A sender runs out of room when
// kMaxRequests of its messages are not acknowledged.
constexpr auto kCompany = std::chrono::microseconds(200);
constexpr size_t kMostWaitingBytes = kMaxRequests / 2 * kRecordBytes;
constexpr size_t kClosedIdsKept = 4096;
// Of records that wait for one flow.
constexpr size_t kMostOwnBytes = 64 << 10;

}  // namespace

void Link::say(const Record& record, const Lock&, std::span<const uint8_t> payload) {
  const auto bytes = encodeRecord(record);
  control_.insert(control_.end(), bytes.begin(), bytes.end());
  control_.insert(control_.end(), payload.begin(), payload.end());
  hasWork_ = true;
}

// Short messages are done for their sender long before they are acknowledged.
void Link::sayLater(const Record& record, const Lock&) {
  const auto bytes = encodeRecord(record);
  control_.insert(control_.end(), bytes.begin(), bytes.end());
  if (control_.size() >= kMostWaitingBytes) hasWork_ = true;
  if (speakAt_.load() == Clock::time_point::max()) speakAt_ = Clock::now() + kCompany;
}

// A peer that asks without end, and does not read the answers, gets no more of them.
void Link::sayOver(Flow& flow, const Record& record, const Lock&) {
  if (flow.isDead || flow.isMute || flow.own.size() > kMostOwnBytes) return;
  const auto bytes = encodeRecord(record);
  flow.own.insert(flow.own.end(), bytes.begin(), bytes.end());
  hasWork_ = true;
}

void Link::sayForGood(const Record& record, const Lock& lock) {
  lastWords_.push_back(record);
  if (lastWords_.size() > kLastWordsKept) lastWords_.pop_front();
  if (closedReceives_.size() > kClosedIdsKept) closedReceives_.erase(closedReceives_.begin());
  say(record, lock);
}

// May overtake the last `done`, so it says what was received.
void Link::sayClosed(const ReceiveChannel& channel, const Lock& lock) {
  sayForGood({.type = RecordType::close,
              .flags = kFromReceiver,
              .connection = channel.id,
              .message = channel.firstOpen()},
             lock);
}

// The sender knows how long the chunk is that begins there.
void Link::sayAgain(const ReceiveChannel& channel, const IncomingMessage& message, uint64_t offset,
                    const Lock& lock) {
  say({.type = RecordType::again,
       .connection = channel.id,
       .message = message.number(),
       .length = static_cast<uint32_t>(std::min<uint64_t>(kGridBytes, message.total() - offset)),
       .offset = offset,
       .total = message.total()},
      lock);
}

void Link::sayStateOf(ReceiveChannel& channel, const Lock& lock) {
  say({.type = RecordType::opened, .connection = channel.id}, lock);
  for (const auto& message : channel.posted) {
    if (message == nullptr) continue;
    if (message->outcome == Outcome::done) {
      say({.type = RecordType::done, .connection = channel.id, .message = message->number()}, lock);
    } else if (message->outcome == Outcome::pending) {
      say({.type = RecordType::grant,
           .connection = channel.id,
           .message = message->number(),
           .total = message->capacity()},
          lock);
      for (const uint64_t offset : message->askedFor()) sayAgain(channel, *message, offset, lock);
    }
  }
  for (const auto& message : channel.early) {
    if (message == nullptr || message->outcome != Outcome::pending) continue;
    for (const uint64_t offset : message->askedFor()) sayAgain(channel, *message, offset, lock);
  }
}

// Says all again that may have been lost with a flow.
void Link::sayState(const Lock& lock) {
  for (const auto& [id, channel] : sends_) {
    if (channel->isOpened || channel->error) continue;
    say({.type = RecordType::open, .connection = id, .length = kOpenPayloadBytes}, lock,
        channel->token);
  }
  for (const auto& [id, channel] : receives_) sayStateOf(*channel, lock);
  for (const Record& record : lastWords_) say(record, lock);
}

// The message of this number that the peer speaks of; null where it is through.
std::shared_ptr<OutgoingMessage> Link::outgoing(const Record& record, const Lock&) {
  const auto found = sends_.find(record.connection);
  if (found == sends_.end()) return nullptr;
  for (const auto& message : found->second->live) {
    if (message->number() == record.message && !message->isEnding()) return message;
  }
  return nullptr;
}

void Link::onOpened(const Record& record, const Lock&) {
  const auto found = sends_.find(record.connection);
  if (found != sends_.end()) found->second->isOpened = true;
}

void Link::onGrant(const Record& record, const Lock& lock) {
  const auto found = sends_.find(record.connection);
  // Closed, or of a link before this one: nothing will come, for all buffers that may be waiting.
  if (found == sends_.end()) {
    return say({.type = RecordType::close,
                .connection = record.connection,
                .message = record.message - kMaxRequests},
               lock);
  }
  SendChannel& channel = *found->second;
  // A buffer for this one takes the place of one that was filled.
  for (const auto& message : channel.live) {
    if (distance(message->number(), record.message) < kMaxRequests) continue;
    message->setDelivered();
    settle(*message, lock);
  }
  const int32_t ahead = distance(channel.next, record.message);
  if (ahead < -kMaxRequests || ahead >= kMaxRequests || channel.isGranted(record.message)) return;
  channel.grant(record.message);
  const std::shared_ptr<OutgoingMessage> message = outgoing(record, lock);
  if (message == nullptr || message->total() <= kEagerBytes) return;
  unsent_.push_back(message);
  hasWork_ = true;
}

void Link::onDone(const Record& record, const Lock& lock) {
  const std::shared_ptr<OutgoingMessage> message = outgoing(record, lock);
  if (message == nullptr) return;
  message->setDelivered();
  settle(*message, lock);
}

void Link::onAgain(const Record& record, const Lock& lock) {
  const std::shared_ptr<OutgoingMessage> message = outgoing(record, lock);
  const std::optional<Chunk> chunk =
      message == nullptr ? std::nullopt : message->takenAt(record.offset);
  if (!chunk) return;
  const bool isQueued = message->hasUnsent();
  message->giveBackChunk(chunk->index);
  if (!isQueued) unsent_.push_front(message);
  hasWork_ = true;
}

void Link::onRefuse(const Record& record, const Lock& lock) {
  const auto found = sends_.find(record.connection);
  if (found == sends_.end()) return;
  failChannel(*found->second,
              errorf(Status::invalidUsage,
                     "message truncated: %s waits for fewer bytes than the %llu that are sent. Do "
                     "all ranks call the same collective with the same count, type, NCCL_ALGO and "
                     "NCCL_PROTO?",
                     peer_.c_str(), static_cast<unsigned long long>(record.total)),
              lock);
}

void Link::onClose(const Record& record, const Lock& lock) {
  if ((record.flags & kFromReceiver) != 0) {
    const auto found = sends_.find(record.connection);
    if (found == sends_.end()) return;
    for (const auto& message : found->second->live) {
      if (distance(message->number(), record.message) > 0) message->setDelivered();
      settle(*message, lock);
    }
    return failChannel(*found->second, closedByPeer(), lock);
  }
  const auto found = receives_.find(record.connection);
  if (found == receives_.end()) return;
  found->second->closeAt(record.message);
  endReceives(*found->second, lock);
}

Error Link::closedByPeer() const {
  return errorf(Status::remoteError, "%s has closed the connection", peer_.c_str());
}

// Fails those buffers that nothing comes for.
void Link::endReceives(ReceiveChannel& channel, const Lock& lock) {
  for (const auto& message : channel.posted) {
    const bool open = message != nullptr && message->outcome == Outcome::pending;
    if (!open || !channel.isClosedFor(message->number())) continue;
    if (!channel.error) channel.error = closedByPeer();
    message->fail();
    settle(channel, *message, lock);
  }
}

void Link::onControl(Flow& flow, const Record& record, const Lock& lock) {
  switch (record.type) {
    case RecordType::opened:
      return onOpened(record, lock);
    case RecordType::grant:
      return onGrant(record, lock);
    case RecordType::done:
      return onDone(record, lock);
    case RecordType::again:
      return onAgain(record, lock);
    case RecordType::refuse:
      return onRefuse(record, lock);
    case RecordType::close:
      return onClose(record, lock);
    case RecordType::ping:
      return sayOver(flow, {.type = RecordType::pong, .message = record.message}, lock);
    case RecordType::pong:
      return;  // that it came is what counts
    case RecordType::open:
    case RecordType::chunk:
      return;  // have payloads: begin()
  }
}

}  // namespace cinch::net
