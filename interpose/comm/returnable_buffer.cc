#include "interpose/comm/returnable_buffer.h"

#include "interpose/comm/buffer.h"

namespace cinch {

Result<SideStream> SideStream::create(const DeviceTable& device) {
  void* stream = nullptr;
  CINCH_TRY_DEVICE(device, device.streamCreate(&stream), "cannot create a stream");
  return SideStream(device, stream);
}

SideStream::~SideStream() {
  if (stream_ != nullptr) device_->streamDestroy(stream_);
}

Result<ReturnableBuffer> ReturnableBuffer::allocate(const DeviceTable& device, size_t nBytes) {
  ReturnableBuffer buffer;
  if (nBytes == 0) return buffer;
  const int error = device.allocateReturnable(&buffer.memory_, nBytes);
  if (error == kNotSupported)
    return errorf(Status::cudaError, "this device has no memory pools, which residuals are of");
  if (error != 0)
    return errorf(Status::cudaError,
                  "cannot allocate %zu bytes of device memory: %s; leave more of it free", nBytes,
                  device.errorName(error));
  buffer.device_ = &device;
  buffer.nBytes_ = nBytes;
  return buffer;
}

void ReturnableBuffer::giveBack(void* stream) {
  if (memory_ != nullptr) device_->giveBack(memory_, stream);
  *this = ReturnableBuffer();
}

void ReturnableBuffer::giveBackUnused() {
  if (memory_ == nullptr) return;
  const auto stream = SideStream::create(*device_);
  if (stream.ok()) device_->giveBack(memory_, stream.value().get());
  *this = ReturnableBuffer();
}

}  // namespace cinch
