#include "net_plugin/ib/receiver.h"

#include <algorithm>

namespace cinch::net::ib {

bool ReceivedGroup::isComplete() const {
  return std::all_of(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(n_),
                     [](const Entry& entry) { return entry.isComplete(); });
}

Receiver::Receiver(Wiring wiring, std::unique_ptr<ReceiverSlots> slots)
    : Stream(std::move(wiring)), slots_(std::move(slots)), flushes_(lane().canFlush()) {}

// The sender may not have been told by its device of what is all here.
Receiver::~Receiver() {
  Standing last = standing();
  last.isClosing = true;
  if (!hasFailed()) say(last);
  endLanes();
}

Result<ReceivedGroup*> Receiver::receive(std::span<const KnownBuffer> buffers) {
  CINCH_TRY(progress());
  ReceivedGroup& group = groups_[next_ % kMaxRequests];
  // The device may still read the place's last grant.
  if (group.isTaken_ || group.isGranting_) return nullptr;
  group.isTaken_ = true;
  group.number_ = next_++;
  group.n_ = buffers.size();
  for (size_t i = 0; i < buffers.size(); ++i) {
    group.entries_[i] = {static_cast<uint32_t>(buffers[i].capacity), buffers[i].region, 0, 0, 0};
    grant(group, i, buffers[i]);
  }
  group.isToBeGranted_ = true;
  postWaiting();
  return &group;
}

// Writes down what the sender is to know of a buffer.
void Receiver::grant(const ReceivedGroup& group, size_t index, const KnownBuffer& buffer) {
  ClearToSend& entry = slots_->granted[placeOf(group.number_, index)];
  entry = {.address = reinterpret_cast<uint64_t>(buffer.data),
           .keys = {},
           .capacity = static_cast<uint32_t>(buffer.capacity),
           .tag = buffer.tag,
           .groupSize = static_cast<uint8_t>(group.n_),
           .stamp = stampOf(group.number_)};
  if (buffer.region == nullptr) return;
  for (size_t i = 0; i < buffer.region->parts.size(); ++i) {
    entry.keys[i] = buffer.region->parts[i].known->rkey;
  }
}

void Receiver::postWaiting() {
  if (isMoving()) return;
  // The oldest first: that of next_ is the place that is used again next.
  for (uint64_t i = 0; i < kMaxRequests; ++i) {
    ReceivedGroup& group = groups_[(next_ + i) % kMaxRequests];
    if (group.isToBeGranted_ && !post(group)) return;
  }
}

bool Receiver::post(ReceivedGroup& group) {
  const size_t place = placeOf(group.number_, 0);
  const RemoteWrite write = {.from = &slots_->granted[place],
                             .localKey = lane().slotsKey(),
                             .nBytes = static_cast<uint32_t>(group.n_ * sizeof(ClearToSend)),
                             .to = peerRing() + place * sizeof(ClearToSend),
                             .remoteKey = peerPort().ringKey};
  const auto id = static_cast<uint32_t>(group.number_ % kMaxRequests);
  const size_t queue = group.number_ % lane().nQueues();
  if (lane().write(queue, write, Work::grant, id) != Posting::taken) return false;
  group.isToBeGranted_ = false;
  group.isGranting_ = true;
  return true;
}

void Receiver::written(Work work, uint32_t id) {
  if (work != Work::flush) {
    groups_[id % kMaxRequests].isGranting_ = false;
    return;
  }
  PendingFlush& flush = pending_[id % kPlaces];
  const bool isLast = flush.stage_ == PendingFlush::Stage::posted && flush.id_ == id;
  if (isLast) flush.stage_ = PendingFlush::Stage::done;
}

void Receiver::arrived(uint32_t immediate) {
  const size_t place = placeOfImmediate(immediate);
  const size_t part = partOfImmediate(immediate);
  const ReceivedGroup& group = groups_[place / kMaxGroup];
  if (immediate != immediateOf(group.number_, place, part)) {
    return fail(errorf(Status::remoteError, "the peer announced a message of another group"));
  }
  count(place, part);
}

void Receiver::count(size_t place, size_t part) {
  ReceivedGroup& group = groups_[place / kMaxGroup];
  const size_t index = place % kMaxGroup;
  const bool isOurs = group.isTaken_ && index < group.n_;
  const char* wrong = isOurs ? tryToCount(group, index, part, slots_->arrivals[place][part])
                             : "for no buffer that waits";
  if (wrong != nullptr) {
    fail(errorf(Status::remoteError, "the peer announced a message %s", wrong));
  }
}

// Null, or what no honest peer announces.
const char* Receiver::tryToCount(ReceivedGroup& group, size_t index, size_t part,
                                 const Arrival& arrival) {
  ReceivedGroup::Entry& entry = group.entries_[index];
  if (arrival.group != static_cast<uint32_t>(group.number_)) return "of another group";
  if (arrival.nParts < 1 || arrival.nParts > kMaxParts || part >= arrival.nParts) {
    return "in parts that cannot be";
  }
  if (arrival.nBytes > entry.capacity) return "that is larger than its buffer";
  const bool isSame = entry.nParts == arrival.nParts && entry.nBytes == arrival.nBytes;
  if (entry.nParts != 0 && !isSame) return "that has changed";
  if ((entry.parts >> part & 1) != 0) return "twice";
  entry.nParts = arrival.nParts;
  entry.nBytes = arrival.nBytes;
  entry.parts |= static_cast<uint8_t>(1 << part);
  return nullptr;
}

Result<bool> Receiver::take(ReceivedGroup& group) {
  if (!group.isComplete()) {
    const Result<void> moved = progress();
    if (!moved && !group.isComplete()) {
      group.isTaken_ = false;
      return moved.error();
    }
  }
  if (!group.isComplete()) return false;
  group.isTaken_ = false;
  return true;
}

Result<PendingFlush*> Receiver::flush(const void* data, const Region& region) {
  CINCH_TRY(progressAlone());
  const auto free = std::find_if(pending_.begin(), pending_.end(), [](const PendingFlush& it) {
    return it.stage_ == PendingFlush::Stage::free;
  });
  if (free == pending_.end()) {
    return errorf(Status::invalidUsage, "more than %zu flushes at once on one connection", kPlaces);
  }
  free->stage_ = PendingFlush::Stage::waiting;
  free->data_ = data;
  free->region_ = &region;
  toFlush_.push_back(static_cast<size_t>(free - pending_.begin()));
  goOnAlone();
  return &*free;
}

void Receiver::goOnAlone() {
  const std::optional<size_t> own = ownLane();
  if (!own || !laneAt(*own).canFlush()) return;
  if (*own != flushLane_) {
    flushLane_ = *own;
    flushAgain();
  }
  while (!toFlush_.empty() && post(pending_[toFlush_.front()])) toFlush_.pop_front();
  if (isMoving()) drain(laneAt(*own));
}

// By another device than before. The queue pairs of that one have ended, and what it wrote was on
// its way to the GPU before.
void Receiver::flushAgain() {
  toFlush_.clear();
  for (size_t i = 0; i < pending_.size(); ++i) {
    PendingFlush::Stage& stage = pending_[i].stage_;
    if (stage == PendingFlush::Stage::posted) stage = PendingFlush::Stage::waiting;
    if (stage == PendingFlush::Stage::waiting) toFlush_.push_back(i);
  }
}

bool Receiver::post(PendingFlush& flush) {
  const uint32_t key = flush.region_->parts[flushLane_].known->rkey;
  const auto place = static_cast<uint32_t>(&flush - pending_.data());
  const uint32_t id = place + nReads_ * uint32_t{kPlaces};
  Lane& lane = laneAt(flushLane_);
  if (lane.flush(flush.data_, key, slots_->flushed, id) != Posting::taken) return false;
  ++nReads_;
  flush.id_ = id;
  flush.stage_ = PendingFlush::Stage::posted;
  return true;
}

// As progress(), but the peer's end is not that of flushes: what it sent before it closed is here,
// and is read here.
Result<void> Receiver::progressAlone() {
  const Result<void> moved = progress();
  if (moved) return isStranded() ? Result<void>(strandedError()) : moved;
  const std::optional<size_t> own = ownLane();
  if (!own || !laneAt(*own).canFlush()) return moved;
  goOnAlone();
  drain(laneAt(*own));
  return laneAt(*own).hasFailed() ? moved : Result<void>();
}

Result<bool> Receiver::take(PendingFlush& flush) {
  const auto isDone = [&] { return flush.stage_ == PendingFlush::Stage::done; };
  if (!isDone()) {
    const Result<void> moved = progressAlone();
    if (!moved && !isDone()) {
      flush.stage_ = PendingFlush::Stage::free;
      std::erase(toFlush_, static_cast<size_t>(&flush - pending_.data()));
      return moved.error();
    }
  }
  if (!isDone()) return false;
  flush.stage_ = PendingFlush::Stage::free;
  return true;
}

// Nobody reads the old lane's grants any more; those of buffers that still wait are written again.
void Receiver::goOn() {
  for (ReceivedGroup& group : groups_) {
    group.isGranting_ = false;
    group.isToBeGranted_ = group.isTaken_ && !group.isComplete();
  }
  say(standing());
  endMoving();
}

Standing Receiver::standing() const {
  Standing standing;
  standing.nextGroup = next_;
  for (size_t place = 0; place < kPlaces; ++place) {
    const ReceivedGroup& group = groups_[place / kMaxGroup];
    const ReceivedGroup::Entry& entry = group.entries_[place % kMaxGroup];
    standing.parts[place] = entry.parts;
    if (!group.isTaken_ || entry.isComplete()) standing.setComplete(place);
  }
  return standing;
}

// Only what has arrived is confirmed, so that its Arrival is there as well.
void Receiver::hear(const Confirmed& confirmed) {
  for (size_t place = 0; place < kPlaces; ++place) {
    for (size_t part = 0; part < kMaxParts; ++part) {
      if ((confirmed.parts[place] >> part & 1) != 0) count(place, part);
    }
  }
}

bool Receiver::isUsing(const Region& region) const {
  const bool isFlushing = std::any_of(pending_.begin(), pending_.end(), [&](const auto& flush) {
    const bool isUnderWay =
        flush.stage_ == PendingFlush::Stage::waiting || flush.stage_ == PendingFlush::Stage::posted;
    return isUnderWay && flush.region_ == &region;
  });
  return isFlushing || std::any_of(groups_.begin(), groups_.end(), [&](const ReceivedGroup& group) {
           const auto isIt = [&](const ReceivedGroup::Entry& entry) {
             return entry.region == &region;
           };
           return group.isTaken_ && !group.isComplete() &&
                  std::any_of(group.entries_.begin(), group.entries_.begin() + group.n_, isIt);
         });
}

}  // namespace cinch::net::ib
