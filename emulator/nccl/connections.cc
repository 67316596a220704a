#include "emulator/nccl/connections.h"

#include <cstring>

namespace cinch::emulator {
namespace {

Error transportError(const NetTransport& transport, const char* action, ncclResult_t result) {
  return errorf(static_cast<Status>(result), "network %s cannot %s", transport.name, action);
}

}  // namespace

Result<std::unique_ptr<Connections>> Connections::listen(const NetTransport& transport,
                                                         uint64_t commId, int trafficClass,
                                                         int rank, int nRanks) {
  const NetConfig config{trafficClass};
  NetContext net{&transport, nullptr, 0, rank};
  const ncclResult_t started = transport.init(&net.context, commId, &config);
  if (started != ncclSuccess) return transportError(transport, "start", started);
  std::unique_ptr<Connections> connections(new Connections(net, nRanks));
  int nDevices = 0;
  const ncclResult_t counted = transport.devices(net.context, &nDevices);
  if (counted != ncclSuccess || nDevices == 0) {
    return transportError(transport, "find a device", ncclSystemError);
  }
  CINCH_TRY(connections->listenForPeers());
  return connections;
}

Result<void> Connections::listenForPeers() {
  if (nRanks_ == 1) return {};
  Result<void*> ring = addListener();
  if (!ring) return ring.error();
  ringListener_ = ring.value();
  for (int peer = 0; peer < nRanks_; ++peer) {
    Result<void*> listener = addListener();
    if (!listener) return listener.error();
    listeners_.push_back(listener.value());
  }
  return {};
}

Result<void*> Connections::addListener() {
  NetHandle handle{};
  void* listener = nullptr;
  const ncclResult_t result =
      net_.transport->listen(net_.context, net_.device, handle.data(), &listener);
  if (result != ncclSuccess) return transportError(*net_.transport, "listen", result);
  handles_.insert(handles_.end(), handle.begin(), handle.end());
  return listener;
}

Connections::~Connections() {
  sends_.clear();
  receives_.clear();
  ringOut_.reset();
  ringIn_.reset();
  listeners_.push_back(ringListener_);
  for (void* listener : listeners_) {
    if (listener != nullptr) net_.transport->closeListen(listener);
  }
  net_.transport->finalize(net_.context);
}

// Handle number `index` of `peer`: 0 is for the ring, 1 + rank for that rank's sends.
NetHandle Connections::handleOf(int peer, int index) const {
  NetHandle handle;
  const size_t perRank = static_cast<size_t>(nRanks_ + 1) * kNetHandleBytes;
  memcpy(handle.data(), table_.data() + peer * perRank + index * kNetHandleBytes, handle.size());
  return handle;
}

Result<bool> Connections::connectRing() {
  if (nRanks_ == 1) return true;
  if (ringOut_ == nullptr) {
    const int next = (net_.rank + 1) % nRanks_;
    const int previous = (net_.rank + nRanks_ - 1) % nRanks_;
    ringOut_ = std::make_unique<SendChannel>(net_, next, handleOf(next, 0));
    ringIn_ =
        std::make_unique<ReceiveChannel>(net_, previous, std::exchange(ringListener_, nullptr));
  }
  const Result<bool> out = ringOut_->progress();
  if (!out) return out;
  const Result<bool> in = ringIn_->progress();
  if (!in) return in;
  return ringOut_->isOpen() && ringIn_->isOpen();
}

SendChannel& Connections::sendTo(int peer) {
  std::unique_ptr<SendChannel>& channel = sends_[peer];
  if (channel == nullptr) {
    channel = std::make_unique<SendChannel>(net_, peer, handleOf(peer, 1 + net_.rank));
  }
  return *channel;
}

bool Connections::hasLeft(int peer) const {
  const auto send = sends_.find(peer);
  const Channel* channels[] = {ringIn_.get(), ringOut_.get(),
                               send == sends_.end() ? nullptr : send->second.get()};
  for (const Channel* channel : channels)
    if (channel != nullptr && channel->peer() == peer && channel->isHungUp()) return true;
  return false;
}

ReceiveChannel& Connections::receiveFrom(int peer) {
  std::unique_ptr<ReceiveChannel>& channel = receives_[peer];
  if (channel == nullptr) {
    channel =
        std::make_unique<ReceiveChannel>(net_, peer, std::exchange(listeners_[peer], nullptr));
  }
  return *channel;
}

}  // namespace cinch::emulator
