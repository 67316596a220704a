#include "net_plugin/ib/connection.h"

#include <algorithm>

namespace cinch::net::ib {
namespace {

// Finds what the token of a buffer stands for. Only a buffer of no bytes needs none.
Result<const Region*> regionOf(const void* data, size_t nBytes, const void* memory) {
  if (nBytes == 0) return nullptr;
  const auto* region = static_cast<const Region*>(memory);
  if (region == nullptr || !region->holds(data, nBytes)) {
    return errorf(Status::invalidArgument, "%zu bytes at %p are not within the registered memory",
                  nBytes, data);
  }
  return region;
}

// A request of End for what it gave out: SentMessage, ReceivedGroup or PendingFlush.
template <class End, class Item>
class VerbsRequest final : public Request {
 public:
  bool isFree() const { return item_ == nullptr; }
  Request* begin(End& end, Item& item) {
    end_ = &end;
    item_ = &item;
    return this;
  }

  size_t nBuffers() const override { return countOf(*item_); }
  Result<bool> test(size_t* sizes) override {
    const Result<bool> isDone = end_->take(*item_);
    if (isDone && !isDone.value()) return false;
    if (isDone) writeSizes(*item_, sizes);
    item_ = nullptr;
    return isDone;
  }

 private:
  static size_t countOf(const SentMessage&) { return 1; }
  static size_t countOf(const ReceivedGroup& group) { return group.nBuffers(); }
  static size_t countOf(const PendingFlush&) { return 0; }
  static void writeSizes(const SentMessage& message, size_t* sizes) { *sizes = message.nBytes(); }
  static void writeSizes(const PendingFlush&, size_t*) {}
  static void writeSizes(const ReceivedGroup& group, size_t* sizes) {
    for (size_t i = 0; i < group.nBuffers(); ++i) sizes[i] = group.nBytes(i);
  }

  End* end_ = nullptr;
  Item* item_ = nullptr;
};

// Null while all places are taken.
template <class OneRequest, size_t n>
OneRequest* findFree(std::array<OneRequest, n>& requests) {
  const auto found = std::find_if(requests.begin(), requests.end(),
                                  [](const OneRequest& it) { return it.isFree(); });
  return found == requests.end() ? nullptr : &*found;
}

template <class Base, class End, class Item, size_t kRequests>
class VerbsConnection : public Base {
 public:
  explicit VerbsConnection(std::unique_ptr<End> end) : end_(std::move(end)) {}

  Result<void*> registerMemory(void* data, size_t nBytes, MemoryKind kind) override {
    return tokenOf(end_->know(data, nBytes, kind));
  }
  Result<void*> registerDmabuf(void* data, size_t nBytes, const Dmabuf& source) override {
    return tokenOf(end_->knowDmabuf(data, nBytes, source));
  }
  Result<void> deregisterMemory(void* memory) override {
    return end_->forget(static_cast<Region*>(memory));
  }

 protected:
  using OneRequest = VerbsRequest<End, Item>;

  OneRequest* freeRequest() { return findFree(requests_); }
  Result<Request*> start(OneRequest& request, Result<Item*> item) {
    if (!item) return item.error();
    return item.value() == nullptr ? nullptr : request.begin(*end_, *item.value());
  }

  const std::unique_ptr<End> end_;

 private:
  static Result<void*> tokenOf(const Result<Region*>& region) {
    if (!region) return region.error();
    return static_cast<void*>(region.value());
  }

  std::array<OneRequest, kRequests> requests_;
};

class VerbsSend final : public VerbsConnection<SendConnection, Sender, SentMessage, kPlaces> {
 public:
  using VerbsConnection::VerbsConnection;

  Result<Request*> send(const void* data, size_t nBytes, int tag, void* memory) override {
    const Result<const Region*> region = regionOf(data, nBytes, memory);
    if (!region) return region.error();
    OneRequest* request = freeRequest();
    if (request == nullptr) return nullptr;
    return start(*request, end_->send(data, nBytes, tag, region.value()));
  }
};

class VerbsReceive final
    : public VerbsConnection<ReceiveConnection, Receiver, ReceivedGroup, kMaxRequests> {
 public:
  using VerbsConnection::VerbsConnection;

  Result<Request*> receive(std::span<const Buffer> buffers) override {
    if (buffers.empty() || buffers.size() > kMaxGroup) {
      return errorf(Status::invalidArgument, "%zu receives at once, maxRecvs is %zu",
                    buffers.size(), kMaxGroup);
    }
    std::array<KnownBuffer, kMaxGroup> known;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& buffer = buffers[i];
      const auto region = regionOf(buffer.data, buffer.capacity, buffer.memory);
      if (!region) return region.error();
      known[i] = {buffer.data, buffer.capacity, buffer.tag, region.value()};
    }
    OneRequest* request = freeRequest();
    if (request == nullptr) return nullptr;
    return start(*request, end_->receive({known.data(), buffers.size()}));
  }

  // As NCCL's net_ib: the last buffer that got anything stands for all, which are one GPU's.
  Result<Request*> flush(std::span<const Buffer> buffers) override {
    const auto last = std::find_if(buffers.rbegin(), buffers.rend(),
                                   [](const Buffer& it) { return it.capacity > 0; });
    if (!end_->flushes() || last == buffers.rend()) return nullptr;
    const Result<const Region*> region = regionOf(last->data, last->capacity, last->memory);
    if (!region) return region.error();
    const Result<PendingFlush*> pending = end_->flush(last->data, *region.value());
    if (!pending) return pending.error();
    return findFree(flushes_)->begin(*end_, *pending.value());
  }

 private:
  // As many as the receiver has places, which are free again at the same time.
  std::array<VerbsRequest<Receiver, PendingFlush>, kPlaces> flushes_;
};

}  // namespace

std::unique_ptr<SendConnection> connectionOf(std::unique_ptr<Sender> sender) {
  return std::make_unique<VerbsSend>(std::move(sender));
}

std::unique_ptr<ReceiveConnection> connectionOf(std::unique_ptr<Receiver> receiver) {
  return std::make_unique<VerbsReceive>(std::move(receiver));
}

}  // namespace cinch::net::ib
