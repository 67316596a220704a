#include "net_plugin/socket/message.h"

#include <algorithm>

namespace cinch::net {
namespace {

// An empty message is one empty chunk.
uint64_t piecesOf(uint64_t total, uint64_t pieceBytes) {
  return std::max<uint64_t>(1, (total + pieceBytes - 1) / pieceBytes);
}

}  // namespace

OutgoingMessage::OutgoingMessage(uint32_t connection, uint32_t number, const void* data,
                                 uint64_t total, uint32_t chunkBytes)
    : connection_(connection),
      number_(number),
      isCopy_(false),
      data_(static_cast<const char*>(data)),
      total_(total),
      chunkBytes_(chunkBytes),
      flows_(piecesOf(total, chunkBytes), kNoFlow),
      repeated_(flows_.size()),
      unsent_(total) {}

OutgoingMessage::OutgoingMessage(uint32_t connection, uint32_t number, std::vector<char> bytes)
    : outcome(Outcome::done),
      connection_(connection),
      number_(number),
      own_(std::move(bytes)),
      isCopy_(true),
      data_(own_.data()),
      total_(own_.size()),
      chunkBytes_(kGridBytes),
      flows_(1, kNoFlow),
      repeated_(1),
      unsent_(total_) {}

Chunk OutgoingMessage::chunk(uint32_t index) const {
  const uint64_t offset = uint64_t{index} * chunkBytes_;
  return {index, offset, static_cast<uint32_t>(std::min<uint64_t>(chunkBytes_, total_ - offset))};
}

Chunk OutgoingMessage::peek() const {
  return chunk(returned_.empty() ? static_cast<uint32_t>(next_) : returned_.back());
}

Chunk OutgoingMessage::take(int flow) {
  const Chunk taken = peek();
  if (returned_.empty()) {
    ++next_;
  } else {
    returned_.pop_back();
  }
  flows_[taken.index] = static_cast<uint8_t>(flow);
  unsent_ -= taken.length;
  return taken;
}

std::optional<Chunk> OutgoingMessage::takenAt(uint64_t offset) const {
  const uint64_t index = offset / chunkBytes_;
  if (offset % chunkBytes_ != 0 || index >= flows_.size() || flows_[index] == kNoFlow) return {};
  return chunk(static_cast<uint32_t>(index));
}

bool OutgoingMessage::takeAgain(uint32_t index, int flow) {
  if (isEnding() || repeated_[index] || flows_[index] == kNoFlow) return false;
  repeated_[index] = true;
  flows_[index] = static_cast<uint8_t>(flow);
  return true;
}

void OutgoingMessage::giveBackIndex(uint32_t index) {
  flows_[index] = kNoFlow;
  returned_.push_back(index);
  unsent_ += chunk(index).length;
}

void OutgoingMessage::giveBack(int flow) {
  for (uint32_t i = 0; i < flows_.size(); ++i) {
    if (flows_[i] == flow) giveBackIndex(i);
  }
}

void OutgoingMessage::giveBackChunk(uint32_t index) {
  if (flows_[index] != kNoFlow) giveBackIndex(index);
}

void OutgoingMessage::settle() {
  if (users_ > 0 || !isEnding()) return;
  isThrough_ = true;
  if (outcome.load() != Outcome::pending) return;
  outcome.store(delivered_ ? Outcome::done : Outcome::failed);
}

IncomingMessage::IncomingMessage(uint32_t number, void* buffer, uint64_t capacity)
    : number_(number),
      own_(buffer == nullptr ? capacity : 0),
      buffer_(buffer == nullptr ? own_.data() : static_cast<char*>(buffer)),
      capacity_(capacity) {}

IncomingMessage::Verdict IncomingMessage::judge(uint64_t offset, uint32_t length, uint64_t total) {
  if (total > capacity_) return Verdict::tooLarge;
  if (total_ == kUnknown) {
    total_ = total;
    missing_ = piecesOf(total, kGridBytes);
    have_.assign(missing_, false);
    asked_.assign(missing_, false);
  }
  const bool onGrid = offset % kGridBytes == 0 &&
                      (length % kGridBytes == 0 || offset + length == total) &&
                      (length > 0 || total == 0);
  if (total != total_ || !onGrid) return Verdict::wrong;
  return have_[offset / kGridBytes] ? Verdict::known : Verdict::wanted;
}

void IncomingMessage::arrived(uint64_t offset, uint32_t length) {
  const uint64_t first = offset / kGridBytes;
  for (uint64_t i = first; i < first + piecesOf(length, kGridBytes); ++i) {
    missing_ -= !have_[i];
    have_[i] = true;
  }
}

IncomingMessage::Claim* IncomingMessage::claimAt(uint64_t offset) {
  const auto found = std::find_if(claims_.begin(), claims_.end(),
                                  [&](const Claim& claim) { return claim.offset == offset; });
  return found == claims_.end() ? nullptr : &*found;
}

bool IncomingMessage::claim(uint64_t offset, uint64_t flow) {
  if (claimAt(offset) != nullptr) return false;
  claims_.push_back({offset, flow, false, {}});
  return true;
}

void IncomingMessage::unclaim(uint64_t offset, uint64_t flow) {
  std::erase_if(claims_, [&](const Claim& it) { return it.offset == offset && it.flow == flow; });
}

void IncomingMessage::beginRead(uint64_t offset, uint64_t flow) {
  Claim* claim = claimAt(offset);
  if (claim != nullptr && claim->flow == flow) claim->isReading = true;
}

void IncomingMessage::endRead(uint64_t offset, uint64_t flow) {
  Claim* claim = claimAt(offset);
  if (claim == nullptr || claim->flow != flow) return;
  claim->isReading = false;
  const std::vector<char> replacement = std::move(claim->replacement);
  claim->replacement.clear();
  if (!replacement.empty()) {
    place(offset, replacement.data(), static_cast<uint32_t>(replacement.size()));
  }
}

void IncomingMessage::place(uint64_t offset, const char* bytes, uint32_t length) {
  Claim* claim = claimAt(offset);
  if (claim != nullptr && claim->isReading) {
    claim->replacement.assign(bytes, bytes + length);
    return;
  }
  std::copy_n(bytes, length, at(offset));
  arrived(offset, length);
}

bool IncomingMessage::mayAskAgain(uint64_t offset) {
  const bool first = !asked_[offset / kGridBytes];
  asked_[offset / kGridBytes] = true;
  return first;
}

std::vector<uint64_t> IncomingMessage::askedFor() const {
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < asked_.size(); ++i) {
    if (asked_[i] && !have_[i]) offsets.push_back(i * kGridBytes);
  }
  return offsets;
}

bool IncomingMessage::countsAsLong() {
  return total_ > kEagerBytes && !std::exchange(isLong_, true);
}

void IncomingMessage::settle() {
  const bool isRead = std::any_of(claims_.begin(), claims_.end(),
                                  [](const Claim& claim) { return claim.isReading; });
  if (isRead || outcome.load() != Outcome::pending) return;
  if (failing_) {
    outcome.store(Outcome::failed);
  } else if (isComplete()) {
    outcome.store(Outcome::done);
  }
}

}  // namespace cinch::net
