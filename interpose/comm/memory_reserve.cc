#include "interpose/comm/memory_reserve.h"

#include <algorithm>
#include <iterator>

namespace cinch {
namespace {

// Larger memory would be wasted on the new use.
bool fits(const Buffer& buffer, size_t nBytes, Buffer::Where where) {
  return buffer.where() == where && buffer.bytes() >= nBytes && buffer.bytes() / 2 <= nBytes;
}

}  // namespace

// Never destroyed: communicators may end after static destructors have run.
MemoryReserve& MemoryReserve::instance() {
  static auto& reserve = *new MemoryReserve;
  return reserve;
}

Buffer MemoryReserve::take(int cudaDevice, size_t nBytes, Buffer::Where where) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.cudaDevice == cudaDevice && fits(kept.buffer, nBytes, where) &&
           kept.lastUse->done();
  });
  if (found == kept_.end()) return {};
  Buffer buffer = std::move(found->buffer);
  kept_.erase(found);
  return buffer;
}

Result<Buffer> MemoryReserve::allocate(const DeviceTable& device, size_t nBytes,
                                       Buffer::Where where) {
  int current = 0;
  CINCH_TRY_DEVICE(device, device.getDevice(&current), "no current device");
  Buffer buffer = take(current, nBytes, where);
  if (buffer) return buffer;
  return Buffer::allocate(device, nBytes, where);
}

void MemoryReserve::keep(int cudaDevice, std::vector<Buffer> buffers, Event lastUse) {
  const auto shared = std::make_shared<const Event>(std::move(lastUse));
  const std::lock_guard lock(mutex_);
  for (Buffer& buffer : buffers)
    if (buffer) kept_.push_back({cudaDevice, shared, std::move(buffer)});
}

void MemoryReserve::strand(std::vector<Buffer> buffers) {
  const std::lock_guard lock(mutex_);
  for (Buffer& buffer : buffers)
    if (buffer) stranded_.push_back(std::move(buffer));
}

void MemoryReserve::strand(ReturnableBuffer buffer) {
  const std::lock_guard lock(mutex_);
  if (buffer) strandedReturnables_.push_back(std::move(buffer));
}

size_t MemoryReserve::nStranded() {
  const std::lock_guard lock(mutex_);
  return stranded_.size() + strandedReturnables_.size();
}

void MemoryReserve::release() {
  std::vector<Kept> unused;  // freed when the lock is released
  const std::lock_guard lock(mutex_);
  const auto firstUnused = std::stable_partition(
      kept_.begin(), kept_.end(), [](const Kept& kept) { return !kept.lastUse->done(); });
  std::move(firstUnused, kept_.end(), std::back_inserter(unused));
  kept_.erase(firstUnused, kept_.end());
}

}  // namespace cinch
