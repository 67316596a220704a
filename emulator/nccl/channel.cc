#include "emulator/nccl/channel.h"

namespace cinch::emulator {

bool Channel::pollTarget(pollfd* target) const {
  if (!isOpen() || net_.transport->pollTarget == nullptr) return false;
  *target = {};
  net_.transport->pollTarget(connection_, &target->fd, &target->events);
  return true;
}

bool Channel::isHungUp() const {
  pollfd target;
  if (!pollTarget(&target)) return false;
  target.events = POLLRDHUP;
  return poll(&target, 1, 0) == 1 && (target.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Error Channel::netError(const char* action, ncclResult_t result) const {
  return errorf(static_cast<Status>(result), "rank %d cannot %s rank %d: %s", net_.rank, action,
                peer_,
                result == ncclRemoteError ? "that process exited or the network failed"
                                          : "the transport failed, see the warning before this");
}

Result<void> Channel::prepareSlots() {
  slots_ = std::make_unique<char[]>(kSlots * kSlotBytes);
  const ncclResult_t result =
      net_.transport->regMr(connection_, slots_.get(), kSlots * kSlotBytes, kNetPointerHost, &mr_);
  if (result != ncclSuccess) return netError("register buffers for", result);
  return {};
}

void Channel::releaseSlots() {
  if (slots_ != nullptr) net_.transport->deregMr(connection_, mr_);
}

Result<bool> Channel::testRequests() {
  const uint64_t before = nDone_;
  while (nDone_ < nPosted_) {
    int done = 0;
    const ncclResult_t result = net_.transport->test(requests_[nDone_ % kSlots], &done, nullptr);
    if (result != ncclSuccess) return netError("exchange data with", result);
    if (done == 0) break;
    ++nDone_;
  }
  return nDone_ > before;
}

SendChannel::~SendChannel() {
  releaseSlots();
  if (isOpen()) net_.transport->closeSend(connection_);
}

Result<bool> SendChannel::progress() {
  if (!isOpen()) {
    const ncclResult_t result =
        net_.transport->connect(net_.context, net_.device, handle_.data(), &connection_);
    if (result != ncclSuccess) return netError("connect to", result);
    if (!isOpen()) return false;
    CINCH_TRY(prepareSlots());
    return true;
  }
  bool moved = false;
  while (wantsToPost()) {
    void*& request = requests_[nPosted_ % kSlots];
    const ncclResult_t result = net_.transport->isend(
        connection_, slot(nPosted_), sizes_[nPosted_ % kSlots], net_.rank, mr_, &request);
    if (result != ncclSuccess) return netError("send to", result);
    if (request == nullptr) break;
    ++nPosted_;
    moved = true;
  }
  Result<bool> completed = testRequests();
  if (!completed) return completed;
  return moved || completed.value();
}

char* SendChannel::freeSlot() const {
  const bool usable = isOpen() && nFilled_ - nDone_ < kSlots;
  return usable ? slot(nFilled_) : nullptr;
}

void SendChannel::fill(size_t nBytes) {
  sizes_[nFilled_ % kSlots] = nBytes;
  ++nFilled_;
}

ReceiveChannel::~ReceiveChannel() {
  releaseSlots();
  if (isOpen()) net_.transport->closeRecv(connection_);
  if (listener_ != nullptr) net_.transport->closeListen(listener_);
}

Result<bool> ReceiveChannel::accept() {
  const ncclResult_t result = net_.transport->accept(listener_, &connection_);
  if (result != ncclSuccess) return netError("accept", result);
  if (!isOpen()) return false;
  net_.transport->closeListen(listener_);
  listener_ = nullptr;
  CINCH_TRY(prepareSlots());
  return true;
}

Result<bool> ReceiveChannel::progress() {
  if (!isOpen()) return accept();
  bool moved = false;
  while (wantsToPost()) {
    // The whole slot, like NCCL: what is too short for a mismatched call is its caller's bug.
    void* data = slot(nPosted_);
    const size_t capacity = kSlotBytes;
    const int tag = peer_;
    void*& request = requests_[nPosted_ % kSlots];
    const ncclResult_t result =
        net_.transport->irecv(connection_, 1, &data, &capacity, &tag, &mr_, &request);
    if (result != ncclSuccess) return netError("receive from", result);
    if (request == nullptr) break;
    ++nPosted_;
    moved = true;
  }
  Result<bool> completed = testRequests();
  if (!completed) return completed;
  return moved || completed.value();
}

}  // namespace cinch::emulator
