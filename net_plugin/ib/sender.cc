#include "net_plugin/ib/sender.h"

#include <algorithm>

namespace cinch::net::ib {

Sender::Sender(Wiring wiring, std::unique_ptr<SenderSlots> slots, bool splits)
    : Stream(std::move(wiring)), slots_(std::move(slots)), splits_(splits) {}

Sender::~Sender() {
  endLanes();
}

Result<SentMessage*> Sender::send(const void* data, size_t nBytes, int tag, const Region* region) {
  CINCH_TRY(progress());
  if (isMoving()) return nullptr;
  const std::optional<Found> found = findBuffer(tag);
  if (hasFailed()) return error();
  if (!found) return nullptr;
  SentMessage& message = messages_[placeOf(group_, found->index)];
  if (message.isTaken_) return nullptr;
  if (nBytes > found->grant.capacity) {
    fail(errorf(Status::invalidUsage,
                "a message of %zu bytes is too large for the %u that its receiver waits for: do "
                "NCCL_PROTO, NCCL_ALGO or the calls differ between ranks?",
                nBytes, found->grant.capacity));
    return error();
  }
  begin(message, *found, data, nBytes, region);
  countIn(*found);
  postWaiting();
  return &message;
}

std::optional<Sender::Found> Sender::findBuffer(int tag) {
  const auto first = readGrant(slots_->granted[placeOf(group_, 0)], group_);
  if (!first) return std::nullopt;
  const size_t size = first->groupSize;
  for (size_t i = 0; i == 0 || (i < size && i < kMaxGroup); ++i) {
    const auto grant = readGrant(slots_->granted[placeOf(group_, i)], group_);
    // One that is still on its way may have the tag, and comes before those behind it.
    if (!grant) return std::nullopt;
    if (!isSane(*grant, i) || grant->groupSize != size) {
      fail(errorf(Status::remoteError, "the peer grants what cannot be"));
      return std::nullopt;
    }
    const bool isFree = (groupTaken_ >> i & 1) == 0;
    if (isFree && grant->tag == tag) return Found{i, *grant};
  }
  return std::nullopt;
}

void Sender::countIn(const Found& found) {
  groupTaken_ |= 1u << found.index;
  if (groupTaken_ != (1u << found.grant.groupSize) - 1) return;
  ++group_;
  groupTaken_ = 0;
}

void Sender::begin(SentMessage& message, const Found& found, const void* data, size_t nBytes,
                   const Region* region) {
  message.isTaken_ = message.hadOne_ = true;
  message.group_ = group_;
  message.data_ = static_cast<const char*>(data);
  message.nBytes_ = static_cast<uint32_t>(nBytes);
  message.region_ = region;
  message.grant_ = found.grant;
  cut(message);
  const size_t place = placeOf(group_, found.index);
  for (size_t part = 0; part < message.nParts_; ++part) waiting_.push_back({place, part});
}

// Whole to one queue after the other; or over all of them, as far as there are bytes.
void Sender::cut(SentMessage& message) {
  const size_t nQueues = lane().nQueues();
  const auto parts = splitOver(message.nBytes_, splits_ ? nQueues : 1);
  message.nParts_ = 0;
  for (const Part& part : parts) {
    if (part.nBytes == 0 && message.nParts_ > 0) break;
    message.parts_[message.nParts_++] = {part, nextQueue_++ % nQueues, SentMessage::Stage::waiting,
                                         false};
  }
  message.left_ = message.nParts_;
}

void Sender::postWaiting() {
  while (!waiting_.empty() && post(waiting_.front().first, waiting_.front().second)) {
    waiting_.pop_front();
  }
}

// False where the device takes no more now.
bool Sender::post(size_t place, size_t index) {
  SentMessage& message = messages_[place];
  SentMessage::PartState& state = message.parts_[index];
  Arrival& arrival = slots_->arrivals[place][index];
  arrival = {static_cast<uint32_t>(message.group_),
             message.nBytes_,
             static_cast<uint8_t>(message.nParts_),
             {}};
  const uint64_t offset = state.part.offset;
  const auto nBytes = static_cast<uint32_t>(state.part.nBytes);
  const RemoteWrite data = {
      .from = message.data_ + offset,
      .localKey = nBytes == 0 ? 0 : message.region_->parts[laneIndex()].known->lkey,
      .nBytes = nBytes,
      .to = message.grant_.address + offset,
      .remoteKey = message.grant_.keys[laneIndex()]};
  const RemoteWrite announcement = {.from = &arrival,
                                    .localKey = lane().slotsKey(),
                                    .nBytes = sizeof arrival,
                                    .to = peerRing() + (place * kMaxParts + index) * sizeof arrival,
                                    .remoteKey = peerPort().ringKey};
  const Posting posting = lane().announce(state.queue, data, state.dataIsPosted, announcement,
                                          immediateOf(message.group_, place, index),
                                          static_cast<uint32_t>(place | index << 8));
  if (posting != Posting::taken) return false;
  state.stage = SentMessage::Stage::posted;
  return true;
}

void Sender::written(Work, uint32_t id) {
  SentMessage& message = messages_[id & 0xff];
  SentMessage::PartState& state = message.parts_[id >> 8];
  if (state.stage != SentMessage::Stage::done) finish(message, state);
}

void Sender::finish(SentMessage& message, SentMessage::PartState& state) {
  state.stage = SentMessage::Stage::done;
  --message.left_;
}

void Sender::arrived(uint32_t) {
  fail(errorf(Status::remoteError, "the peer sends over the end that it receives at"));
}

Result<bool> Sender::take(SentMessage& message) {
  if (message.left_ > 0) {
    const Result<void> moved = progress();
    if (message.left_ > 0 && !moved) {
      message.isTaken_ = false;
      return moved.error();
    }
  }
  if (message.left_ > 0) return false;
  message.isTaken_ = false;
  return true;
}

void Sender::hear(const Standing& standing) {
  if (!standing.isClosing && !isMoving()) {
    return fail(errorf(Status::remoteError, "the peer goes on over another device unasked"));
  }
  waiting_.clear();
  Confirmed confirmed;
  for (size_t place = 0; place < kPlaces; ++place) {
    if (messages_[place].hadOne_) settle(place, standing, confirmed);
  }
  if (standing.isClosing) {
    return fail(errorf(Status::remoteError, "the peer has closed the connection"));
  }
  endMoving();
  if (confirmed != Confirmed{}) say(confirmed);
}

// A part that the device has confirmed is there, and never sent again: its owner may have changed
// the bytes since.
void Sender::settle(size_t place, const Standing& standing, Confirmed& confirmed) {
  SentMessage& message = messages_[place];
  const uint64_t oldest = standing.nextGroup > kMaxRequests ? standing.nextGroup - kMaxRequests : 0;
  const bool isThere = message.group_ < oldest || standing.isComplete(place);
  for (size_t part = 0; part < message.nParts_; ++part) {
    SentMessage::PartState& state = message.parts_[part];
    const bool isKnown = isThere || (standing.parts[place] >> part & 1) != 0;
    const bool isDone = state.stage == SentMessage::Stage::done;
    if (isKnown && !isDone) finish(message, state);
    if (!isKnown && isDone) confirmed.parts[place] |= static_cast<uint8_t>(1 << part);
    if (isKnown || isDone) continue;
    state.stage = SentMessage::Stage::waiting;
    state.dataIsPosted = false;
    waiting_.push_back({place, part});
  }
}

bool Sender::isUsing(const Region& region) const {
  return std::any_of(messages_.begin(), messages_.end(), [&](const SentMessage& message) {
    return message.isTaken_ && message.left_ > 0 && message.region_ == &region;
  });
}

}  // namespace cinch::net::ib
