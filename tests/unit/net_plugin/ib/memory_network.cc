#include "memory_network.h"

#include <algorithm>

namespace cinch::net::ib {
namespace {

class Instant final : public Request {
 public:
  size_t nBytes = 0;
  Result<bool> test(size_t* sizes) override {
    *sizes = nBytes;
    return true;
  }
};

template <class Base>
class WithoutMemory : public Base {
 public:
  Result<void*> registerMemory(void*, size_t, MemoryKind) override { return nullptr; }
  Result<void> deregisterMemory(void*) override { return {}; }
};

class MemorySend final : public WithoutMemory<SendConnection> {
 public:
  explicit MemorySend(std::shared_ptr<MemoryPipe> pipe) : pipe_(std::move(pipe)) {}
  ~MemorySend() override { pipe_->senderIsGone = true; }

  Result<Request*> send(const void* data, size_t nBytes, int, void*) override {
    if (pipe_->receiverIsGone) return errorf(Status::remoteError, "the receiver is gone");
    const auto* bytes = static_cast<const uint8_t*>(data);
    pipe_->messages.emplace_back(bytes, bytes + nBytes);
    sent_.nBytes = nBytes;
    return &sent_;
  }
  Result<void> check() override {
    if (pipe_->receiverIsGone) return errorf(Status::remoteError, "the receiver is gone");
    return {};
  }

 private:
  const std::shared_ptr<MemoryPipe> pipe_;
  Instant sent_;
};

class MemoryReceive final : public WithoutMemory<ReceiveConnection>, private Request {
 public:
  explicit MemoryReceive(std::shared_ptr<MemoryPipe> pipe) : pipe_(std::move(pipe)) {}
  ~MemoryReceive() override { pipe_->receiverIsGone = true; }

  Result<Request*> receive(std::span<const Buffer> buffers) override {
    buffer_ = buffers.front();
    return this;
  }

 private:
  Result<bool> test(size_t* sizes) override {
    auto& messages = pipe_->messages;
    if (messages.empty() && pipe_->senderIsGone) {
      return errorf(Status::remoteError, "the sender is gone");
    }
    if (messages.empty()) return false;
    const std::vector<uint8_t> message = std::move(messages.front());
    messages.pop_front();
    if (message.size() > buffer_.capacity) {
      return errorf(Status::remoteError, "a message of %zu bytes is larger than its buffer",
                    message.size());
    }
    std::copy(message.begin(), message.end(), static_cast<uint8_t*>(buffer_.data));
    *sizes = message.size();
    return true;
  }

  const std::shared_ptr<MemoryPipe> pipe_;
  Buffer buffer_;
};

}  // namespace

class MemoryListener final : public Listener {
 public:
  MemoryListener(MemoryDevice& device, const Token& token) : device_(device), token_(token) {}

  Result<std::unique_ptr<ReceiveConnection>> accept() override {
    auto& waiting = device_.waiting_[token_];
    if (waiting.empty()) return std::unique_ptr<ReceiveConnection>();
    auto pipe = waiting.front();
    waiting.pop_front();
    return std::unique_ptr<ReceiveConnection>(new MemoryReceive(pipe));
  }

 private:
  MemoryDevice& device_;
  const Token token_;
};

Result<std::unique_ptr<Listener>> MemoryDevice::listen(Handle& handle) {
  Invitation invitation;
  invitation.token[0] = ++nextToken_;
  invitation.endpoints.push_back({{Family::ipv4, {}}, 1});
  packInvitation(invitation, handle);
  return std::unique_ptr<Listener>(new MemoryListener(*this, invitation.token));
}

Result<std::unique_ptr<SendConnection>> MemoryDevice::connect(Handle& handle, int) {
  const auto invitation = unpackInvitation(handle);
  if (!invitation) return errorf(Status::invalidArgument, "no handle of this network");
  auto pipe = std::make_shared<MemoryPipe>();
  waiting_[invitation->token].push_back(pipe);
  all_.push_back(pipe);
  return std::unique_ptr<SendConnection>(new MemorySend(pipe));
}

void MemoryDevice::cut() {
  for (const auto& known : all_) {
    if (const auto pipe = known.lock()) pipe->senderIsGone = pipe->receiverIsGone = true;
  }
}

}  // namespace cinch::net::ib
