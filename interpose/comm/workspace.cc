#include "interpose/comm/workspace.h"

namespace cinch {

Result<void> Workspace::reserve(const DeviceTable& device, size_t nBytes) {
  if (!lastDone_) {
    auto event = Event::create(device);
    if (!event.ok()) return event.error();
    lastDone_ = std::move(event.value());
  }
  for (Buffer* buffer : {&outgoing_, &incoming_}) {
    if (buffer->bytes() >= nBytes) continue;
    auto larger = Buffer::allocate(device, nBytes, Buffer::Where::device);
    if (!larger.ok()) return larger.error();
    if (*buffer) retired_.push_back(std::move(*buffer));
    *buffer = std::move(larger.value());
  }
  return {};
}

Result<void> Workspace::begin(void* stream) {
  return used_ ? lastDone_.orderBefore(stream) : Result<void>();
}

Result<void> Workspace::end(void* stream) {
  used_ = true;
  return lastDone_.record(stream);
}

Result<void> Workspace::drain(const DeviceTable& device) {
  if (used_)
    CINCH_TRY_DEVICE(device, device.eventSynchronize(lastDone_.get()),
                     "cannot finish the last call");
  return {};
}

void Workspace::leak() {
  outgoing_.leak();
  incoming_.leak();
  for (Buffer& buffer : retired_) buffer.leak();
}

}  // namespace cinch
