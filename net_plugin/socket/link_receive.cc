// The reading half of a link: where payloads go, and when a message is whole.
#include <algorithm>

#include "net_plugin/socket/link.h"
#include "net_plugin/wire/checksum.h"

namespace cinch::net {
namespace {

constexpr int kReadsPerVisit = 8;

}  // namespace

// The message that a chunk belongs to; null where nobody waits for it any more.
std::shared_ptr<IncomingMessage> Link::incoming(ReceiveChannel& channel, const Record& record,
                                                const Lock&) {
  if (distance(channel.next, record.message) < 0) {
    const auto& posted = channel.postedAt(record.message);
    const bool waits =
        posted != nullptr && posted->number() == record.message && !posted->isEnding();
    return waits ? posted : nullptr;
  }
  if (channel.error) return nullptr;
  auto& early = channel.earlyAt(record.message);
  if (early == nullptr || early->number() != record.message) {
    early = std::make_shared<IncomingMessage>(record.message, nullptr, record.total);
  }
  return early;
}

// A peer that lost sight of us may speak of what a link before this one had.
void Link::refuseUnknown(const Record& chunk, const Lock& lock) {
  // In front of all that may be alive: nothing of this counts as received.
  const Record close{.type = RecordType::close,
                     .flags = kFromReceiver,
                     .connection = chunk.connection,
                     .message = chunk.message - kMaxRequests};
  closedReceives_.insert(chunk.connection).second ? sayForGood(close, lock) : say(close, lock);
}

// Somebody sends a message again that is there: its sender must have missed the news.
void Link::sayIfDone(ReceiveChannel& channel, uint32_t number, const Lock& lock) {
  if (distance(channel.next, number) >= 0) return;
  const auto& posted = channel.postedAt(number);
  const bool isThere =
      posted == nullptr || posted->number() != number || posted->outcome == Outcome::done;
  if (!isThere) return;
  sayLater({.type = RecordType::done, .connection = channel.id, .message = number}, lock);
}

Result<void> Link::beginChunk(Flow& flow, const Record& record, const Lock& lock) {
  Arrival& arrival = flow.arrival.emplace(Arrival{record, nullptr, nullptr});
  const auto found = receives_.find(record.connection);
  if (found == receives_.end()) {
    refuseUnknown(record, lock);
    return {};
  }
  ReceiveChannel& channel = *found->second;
  const int32_t ahead = distance(channel.next, record.message);
  const bool asked = ahead < 0 || (record.total <= kEagerBytes && ahead < kMaxRequests);
  if (!asked) return errorf(Status::remoteError, "a chunk that nobody asked for");
  const std::shared_ptr<IncomingMessage> message = incoming(channel, record, lock);
  if (message == nullptr) {
    sayIfDone(channel, record.message, lock);
    return {};
  }
  switch (message->judge(record.offset, record.length, record.total)) {
    case IncomingMessage::Verdict::wrong:
      return errorf(Status::remoteError, "a chunk that does not fit to its message");
    case IncomingMessage::Verdict::tooLarge:
      refuse(channel, record.message, record.total, message->capacity(), lock);
      return {};
    case IncomingMessage::Verdict::known:
      return {};
    case IncomingMessage::Verdict::wanted:
      break;
  }
  arrival.channel = found->second;
  arrival.message = message;
  arrival.intoSpare = !message->claim(record.offset, flow.serial);
  if (arrival.intoSpare) flow.spare.resize(kMaxChunkBytes);
  if (message->countsAsLong()) bulk_ += static_cast<int64_t>(message->total());
  return {};
}

void Link::refuse(ReceiveChannel& channel, uint32_t number, uint64_t total, uint64_t capacity,
                  const Lock& lock) {
  sayForGood(
      {.type = RecordType::refuse, .connection = channel.id, .message = number, .total = total},
      lock);
  failChannel(
      channel,
      errorf(Status::invalidUsage,
             "message truncated: %s sends %llu bytes into a buffer of %llu. Do all ranks "
             "call the same collective with the same count, type, NCCL_ALGO and NCCL_PROTO?",
             peer_.c_str(), static_cast<unsigned long long>(total),
             static_cast<unsigned long long>(capacity)),
      lock);
}

// Where the rest of the payload that is arriving goes; null: nowhere. Ends with releaseIncoming().
char* Link::useIncoming(Flow& flow) {
  if (!flow.arrival) return nullptr;
  Arrival& arrival = *flow.arrival;
  const uint32_t done = arrival.record.payloadBytes() - flow.reader.payloadLeft();
  if (arrival.record.type == RecordType::open) {
    return reinterpret_cast<char*>(flow.token.data()) + done;
  }
  if (arrival.message == nullptr) return nullptr;
  Lock lock(mutex_);
  const uint64_t offset = arrival.record.offset;
  if (arrival.message->isEnding() || arrival.message->has(offset)) {
    arrival.message->unclaim(offset, flow.serial);
    arrival.message = nullptr;
    return nullptr;
  }
  if (arrival.intoSpare) return flow.spare.data() + done;
  arrival.message->beginRead(offset, flow.serial);
  return arrival.message->at(offset) + done;
}

void Link::releaseIncoming(Flow& flow) {
  Lock lock(mutex_);
  if (!flow.arrival || flow.arrival->message == nullptr || flow.arrival->intoSpare) return;
  const Arrival& arrival = *flow.arrival;
  arrival.message->endRead(arrival.record.offset, flow.serial);
  settle(*arrival.channel, *arrival.message, lock);
}

void Link::settle(ReceiveChannel& channel, IncomingMessage& message, const Lock& lock) {
  if (message.outcome != Outcome::pending) return;
  message.settle();
  if (message.outcome == Outcome::pending) return;
  if (message.stopsBeingLong()) bulk_ -= static_cast<int64_t>(message.total());
  if (message.outcome != Outcome::done) return;
  if (channel.postedAt(message.number()).get() == &message) {
    const Record done{
        .type = RecordType::done, .connection = channel.id, .message = message.number()};
    channel.wasLong = message.total() > kEagerBytes;
    channel.wasLong ? say(done, lock) : sayLater(done, lock);
  } else {
    deliverEarly(channel, message.number(), lock);
  }
}

// Moves a message that came before its buffer into it, once both are there.
void Link::deliverEarly(ReceiveChannel& channel, uint32_t number, const Lock& lock) {
  const std::shared_ptr<IncomingMessage> early = channel.earlyAt(number);
  const std::shared_ptr<IncomingMessage> posted = channel.postedAt(number);
  if (early == nullptr || early->number() != number || early->outcome != Outcome::done) return;
  if (posted == nullptr || posted->number() != number || posted->isEnding()) return;
  channel.earlyAt(number).reset();
  const auto length = static_cast<uint32_t>(early->total());
  if (posted->judge(0, length, length) == IncomingMessage::Verdict::tooLarge) {
    return refuse(channel, number, length, posted->capacity(), lock);
  }
  posted->place(0, early->at(0), length);
  settle(channel, *posted, lock);
}

// A chunk whose bytes are all there: is it right?
Result<void> Link::finishChunk(Flow& flow, const Arrival& arrival) {
  if (arrival.message == nullptr) return {};
  const Record& record = arrival.record;
  Lock lock(mutex_);
  IncomingMessage& message = *arrival.message;
  if (message.isEnding() || message.has(record.offset)) {
    message.unclaim(record.offset, flow.serial);
    settle(*arrival.channel, message, lock);
    return {};
  }
  bool right = true;
  if ((record.flags & kHasChecksum) != 0) {
    const char* bytes = arrival.intoSpare ? flow.spare.data() : message.at(record.offset);
    message.beginRead(record.offset, flow.serial);
    lock.unlock();
    right = crc32c(bytes, record.length) == record.checksum;
    lock.lock();
    message.endRead(record.offset, flow.serial);
  }
  if (!arrival.intoSpare) message.unclaim(record.offset, flow.serial);
  // Without the lock much may have happened: a connection that was closed has lost its buffer.
  if (message.isEnding() || message.has(record.offset)) {
    // Nobody needs it any more.
  } else if (!right) {
    damaged(flow, arrival, lock);
  } else if (arrival.intoSpare) {
    message.place(record.offset, flow.spare.data(), record.length);
  } else {
    message.arrived(record.offset, record.length);
  }
  settle(*arrival.channel, message, lock);
  return {};
}

// Asks for a damaged chunk once more; a second time is an error.
void Link::damaged(Flow& flow, const Arrival& arrival, const Lock& lock) {
  const Record& record = arrival.record;
  ++countersOf(flow).damagedChunks;
  if (arrival.message->mayAskAgain(record.offset)) {
    if (damageLines_.admits()) {
      CINCH_NET_WARN(
          "%zu bytes at %llu of a message from %s arrived damaged over flow %d: asked for again",
          size_t{record.length}, static_cast<unsigned long long>(record.offset), peer_.c_str(),
          flow.index);
    }
    return sayAgain(*arrival.channel, *arrival.message, record.offset, lock);
  }
  sayClosed(*arrival.channel, lock);
  failChannel(*arrival.channel,
              errorf(Status::remoteError,
                     "%u bytes at %llu of a message from %s arrived damaged over flow %d, for the "
                     "second time: check the memory and network cards of both hosts",
                     record.length, static_cast<unsigned long long>(record.offset), peer_.c_str(),
                     flow.index),
              lock);
}

// A connection that the peer opens. Said more than once where a flow died in between.
Result<void> Link::acceptOpen(const Token& token, uint32_t id) {
  auto channel = std::make_shared<ReceiveChannel>(id);
  {
    Lock lock(mutex_);
    if (closedReceives_.count(id) != 0) return {};
    const bool isNew = receives_.count(id) == 0;
    if (isNew && receives_.size() >= kMaxConnections) {
      return errorf(Status::remoteError, "more than %zu connections", kMaxConnections);
    }
    if (!isNew) {
      say({.type = RecordType::opened, .connection = id}, lock);
      return {};
    }
    receives_.emplace(id, channel);
  }
  const bool accepted = accept_(token, channel);
  Lock lock(mutex_);
  if (accepted) {
    say({.type = RecordType::opened, .connection = id}, lock);
    return {};
  }
  receives_.erase(id);
  closedReceives_.insert(id);
  sayClosed(*channel, lock);
  return {};
}

Result<void> Link::begin(Flow& flow, const Record& record) {
  Lock lock(mutex_);
  if (record.type == RecordType::chunk) return beginChunk(flow, record, lock);
  if (record.type == RecordType::open) {
    flow.arrival.emplace(Arrival{record, nullptr, nullptr});
  } else {
    onControl(flow, record, lock);
  }
  return {};
}

Result<void> Link::finish(Flow& flow) {
  const Arrival arrival = std::move(*flow.arrival);
  flow.arrival.reset();
  if (arrival.record.type == RecordType::chunk) return finishChunk(flow, arrival);
  return acceptOpen(flow.token, arrival.record.connection);
}

// Does what all records say that are staged.
Result<void> Link::digest(Flow& flow) {
  while (true) {
    if (flow.arrival) {
      if (flow.reader.payloadLeft() > 0) {
        char* payload = useIncoming(flow);
        flow.reader.takeStaged(payload);
        releaseIncoming(flow);
      }
      if (flow.reader.payloadLeft() > 0) return {};
      CINCH_TRY(finish(flow));
    }
    const Result<std::optional<Record>> record = flow.reader.next();
    if (!record) return record.error();
    if (!record.value()) return {};
    CINCH_TRY(begin(flow, *record.value()));
  }
}

void Link::heard(Flow& flow) {
  Lock lock(mutex_);
  flow.lastHeard = lastHeard_ = Clock::now();
  flow.hasSpoken = true;
}

bool Link::receive(Flow& flow) {
  std::unique_lock busy(flow.receiving, std::try_to_lock);
  if (!busy) return false;
  bool moved = false;
  for (int i = 0; i < kReadsPerVisit && !flow.isDead; ++i) {
    char* payload = useIncoming(flow);
    const Result<Io> io = flow.reader.read(payload);
    if (io && io.value() == Io::blocked && !flow.arrival) break;
    releaseIncoming(flow);
    if (!io) loseFlow(flow, io.error().message);
    if (!io || io.value() == Io::blocked) break;
    if (!moved) heard(flow);
    moved = true;
    const Result<void> digested = digest(flow);
    if (!digested) loseFlow(flow, digested.error().message);
    // Where messages are short, to ask for more costs as much as to read one.
    if (flow.reader.isDrained()) break;
  }
  if (flow.isDead) {
    Lock lock(mutex_);
    endReceiving(flow, lock);
  }
  return moved;
}

}  // namespace cinch::net
