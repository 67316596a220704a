// The writing half of a link: what goes next, and over which flow.
#include <algorithm>

#include "net_plugin/socket/link.h"
#include "net_plugin/wire/checksum.h"

namespace cinch::net {
namespace {

// A sick flow is tried again so often.
constexpr auto kProbeEvery = std::chrono::seconds(1);
// As many of what is short; what is long goes in large pieces, and others must be read in between.
constexpr int kWritesPerVisit = 4;
// With `sampled`, one chunk in so many has a checksum.
constexpr uint64_t kSampling = 16;

// What is written in place of a buffer that is no longer ours; the peer drops it.
char unusedBytes[kMaxChunkBytes];

Record recordOf(const Departure& departure) {
  const OutgoingMessage& message = *departure.message;
  return {.type = RecordType::chunk,
          .connection = message.connection(),
          .message = message.number(),
          .length = departure.chunk.length,
          .offset = departure.chunk.offset,
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
    const FlowRate& rate = flow->rate;
    all[i] = {rate.bytesPerSecond(), rate.queued(), isSick, rate.seenBytesPerSecond()};
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

void Link::addChunk(Flow& flow, const std::shared_ptr<OutgoingMessage>& message,
                    const Chunk& chunk) {
  flow.leaving.push_back({message, chunk});
  ++countersOf(flow).chunks;
}

bool Link::wantsChecksum() {
  return settings_.checksum == ChecksumChoice::all ||
         (settings_.checksum == ChecksumChoice::sampled && nChunks_++ % kSampling == 0);
}

// The records in front of the chunks, which are still to come: their checksums take a while.
void Link::addChecksums(Flow& flow) {
  for (size_t i = 0; i < flow.leaving.size(); ++i) {
    Departure& departure = flow.leaving[i];
    if (!std::exchange(departure.checksumDue, false) || departure.message == nullptr) continue;
    Record record = recordOf(departure);
    record.flags = kHasChecksum;
    record.checksum = crc32c(flow.payloads[i], departure.chunk.length);
    flow.writer.replaceRecord(i, encodeRecord(record));
  }
}

// The next chunk that no flow has, and those after it as long as all are no more than `nBytes`.
void Link::take(Flow& flow, uint64_t nBytes, const Lock& lock) {
  // Without a copy each long payload is a call of its own.
  const uint64_t most =
      flow.writer.copies() ? nBytes : std::min<uint64_t>(nBytes, ZeroCopy::kLeastBytes - 1);
  uint64_t taken = 0;
  while (flow.leaving.size() < FlowWriter::kMostChunks) {
    const std::shared_ptr<OutgoingMessage> message = nextUnsent(lock);
    if (message == nullptr) return;
    taken += message->peek().length;
    if (!flow.leaving.empty() && taken > most) return;
    addChunk(flow, message, message->take(flow.index));
  }
}

void Link::takeUnsent(Flow& flow, const std::vector<FlowView>& views, Clock::time_point now,
                      const Lock& lock) {
  uint64_t backlog = 0;
  for (const auto& waiting : unsent_) backlog += waiting->unsentBytes();
  const uint64_t chunk = unsent_.front()->peek().length;
  const bool inTime =
      nFlows_ == 1 || (!views[flow.index].isSick && takesChunk(views, flow.index, chunk, backlog));
  if (!inTime && now < flow.nextProbe) return;
  if (!inTime) flow.nextProbe = now + kProbeEvery;
  take(flow, inTime ? bytesAtOnce(views, flow.index, backlog) : 0, lock);
}

// A chunk that flow `late` has not got through, for `flow` to send again; false where all have
// been.
bool Link::takeOver(Flow& flow, Flow& late, const Lock&) {
  const auto take = [&](const std::shared_ptr<OutgoingMessage>& message, uint32_t index) {
    if (message == nullptr || !message->takeAgain(index, flow.index)) return false;
    addChunk(flow, message, message->chunk(index));
    ++countersOf(flow).repeatedChunks;
    return true;
  };
  return std::any_of(late.leaving.rbegin(), late.leaving.rend(),
                     [&](const Departure& it) { return take(it.message, it.chunk.index); }) ||
         std::any_of(late.sent.rbegin(), late.sent.rend(),
                     [&](const SentChunk& it) { return take(it.message, it.index); });
}

void Link::takeLate(Flow& flow, std::vector<FlowView> views, const Lock& lock) {
  if (views[flow.index].isSick) return;
  int late = latestFlow(views, flow.index, settings_.chunkBytes);
  while (late >= 0) {
    if (flows_[late] != nullptr && takeOver(flow, *flows_[late], lock)) return;
    views[late].queued = 0;  // nothing there: who is next?
    late = latestFlow(views, flow.index, settings_.chunkBytes);
  }
}

void Link::takeChunks(Flow& flow, const Lock& lock) {
  const Clock::time_point now = Clock::now();
  sample(flow, now, lock);
  const std::vector<FlowView> all = views(lock);
  nextUnsent(lock) != nullptr ? takeUnsent(flow, all, now, lock) : takeLate(flow, all, lock);
}

// Gives the writer something to write; false where there is nothing for this flow.
bool Link::startWrite(Flow& flow, const Lock& lock) {
  // Records are better late than never.
  const bool anySure = std::any_of(flows_.begin(), flows_.end(), isSure);
  takeChunks(flow, lock);
  flow.records.swap(flow.own);
  if (!anySure || !flow.isDoubtful) {
    flow.records.insert(flow.records.end(), control_.begin(), control_.end());
    control_.clear();
    speakAt_ = Clock::time_point::max();
  }
  // While long messages are under way, what is late may have to go again.
  hasWork_ = !control_.empty() || !unsent_.empty() || (nFlows_ > 1 && hasLong()) ||
             std::any_of(flows_.begin(), flows_.end(),
                         [](auto& it) { return it != nullptr && !it->own.empty(); });
  if (flow.records.empty() && flow.leaving.empty()) return false;
  if (flow.isDoubtful) flow.isCovered = false;  // this may be swallowed, too
  flow.writer.begin(flow.records);
  for (Departure& departure : flow.leaving) {
    departure.checksumDue = wantsChecksum();
    flow.writer.addChunk(encodeRecord(recordOf(departure)), departure.chunk.length);
  }
  return true;
}

// Says that the chunks are read from here on, and where they are, until releaseLeaving(); false
// where there is nothing left to write, or the flow is dead.
bool Link::useLeaving(Flow& flow) {
  Lock lock(mutex_);
  for (size_t i = 0; i < flow.leaving.size();) {
    std::shared_ptr<OutgoingMessage>& message = flow.leaving[i].message;
    const bool isNeeded = message == nullptr || !message->isEnding() || message->isCopy();
    if (!isNeeded && flow.writer.takeBack(i)) {
      flow.leaving.erase(flow.leaving.begin() + static_cast<ptrdiff_t>(i));
      continue;
    }
    // The peer may still count on the rest of what was given up here, and must not get anything
    // else.
    if (!isNeeded && message->isGivenUp()) loseFlow(flow, "a message was given up on it", lock);
    if (!isNeeded) message.reset();
    ++i;
  }
  if (flow.writer.isIdle()) flow.leaving.clear();
  if (flow.isDead || flow.writer.isIdle()) return false;
  flow.payloads.clear();
  for (const auto& [message, chunk, checksumDue] : flow.leaving) {
    flow.payloads.push_back(message == nullptr ? unusedBytes : message->data() + chunk.offset);
    if (message != nullptr) message->use();
  }
  return true;
}

void Link::releaseLeaving(Flow& flow, bool isFull) {
  Lock lock(mutex_);
  flow.isFull = isFull || !flow.writer.isIdle();
  for (size_t i = 0; i < flow.leaving.size(); ++i) {
    const std::shared_ptr<OutgoingMessage> message = flow.leaving[i].message;
    if (message == nullptr) continue;
    if (flow.writer.holdsPayloads() && (flow.isDead || message->isGivenUp())) {
      loseFlow(flow, kMayStillSend, lock);
      cut(flow);  // it may have been lost before the kernel had these bytes
    }
    if (i < flow.writer.currentChunk()) {
      flow.leaving[i].message.reset();
      if (nFlows_ > 1) {
        flow.sent.push_back({flow.writer.endOf(i), message, flow.leaving[i].chunk.index});
      }
    }
    message->release();
    settle(*message, lock);
  }
  if (flow.writer.isIdle()) flow.leaving.clear();
}

// One write; false where there is nothing to write, or the kernel takes no more.
bool Link::write(Flow& flow) {
  if (flow.isDead || flow.isMute) return false;
  if (flow.writer.isIdle()) {
    Lock lock(mutex_);
    if (!startWrite(flow, lock)) return false;
  }
  if (!useLeaving(flow)) return false;
  addChecksums(flow);
  const Result<Io> io = flow.writer.write(flow.payloads);
  releaseLeaving(flow, io && io.value() == Io::blocked);
  if (!io) stopWriting(flow, io.error().message);
  return io && io.value() == Io::moved;
}

bool Link::send(Flow& flow) {
  std::unique_lock busy(flow.sending, std::try_to_lock);
  if (!busy) return false;
  flow.writer.listen();
  const bool moved = write(flow);
  // Without a copy, a record and its payload are writes of their own. And what others gave up to
  // write since this flow is taken would have nobody, should no message be waited for.
  const auto goesOn = [&] {
    return !flow.writer.copies() || (flow.writer.isIdle() && hasWork_ && !hasLong());
  };
  for (int i = 1; i < kWritesPerVisit && moved && goesOn() && write(flow); ++i) {
  }
  flow.isWriting = !flow.writer.isIdle();
  if (flow.isDead || flow.isMute) {
    Lock lock(mutex_);
    endSending(flow, lock);
  }
  return moved;
}

bool Link::sendOver(const std::vector<FlowPointer>& flows) {
  bool moved = false;
  for (const FlowPointer& flow : flows) {
    const bool isQuiet = !flow->isDead && !flow->isWriting && !flow->writer.holdsPayloads();
    if (isQuiet && !hasWork_.load(std::memory_order_relaxed)) continue;
    moved = send(*flow) || moved;
  }
  return moved;
}

}  // namespace cinch::net
