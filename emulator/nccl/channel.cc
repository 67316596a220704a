#include "emulator/nccl/channel.h"

#include <utility>

namespace cinch::emulator {

bool Channel::tryOpen() {
  Result<void> result = connect();
  if (result && connection_ == nullptr) return false;
  if (result) result = prepareSlots();
  if (result) {
    state_.store(State::open);
  } else {
    fail(result.error());
  }
  return true;
}

void Channel::fail(Error error) {
  error_ = std::move(error);
  state_.store(State::failed);
}

Result<bool> Channel::openState() const {
  const State state = state_.load();
  if (state == State::failed) return error_;
  return state == State::open;
}

void Channel::addPollTarget(std::vector<pollfd>* targets) const {
  const bool waits = isOpen() && (nDone_ < nPosted_ || wantsToPost());
  if (waits && net_.transport->isPollable()) {
    targets->push_back(net_.transport->pollTarget(connection_));
  }
}

bool Channel::isHungUp() const {
  if (!isOpen() || !net_.transport->isPollable()) return false;
  pollfd target = net_.transport->pollTarget(connection_);
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
  if (result == ncclSuccess) return {};
  slots_.reset();
  return netError("register buffers for", result);
}

void Channel::releaseSlots() {
  if (slots_ != nullptr) net_.transport->deregMr(connection_, mr_);
}

Result<bool> Channel::testRequests() {
  const uint64_t before = nDone_;
  while (nDone_ < nPosted_) {
    int done = 0;
    int nBytes = 0;
    const ncclResult_t result = net_.transport->test(requests_[nDone_ % kSlots], &done, &nBytes);
    if (result != ncclSuccess) return netError("exchange data with", result);
    if (done == 0) break;
    ++nDone_;
  }
  return nDone_ > before;
}

Result<void> SendChannel::connect() {
  const ncclResult_t result =
      net_.transport->connect(net_.context, net_.device, handle_.data(), &connection_);
  return result == ncclSuccess ? Result<void>() : netError("connect to", result);
}

void SendChannel::close() {
  releaseSlots();
  if (connection_ != nullptr) net_.transport->closeSend(connection_);
}

Result<bool> SendChannel::progress() {
  if (const Result<bool> open = openState(); !open || !open.value()) return open;
  bool moved = false;
  while (wantsToPost()) {
    // As in NCCL, a request's place may still hold the one before.
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

Result<void> ReceiveChannel::connect() {
  const ncclResult_t result = net_.transport->accept(listener_, &connection_);
  if (result != ncclSuccess) return netError("accept", result);
  if (connection_ != nullptr) closeListener();
  return {};
}

void ReceiveChannel::close() {
  releaseSlots();
  if (connection_ != nullptr) net_.transport->closeRecv(connection_);
  closeListener();
}

void ReceiveChannel::closeListener() {
  if (void* listener = std::exchange(listener_, nullptr)) net_.transport->closeListen(listener);
}

Result<bool> ReceiveChannel::progress() {
  if (const Result<bool> open = openState(); !open || !open.value()) return open;
  bool moved = false;
  while (wantsToPost()) {
    // The whole slot, like NCCL: what is too short for a mismatched call is its caller's bug.
    void*& request = requests_[nPosted_ % kSlots];
    request = nullptr;
    const ncclResult_t result =
        net_.transport->irecv(connection_, slot(nPosted_), kSlotBytes, peer_, mr_, &request);
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
