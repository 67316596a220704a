#include "net_plugin/ib/connection.h"

#include <algorithm>
#include <mutex>

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

// An end, which NCCL's threads and the caretaker's use in turns.
template <class End>
struct SharedEnd {
  const std::unique_ptr<End> end;
  std::mutex mutex;
};

// A request of End for what it gave out: SentMessage, ReceivedGroup or PendingFlush.
template <class End, class Item>
class VerbsRequest final : public Request {
 public:
  bool isFree() const { return item_ == nullptr; }
  Request* begin(SharedEnd<End>& shared, Item& item) {
    shared_ = &shared;
    item_ = &item;
    return this;
  }

  size_t nBuffers() const override { return countOf(*item_); }
  Result<bool> test(size_t* sizes) override {
    const std::lock_guard turn(shared_->mutex);
    const Result<bool> isDone = shared_->end->take(*item_);
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

  SharedEnd<End>* shared_ = nullptr;
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
  VerbsConnection(std::unique_ptr<End> end, Caretaker& caretaker)
      : shared_{std::move(end), {}}, duty_(caretaker, [this] { lookAfter(); }) {}

  Result<void*> registerMemory(void* data, size_t nBytes, MemoryKind kind) override {
    const std::lock_guard turn(shared_.mutex);
    return tokenOf(shared_.end->know(data, nBytes, kind));
  }
  Result<void*> registerDmabuf(void* data, size_t nBytes, const Dmabuf& source) override {
    const std::lock_guard turn(shared_.mutex);
    return tokenOf(shared_.end->knowDmabuf(data, nBytes, source));
  }
  Result<void> deregisterMemory(void* memory) override {
    const std::lock_guard turn(shared_.mutex);
    return shared_.end->forget(static_cast<Region*>(memory));
  }

 protected:
  using OneRequest = VerbsRequest<End, Item>;

  OneRequest* freeRequest() { return findFree(requests_); }
  Result<Request*> start(OneRequest& request, Result<Item*> item) {
    if (!item) return item.error();
    return item.value() == nullptr ? nullptr : request.begin(shared_, *item.value());
  }

  SharedEnd<End> shared_;

 private:
  // Who has its turn looks after it. What goes wrong is told to the next who calls.
  void lookAfter() {
    const std::unique_lock turn(shared_.mutex, std::try_to_lock);
    if (turn) shared_.end->progress().ok();
  }

  static Result<void*> tokenOf(const Result<Region*>& region) {
    if (!region) return region.error();
    return static_cast<void*>(region.value());
  }

  std::array<OneRequest, kRequests> requests_;
  const Caretaker::Duty duty_;
};

class VerbsSend final : public VerbsConnection<SendConnection, Sender, SentMessage, kPlaces> {
 public:
  using VerbsConnection::VerbsConnection;

  Result<Request*> send(const void* data, size_t nBytes, int tag, void* memory) override {
    const Result<const Region*> region = regionOf(data, nBytes, memory);
    if (!region) return region.error();
    OneRequest* request = freeRequest();
    if (request == nullptr) return nullptr;
    const std::lock_guard turn(shared_.mutex);
    return start(*request, shared_.end->send(data, nBytes, tag, region.value()));
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
    const std::lock_guard turn(shared_.mutex);
    return start(*request, shared_.end->receive({known.data(), buffers.size()}));
  }

  // As NCCL's net_ib: the last buffer that got anything stands for all, which are one GPU's.
  Result<Request*> flush(std::span<const Buffer> buffers) override {
    const auto last = std::find_if(buffers.rbegin(), buffers.rend(),
                                   [](const Buffer& it) { return it.capacity > 0; });
    const std::lock_guard turn(shared_.mutex);
    if (!shared_.end->flushes() || last == buffers.rend()) return nullptr;
    const Result<const Region*> region = regionOf(last->data, last->capacity, last->memory);
    if (!region) return region.error();
    const Result<PendingFlush*> pending = shared_.end->flush(last->data, *region.value());
    if (!pending) return pending.error();
    return findFree(flushes_)->begin(shared_, *pending.value());
  }

 private:
  // As many as the receiver has places, which are free again at the same time.
  std::array<VerbsRequest<Receiver, PendingFlush>, kPlaces> flushes_;
};

}  // namespace

std::unique_ptr<SendConnection> connectionOf(std::unique_ptr<Sender> sender, Caretaker& caretaker) {
  return std::make_unique<VerbsSend>(std::move(sender), caretaker);
}

std::unique_ptr<ReceiveConnection> connectionOf(std::unique_ptr<Receiver> receiver,
                                                Caretaker& caretaker) {
  return std::make_unique<VerbsReceive>(std::move(receiver), caretaker);
}

}  // namespace cinch::net::ib
