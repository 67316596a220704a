#include "emulator/nccl/connections.h"

#include <cstring>

namespace cinch::emulator {

Connections::Connections(Network network, int rank, int nRanks, int cudaDevice)
    : network_(std::move(network)),
      net_{&network_.transport(), network_.context(), network_.device(), rank},
      nRanks_(nRanks),
      service_(cudaDevice) {}

Result<std::unique_ptr<Connections>> Connections::listen(Network network, int rank, int nRanks,
                                                         int cudaDevice) {
  std::unique_ptr<Connections> connections(
      new Connections(std::move(network), rank, nRanks, cudaDevice));
  Result<void> result;
  if (nRanks > 1) connections->service_.run([&] { result = connections->listenForPeers(); });
  if (!result) return result.error();
  return connections;
}

// A limit that makes no sense is an error, and no reason to take another network: so it is in NCCL.
Result<void> Connections::checkDevice() const {
  NetProperties properties;
  const ncclResult_t result = net_.transport->getProperties(net_.device, &properties);
  if (result != ncclSuccess) {
    return errorf(static_cast<Status>(result), "network %s cannot tell what device %d is",
                  net_.transport->name(), net_.device);
  }
  if (properties.maxP2pBytes > 0 && properties.maxP2pBytes <= kNetMaxBytes) return {};
  return errorf(Status::internalError, "network %s: maxP2pBytes is %zu instead of 1 to %zu",
                net_.transport->name(), properties.maxP2pBytes, kNetMaxBytes);
}

Result<void> Connections::listenForPeers() {
  CINCH_TRY(checkDevice());
  const int previous = (net_.rank + nRanks_ - 1) % nRanks_;
  Result<std::unique_ptr<ReceiveChannel>> ring = listenFor(previous);
  if (!ring) return ring.error();
  ringIn_ = std::move(ring.value());
  for (int peer = 0; peer < nRanks_; ++peer) {
    Result<std::unique_ptr<ReceiveChannel>> channel = listenFor(peer);
    if (!channel) return channel.error();
    receives_.push_back(std::move(channel.value()));
  }
  return {};
}

Result<std::unique_ptr<ReceiveChannel>> Connections::listenFor(int peer) {
  NetHandle handle{};
  void* listener = nullptr;
  const ncclResult_t result =
      net_.transport->listen(net_.context, net_.device, handle.data(), &listener);
  if (result != ncclSuccess || listener == nullptr) {
    return errorf(result == ncclSuccess ? Status::internalError : static_cast<Status>(result),
                  "network %s cannot listen", net_.transport->name());
  }
  handles_.insert(handles_.end(), handle.begin(), handle.end());
  return std::make_unique<ReceiveChannel>(net_, peer, listener);
}

Connections::~Connections() {
  service_.stop([this] { closeAll(); });
}

void Connections::closeAll() {
  if (ringOut_ != nullptr) ringOut_->close();
  if (ringIn_ != nullptr) ringIn_->close();
  for (const auto& channel : sends_) channel->close();
  for (const auto& channel : receives_) channel->close();
}

void Connections::setTable(const std::vector<char>& table) {
  if (nRanks_ == 1) return;
  ringOut_ = channelTo((net_.rank + 1) % nRanks_, table, 0);
  for (int peer = 0; peer < nRanks_; ++peer) {
    sends_.push_back(channelTo(peer, table, 1 + net_.rank));
  }
}

// Handle number `index` of `peer`: 0 is for the ring, 1 + rank for that rank's sends.
std::unique_ptr<SendChannel> Connections::channelTo(int peer, const std::vector<char>& table,
                                                    int index) const {
  NetHandle handle;
  const size_t perRank = static_cast<size_t>(nRanks_ + 1) * kNetHandleBytes;
  memcpy(handle.data(), table.data() + peer * perRank + index * kNetHandleBytes, handle.size());
  return std::make_unique<SendChannel>(net_, peer, handle);
}

Result<bool> Connections::connectRing() {
  if (nRanks_ == 1) return true;
  open(*ringOut_);
  open(*ringIn_);
  const Result<bool> out = ringOut_->openState();
  if (!out) return out;
  const Result<bool> in = ringIn_->openState();
  if (!in) return in;
  return out.value() && in.value();
}

SendChannel& Connections::sendTo(int peer) {
  SendChannel& channel = *sends_[static_cast<size_t>(peer)];
  open(channel);
  return channel;
}

ReceiveChannel& Connections::receiveFrom(int peer) {
  ReceiveChannel& channel = *receives_[static_cast<size_t>(peer)];
  open(channel);
  return channel;
}

const Channel& Connections::channelOf(const Operation& transfer) {
  if (transfer.kind == Kind::send) return sendTo(transfer.peer);
  return receiveFrom(transfer.peer);
}

bool Connections::isOpening(const Channel& channel) {
  const Result<bool> open = channel.openState();
  return open && !open.value();
}

void Connections::open(SendChannel& channel) {
  if (!channel.claim()) return;
  service_.retry([this, &channel] {
    if (!channel.tryOpen()) return false;
    wakeup_->notify();
    return true;
  });
}

void Connections::open(ReceiveChannel& channel) {
  if (!channel.claim()) return;
  service_.retry([this, &channel] {
    if (!tryAccept(channel)) return false;
    wakeup_->notify();
    return true;
  });
}

// Fails where the peer has left: no socket of its own would ever tell. That is looked up before the
// attempt, since the peer may have connected, sent and left in good order.
bool Connections::tryAccept(ReceiveChannel& channel) {
  const bool left = hasLeft(channel.peer());
  if (channel.tryOpen()) return true;
  if (!left) return false;
  channel.fail(errorf(Status::remoteError, "rank %d waits for rank %d, whose process has exited",
                      net_.rank, channel.peer()));
  return true;
}

// True where a connection with `peer` shows that its process has left.
bool Connections::hasLeft(int peer) const {
  const Channel* channels[] = {ringIn_.get(), ringOut_.get(),
                               sends_[static_cast<size_t>(peer)].get()};
  for (const Channel* channel : channels) {
    if (channel->peer() == peer && channel->isHungUp()) return true;
  }
  return false;
}

}  // namespace cinch::emulator
