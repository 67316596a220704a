#include "interpose/comm/workspace.h"

#include <bit>

#include "interpose/comm/memory_reserve.h"

namespace cinch {

namespace {

// Models that follow one another have buckets of much the same size, and what is outgrown cannot
// be freed (memory_reserve.h): an eighth more is there than was asked for, at most.
size_t roundedUp(size_t nBytes) {
  const size_t step = std::bit_ceil(nBytes / 8 + 1) / 2;
  return step == 0 ? nBytes : (nBytes + step - 1) / step * step;
}

}  // namespace

Result<void> Workspace::enlarge(Buffer& buffer, size_t nBytes) {
  if (buffer.bytes() >= nBytes) return {};
  nBytes = roundedUp(nBytes);
  auto larger = MemoryReserve::instance().allocate(*device_, nBytes, Buffer::Where::device);
  if (!larger.ok()) return larger.error();
  if (buffer) retired_.push_back(std::move(buffer));
  buffer = std::move(larger.value());
  return {};
}

Result<void> Workspace::reserve(const DeviceTable& device, size_t nBytes, size_t nExactBytes) {
  device_ = &device;
  for (Event* event : {&lastDone_, &joined_}) {
    if (*event) continue;
    auto created = Event::create(device);
    if (!created.ok()) return created.error();
    *event = std::move(created.value());
  }
  CINCH_TRY(enlarge(outgoing_, nBytes));
  CINCH_TRY(enlarge(incoming_, nBytes));
  return enlarge(exact_, nExactBytes);
}

Result<void> Workspace::begin(void* stream, uint64_t captureId) {
  anyEnded_ = false;
  ++nRunning_;
  if (captureId == 0) return used_ ? lastDone_.orderBefore(stream) : Result<void>();
  // Within a capture the last call is a node like this one: an edge of the graph orders them.
  const auto inCapture = captured_.find(captureId);
  return inCapture != captured_.end() ? inCapture->second.orderBefore(stream)
                                      : lastDone_.orderBeforeInGraph(stream);
}

Result<Event*> Workspace::joinedIn(uint64_t captureId) {
  if (captureId == 0) return &joined_;
  if (const auto known = captured_.find(captureId); known != captured_.end()) return &known->second;
  auto created = Event::create(*device_);
  if (!created.ok()) return created.error();
  if (captured_.size() == kMaxOpenCaptures) captured_.erase(captured_.begin());
  return &captured_.insert_or_assign(captureId, std::move(created.value())).first->second;
}

Result<void> Workspace::joinStream(void* stream, Event& joined) {
  if (anyEnded_ && endedOn_ != stream) CINCH_TRY(joined.orderBefore(stream));
  anyEnded_ = true;
  endedOn_ = stream;
  return joined.record(stream);
}

Result<void> Workspace::end(void* stream, uint64_t captureId) {
  used_ = true;
  const auto joined = joinedIn(captureId);
  if (!joined.ok()) return joined.error();
  CINCH_TRY(joinStream(stream, *joined.value()));
  CINCH_TRY(captureId == 0 ? lastDone_.record(stream) : lastDone_.recordInGraph(stream));
  --nRunning_;
  return {};
}

Event Workspace::giveUp(std::vector<Buffer>& buffers) {
  for (Buffer* buffer : {&outgoing_, &incoming_, &exact_}) buffers.push_back(std::move(*buffer));
  for (Buffer& buffer : retired_) buffers.push_back(std::move(buffer));
  retired_.clear();
  return std::move(lastDone_);
}

}  // namespace cinch
