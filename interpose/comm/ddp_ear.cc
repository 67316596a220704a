#include "interpose/comm/ddp_ear.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/log.h"
#include "interpose/comm/memory_reserve.h"

namespace cinch {
namespace {

// Smaller buffers would rarely fit the next message.
constexpr size_t kMinBuffer = 4096;

// The number of parameters of each rank; shapes; orders and sizes of buckets.
bool mayBeOfDdp(const Signature& call) {
  if (call.kind == CallKind::allGather) return call.dataType == ncclInt64 && call.count == 1;
  return call.kind == CallKind::broadcast && call.count <= DdpListener::kMaxNumbers &&
         (call.dataType == ncclInt64 || call.dataType == ncclInt32);
}

bool isSingle(const Signature& call) {
  return call.kind == CallKind::broadcast && call.dataType == ncclInt64 && call.count == 1;
}

template <class T>
std::span<const T> numbersOf(const Buffer& buffer, size_t nBytes) {
  return {buffer.as<const T>(), nBytes / sizeof(T)};
}

}  // namespace

DdpEar::DdpEar(const DeviceTable& device, int cudaDevice, int nRanks)
    : device_(device), cudaDevice_(cudaDevice), nRanks_(static_cast<size_t>(nRanks)) {}

DdpEar::~DdpEar() {
  forget();
}

void DdpEar::hear(const Signature& call, const void* received_dev, void* stream) {
  if (!mayBeOfDdp(call)) return awaits_.nSingles.store(0, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (isDeaf_ || isCaptured(stream) || !isAwaited(call)) return;
  readArrived();
  Message message{call, call.count * bytesOf(call.dataType), {}, {}};
  if (call.kind == CallKind::allGather) message.nBytes *= nRanks_;
  if (coming_.size() == kMaxMessages || message.nBytes > kMaxBytes - nBytesComing_) return forget();
  if (const auto copied = copy(message, received_dev, stream); !copied.ok())
    return goDeaf(std::move(message), copied.error());
  nBytesComing_ += message.nBytes;
  coming_.push_back(std::move(message));
}

void DdpEar::miss(const Signature& call) {
  if (!mayBeOfDdp(call)) return;
  const std::lock_guard lock(mutex_);
  if (isAwaited(call)) forget();
}

bool DdpEar::isCaptured(void* stream) const {
  uint64_t id = 0;
  const CurrentDevice current(device_, cudaDevice_);
  return device_.captureId(stream, &id) != 0 || id != 0;
}

// Whether it can follow upon what was heard. Many programs broadcast integers in every step, and
// those shall cost nothing.
bool DdpEar::isAwaited(const Signature& call) {
  awaits_.nSingles = isSingle(call) ? awaits_.nSingles + 1 : 0;
  const bool isGathered = call.kind == CallKind::allGather || awaits_.nSingles == nRanks_;
  const bool awaitsShapes = std::exchange(awaits_.shapes, isGathered);
  if (isGathered) awaits_.nSingles = 0;
  if (isGathered || isSingle(call)) return isGathered;
  if (call.dataType == ncclInt32) return awaits_.order;
  awaits_.order = awaits_.order || awaitsShapes;
  return awaitsShapes;
}

Result<void> DdpEar::copy(Message& message, const void* received_dev, void* stream) {
  const RelaxedCapture relaxed(device_);
  const CurrentDevice current(device_, cudaDevice_);
  auto numbers = MemoryReserve::instance().allocate(device_, std::max(message.nBytes, kMinBuffer),
                                                    Buffer::Where::host);
  CINCH_TRY(numbers);
  message.numbers = std::move(numbers.value());
  auto arrived = Event::create(device_);
  CINCH_TRY(arrived);
  message.arrived = std::move(arrived.value());
  void* const to = message.numbers.as<void>();
  if (message.nBytes > 0)
    CINCH_TRY_DEVICE(device_, device_.copyAsync(to, received_dev, message.nBytes, stream),
                     "cannot copy a message");
  return message.arrived.record(stream);
}

// Nobody knows when, or whether, the copy ends.
void DdpEar::goDeaf(Message message, const Error& error) {
  CINCH_INFO("POLICY", "no longer listens to what PyTorch says of its layers: %s",
             error.message.c_str());
  isDeaf_ = true;
  std::vector<Buffer> buffers;
  buffers.push_back(std::move(message.numbers));
  MemoryReserve::instance().strand(std::move(buffers));
  forget();
}

DdpEar::Heard DdpEar::heard() {
  const std::lock_guard lock(mutex_);
  readArrived();
  return {listener_, nChanges_};
}

void DdpEar::readArrived() {
  while (!coming_.empty() && coming_.front().arrived.done()) {
    read(coming_.front());
    nBytesComing_ -= coming_.front().nBytes;
    giveBack(std::move(coming_.front()));
    coming_.pop_front();
  }
}

void DdpEar::read(const Message& message) {
  ++nChanges_;
  const auto& [call, nBytes, numbers, arrived] = message;
  if (call.kind == CallKind::allGather || isSingle(call))  // or the last rank's alone
    listener_.allGathered(numbersOf<int64_t>(numbers, nBytes));
  else if (call.dataType == ncclInt64)
    listener_.broadcast(numbersOf<int64_t>(numbers, nBytes));
  else
    listener_.broadcast(numbersOf<int32_t>(numbers, nBytes));
}

void DdpEar::giveBack(Message message) {
  std::vector<Buffer> buffers;
  buffers.push_back(std::move(message.numbers));
  MemoryReserve::instance().keep(cudaDevice_, std::move(buffers), std::move(message.arrived));
}

void DdpEar::forget() {
  for (Message& message : coming_) giveBack(std::move(message));
  coming_.clear();
  nBytesComing_ = 0;
  listener_ = {};
  awaits_.shapes = awaits_.order = false;
  ++nChanges_;
}

}  // namespace cinch
