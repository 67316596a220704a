#include "interpose/comm/codec_stream.h"

namespace cinch {

CodecStream::~CodecStream() {
  if (stream_ == nullptr) return;
  const RelaxedCapture relaxed(*device_);
  device_->streamDestroy(stream_);
}

Result<void> CodecStream::allocate(const DeviceTable& device) {
  const auto make = [&](Event& event) -> Result<void> {
    auto created = Event::create(device);
    if (!created.ok()) return created.error();
    event = std::move(created.value());
    return {};
  };
  CINCH_TRY(make(ordered_));
  for (Event& event : noted_) CINCH_TRY(make(event));
  device_ = &device;
  CINCH_TRY_DEVICE(device, device.streamCreate(&stream_), "cannot create a stream");
  return {};
}

Result<void> CodecStream::order(void* from, void* to) {
  CINCH_TRY(ordered_.record(from));
  return ordered_.orderBefore(to);
}

Result<void> CodecStream::note(Message message, uint32_t chunk, void* from) {
  return noted_[indexOf(message, chunk)].record(from);
}

Result<void> CodecStream::await(Message message, uint32_t chunk, void* to) const {
  return noted_[indexOf(message, chunk)].orderBefore(to);
}

}  // namespace cinch
