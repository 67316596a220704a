// The writing half of a link: what goes next, and over which flow.
#include <algorithm>

#include "net_plugin/socket/link.h"
#include "net_plugin/wire/checksum.h"

namespace cinch::net {
namespace {

constexpr int kWritesPerVisit = 4;
// A sick flow is tried again so often.
constexpr auto kProbeEvery = std::chrono::seconds(1);
// With `sampled`, one chunk in so many has a checksum.
constexpr uint64_t kSampling = 16;

// What is written in place of a buffer that is no longer ours; the peer drops it.
char unusedBytes[kMaxChunkBytes];

Record chunkRecord(const Flow& flow) {
  const OutgoingMessage& message = *flow.outgoing;
  return {.type = RecordType::chunk,
          .connection = message.connection(),
          .message = message.number(),
          .length = flow.chunk.length,
          .offset = flow.chunk.offset,
          .total = message.total()};
}

}  // namespace

bool Link::mayBeSent(const SendChannel& channel, const OutgoingMessage& message) const {
  return channel.isOpened &&
         (message.total() <= kEagerBytes || channel.isGranted(message.number()));
}

void Link::settle(OutgoingMessage& message, const Lock&) {
  const bool was = message.outcome == Outcome::pending;
  message.settle();
  const bool ends = was && message.outcome != Outcome::pending;
  if (ends && message.total() > kEagerBytes) bulk_ -= static_cast<int64_t>(message.total());
}

void Link::sample(Flow& flow, Clock::time_point now, const Lock&) {
  const uint64_t written = flow.writer.written();
  const uint64_t queued = flow.writer.queued();
  flow.rate.sample(now, written, queued);
  while (!flow.sent.empty() && flow.sent.front().end + queued <= written) flow.sent.pop_front();
}

std::vector<FlowView> Link::views(const Lock&) const {
  std::vector<FlowView> all(flows_.size());
  for (size_t i = 0; i < flows_.size(); ++i) {
    const FlowPointer& flow = flows_[i];
    if (flow == nullptr || flow->isDead) {
      all[i].isSick = true;
      continue;
    }
    const bool isSick = flow->isSick || flow->isDoubtful;
    all[i] = {flow->rate.bytesPerSecond(), flow->rate.queued(), isSick};
  }
  return all;
}

// The first message with chunks that no flow has; null where there is none.
std::shared_ptr<OutgoingMessage> Link::nextUnsent(const Lock&) {
  while (!unsent_.empty()) {
    if (!unsent_.front()->isEnding() && unsent_.front()->hasUnsent()) return unsent_.front();
    unsent_.pop_front();
  }
  return nullptr;
}

void Link::setChunk(Flow& flow, const std::shared_ptr<OutgoingMessage>& message,
                    const Chunk& chunk) {
  flow.outgoing = message;
  flow.chunk = chunk;
  ++countersOf(flow).chunks;
}

bool Link::wantsChecksum() {
  return settings_.checksum == ChecksumChoice::all ||
         (settings_.checksum == ChecksumChoice::sampled && nChunks_++ % kSampling == 0);
}

// The record in front of the chunk, which is still to come: its checksum takes a while.
void Link::addChecksum(Flow& flow, const char* payload) {
  if (flow.outgoing == nullptr || !std::exchange(flow.checksumDue, false)) return;
  Record record = chunkRecord(flow);
  record.flags = kHasChecksum;
  record.checksum = crc32c(payload, flow.chunk.length);
  flow.writer.replaceLast(encodeRecord(record));
}

bool Link::takeUnsent(Flow& flow, const std::vector<FlowView>& views, Clock::time_point now,
                      const Lock& lock) {
  const std::shared_ptr<OutgoingMessage> message = nextUnsent(lock);
  if (message == nullptr) return false;
  uint64_t backlog = 0;
  for (const auto& waiting : unsent_) backlog += waiting->unsentBytes();
  const bool inTime =
      !views[flow.index].isSick && takesChunk(views, flow.index, message->peek().length, backlog);
  if (!inTime && now < flow.nextProbe) return false;
  if (!inTime) flow.nextProbe = now + kProbeEvery;
  setChunk(flow, message, message->take(flow.index));
  return true;
}

// A chunk that flow `late` has not got through, for `flow` to send again; false where all have
// been.
bool Link::takeOver(Flow& flow, Flow& late, const Lock&) {
  const auto take = [&](const std::shared_ptr<OutgoingMessage>& message, uint32_t index) {
    if (message == nullptr || !message->takeAgain(index, flow.index)) return false;
    setChunk(flow, message, message->chunk(index));
    ++countersOf(flow).repeatedChunks;
    return true;
  };
  if (take(late.outgoing, late.chunk.index)) return true;
  return std::any_of(late.sent.rbegin(), late.sent.rend(),
                     [&](const SentChunk& it) { return take(it.message, it.index); });
}

bool Link::takeLate(Flow& flow, std::vector<FlowView> views, const Lock& lock) {
  if (views[flow.index].isSick) return false;
  int late = latestFlow(views, flow.index, settings_.chunkBytes);
  while (late >= 0) {
    if (flows_[late] != nullptr && takeOver(flow, *flows_[late], lock)) return true;
    views[late].queued = 0;  // nothing there: who is next?
    late = latestFlow(views, flow.index, settings_.chunkBytes);
  }
  return false;
}

bool Link::takeChunk(Flow& flow, const Lock& lock) {
  if (nFlows_ == 1) {
    const std::shared_ptr<OutgoingMessage> message = nextUnsent(lock);
    if (message != nullptr) setChunk(flow, message, message->take(flow.index));
    return message != nullptr;
  }
  const Clock::time_point now = Clock::now();
  sample(flow, now, lock);
  const std::vector<FlowView> all = views(lock);
  return nextUnsent(lock) != nullptr ? takeUnsent(flow, all, now, lock) : takeLate(flow, all, lock);
}

// Gives the writer something to write; false where there is nothing for this flow.
bool Link::startWrite(Flow& flow, const Lock& lock) {
  // Records are better late than never.
  const bool anySure = std::any_of(flows_.begin(), flows_.end(), isSure);
  const bool hasChunk = takeChunk(flow, lock);
  flow.records.swap(flow.own);
  if (!anySure || !flow.isDoubtful) {
    flow.records.insert(flow.records.end(), control_.begin(), control_.end());
    control_.clear();
    speakAt_ = Clock::time_point::max();
  }
  if (hasChunk) {
    const auto bytes = encodeRecord(chunkRecord(flow));
    flow.records.insert(flow.records.end(), bytes.begin(), bytes.end());
    flow.checksumDue = wantsChecksum();
  }
  // While long messages are under way, what is late may have to go again.
  hasWork_ = !control_.empty() || !unsent_.empty() || (nFlows_ > 1 && hasLong()) ||
             std::any_of(flows_.begin(), flows_.end(),
                         [](auto& it) { return it != nullptr && !it->own.empty(); });
  if (flow.records.empty()) return false;
  if (flow.isDoubtful) flow.isCovered = false;  // this may be swallowed, too
  flow.writer.begin(flow.records, hasChunk ? flow.chunk.length : 0);
  return true;
}

// Where the rest of the chunk is to be read from (null: of an empty one); nothing where the flow is
// dead. Ends with releaseOutgoing().
std::optional<const char*> Link::useOutgoing(Flow& flow) {
  Lock lock(mutex_);
  const uint32_t done = flow.chunk.length - flow.writer.payloadLeft();
  if (flow.outgoing != nullptr && flow.outgoing->isEnding() && !flow.outgoing->isCopy()) {
    // The peer may still count on the rest of what was given up here, and must not get anything
    // else.
    if (flow.outgoing->isGivenUp()) loseFlow(flow, "a message was given up on it", lock);
    flow.outgoing.reset();
  }
  if (flow.isDead) return std::nullopt;
  if (flow.outgoing == nullptr) return unusedBytes;
  flow.outgoing->use();
  return flow.outgoing->data() + flow.chunk.offset + done;
}

void Link::releaseOutgoing(Flow& flow, bool isFull) {
  Lock lock(mutex_);
  flow.isFull = isFull;
  const std::shared_ptr<OutgoingMessage> message = flow.outgoing;
  if (message == nullptr) return;
  if (flow.writer.holdsPayloads() && (flow.isDead || message->isGivenUp())) {
    loseFlow(flow, kMayStillSend, lock);
    cut(flow);  // it may have been lost before the kernel had these bytes
  }
  if (flow.writer.payloadLeft() == 0) {
    flow.outgoing.reset();
    if (nFlows_ > 1) flow.sent.push_back({flow.writer.written(), message, flow.chunk.index});
  }
  message->release();
  settle(*message, lock);
}

bool Link::send(Flow& flow) {
  std::unique_lock busy(flow.sending, std::try_to_lock);
  if (!busy) return false;
  flow.writer.listen();
  bool moved = false;
  for (int i = 0; i < kWritesPerVisit && !flow.isDead && !flow.isMute; ++i) {
    if (flow.writer.isIdle()) {
      Lock lock(mutex_);
      if (!startWrite(flow, lock)) break;
    }
    const std::optional<const char*> payload = useOutgoing(flow);
    if (!payload) break;
    addChecksum(flow, *payload);
    const Result<Io> io = flow.writer.write(*payload);
    releaseOutgoing(flow, io && io.value() == Io::blocked);
    if (!io) stopWriting(flow, io.error().message);
    if (!io || io.value() == Io::blocked) break;
    moved = true;
  }
  flow.isWriting = !flow.writer.isIdle();
  if (flow.isDead || flow.isMute) {
    Lock lock(mutex_);
    endSending(flow, lock);
  }
  return moved;
}

}  // namespace cinch::net
