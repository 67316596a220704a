#include "interpose/comm/workspace.h"

#include "interpose/comm/memory_reserve.h"

namespace cinch {

Result<void> Workspace::reserve(const DeviceTable& device, size_t nBytes) {
  for (Event* event : {&lastDone_, &joined_}) {
    if (*event) continue;
    auto created = Event::create(device);
    if (!created.ok()) return created.error();
    *event = std::move(created.value());
  }
  for (Buffer* buffer : {&outgoing_, &incoming_}) {
    if (buffer->bytes() >= nBytes) continue;
    auto larger = MemoryReserve::instance().allocate(device, nBytes, Buffer::Where::device);
    if (!larger.ok()) return larger.error();
    if (*buffer) retired_.push_back(std::move(*buffer));
    *buffer = std::move(larger.value());
  }
  return {};
}

Result<void> Workspace::begin(void* stream, uint64_t captureId) {
  anyEnded_ = false;
  ++nRunning_;
  if (captureId == 0) return used_ ? lastDone_.orderBefore(stream) : Result<void>();
  // Within a capture the last call is a node like this one: an edge of the graph orders them.
  if (captureId == lastCapture_) return joined_.orderBefore(stream);
  return lastDone_.orderBeforeInGraph(stream);
}

Result<void> Workspace::joinStream(void* stream) {
  if (anyEnded_ && endedOn_ != stream) CINCH_TRY(joined_.orderBefore(stream));
  anyEnded_ = true;
  endedOn_ = stream;
  return joined_.record(stream);
}

Result<void> Workspace::end(void* stream, uint64_t captureId) {
  used_ = true;
  CINCH_TRY(joinStream(stream));
  lastCapture_ = captureId;
  CINCH_TRY(captureId == 0 ? lastDone_.record(stream) : lastDone_.recordInGraph(stream));
  --nRunning_;
  return {};
}

Result<void> Workspace::drain(const DeviceTable& device) {
  if (used_)
    CINCH_TRY_DEVICE(device, device.eventSynchronize(lastDone_.get()),
                     "cannot finish the last call");
  return {};
}

Event Workspace::giveUp(std::vector<Buffer>& buffers) {
  for (Buffer* buffer : {&outgoing_, &incoming_}) buffers.push_back(std::move(*buffer));
  for (Buffer& buffer : retired_) buffers.push_back(std::move(buffer));
  retired_.clear();
  return std::move(lastDone_);
}

}  // namespace cinch
