#include "interpose/agree/control_client.h"

#include <utility>

namespace cinch {
namespace {

// How long a message of some bytes may wait for room in the kernel: the server always reads.
constexpr std::chrono::seconds kSendTime{10};
constexpr size_t kClientReadBytes = 16 << 10;
// As much as the server keeps for a rank. A program thread waits with its own message, so that only
// answers pile up here: thousands, while the server reads nothing.
constexpr size_t kMaxKept = 4 << 20;
// What rank 0 may publish before this rank asks for any of it.
constexpr size_t kMaxUntaken = 256 << 20;

}  // namespace

void ControlOutput::attach(ControlReader* reader, uint64_t id) {
  std::lock_guard lock(mutex_);
  reader_ = reader;
  id_ = id;
}

Result<void> ControlOutput::append(const Bytes& frame) {
  if (ended_) return errorf(Status::remoteError, "the connection was closed");
  if (kept_.size() + frame.size() > kMaxKept)
    return errorf(Status::remoteError, "it does not read what it is sent");
  kept_.insert(kept_.end(), frame.begin(), frame.end());
  queued_ += frame.size();
  return flushLocked();
}

Result<void> ControlOutput::send(const Bytes& frame, Deadline deadline) {
  std::unique_lock lock(mutex_);
  CINCH_TRY(append(frame));
  const uint64_t mine = queued_;
  const auto taken = [&] { return ended_ || queued_ - kept_.size() >= mine; };
  if (!drained_.wait_until(lock, deadline, taken))
    return errorf(Status::remoteError, "it does not read what it is sent");
  if (ended_) return errorf(Status::remoteError, "the connection was closed");
  return {};
}

Result<void> ControlOutput::enqueue(const Bytes& frame) {
  std::lock_guard lock(mutex_);
  return append(frame);
}

Result<void> ControlOutput::flush() {
  std::lock_guard lock(mutex_);
  if (ended_) return errorf(Status::remoteError, "the connection was closed");
  return flushLocked();
}

Result<void> ControlOutput::flushLocked() {
  auto sent = sendSome(socket_, kept_.data(), kept_.size());
  CINCH_TRY(sent);
  if (sent.value() > 0)
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(sent.value()));
  drained_.notify_all();
  if (watched_ == !kept_.empty()) return {};
  watched_ = !watched_;
  return reader_->watchOutput(id_, socket_.fd(), watched_);
}

void ControlOutput::end() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  if (socket_.fd() >= 0) socket_.shutdown();
  drained_.notify_all();
}

void ControlOutput::close() {
  std::lock_guard lock(mutex_);
  socket_ = Socket();
}

Result<void> ControlInbox::store(const Message& message) {
  if (std::holds_alternative<Acknowledged>(message)) {
    acknowledged = true;
  } else if (const Verdict* given = std::get_if<Verdict>(&message)) {
    verdict = *given;
  } else if (const Outcome* outcome = std::get_if<Outcome>(&message)) {
    outcomes[outcome->topic] = outcome->yes;
  } else if (const Publication* publication = std::get_if<Publication>(&message)) {
    Bytes& bytes = published[publication->topic];
    publishedBytes += publication->bytes.size() - bytes.size();
    bytes = publication->bytes;
    if (publishedBytes > kMaxUntaken)
      return errorf(Status::remoteError, "rank 0 publishes more than this rank takes");
  } else if (const Pool* pool = std::get_if<Pool>(&message)) {
    pooled[pool->topic] = pool->values;
  } else if (std::holds_alternative<PublisherLeft>(message)) {
    publisherLeft = true;
  } else if (const Rejected* rejected = std::get_if<Rejected>(&message)) {
    return errorf(Status::remoteError, "%s", rejected->reason.c_str());
  } else {
    return errorf(Status::remoteError, "it sent what only ranks send");
  }
  return {};
}

ControlClient::ControlClient(Socket connected, const Endpoint& server, const HelloMessage& hello)
    : server_(server),
      nonce_(hello.nonce),
      isChild_(hello.parent != kNoParent),
      output_(std::move(connected)) {
  input_.setLimit(kMaxServerBytes);
}

Result<void> ControlClient::start() {
  // A gate may outlive its communicator.
  gates_.emplace([self = weak_from_this()](const CloseProposal& proposal, bool mayWait) {
    if (const auto client = self.lock()) client->propose(proposal, mayWait);
  });
  auto reader = ControlReader::ofProcess();
  CINCH_TRY(reader);
  auto id = reader.value()->add(output_.socket().fd(), *this);
  CINCH_TRY(id);
  watch_.reader = reader.value();
  watch_.id = id.value();
  output_.attach(watch_.reader, watch_.id);
  return {};
}

Error ControlClient::serverError(const std::string& cause) const {
  return errorf(Status::remoteError, "agreement server at %s: %s", server_.text().c_str(),
                cause.c_str());
}

std::optional<Error> ControlClient::failure() {
  // In a child the locks may be held for ever, and the connection is the parent's.
  if (isForked()) return serverError("the connection is that of the process that forked this one");
  std::lock_guard lock(mutex_);
  return failure_;
}

Result<void> ControlClient::send(const Message& message) {
  if (auto failed = failure()) return *failed;
  auto sent = output_.send(encodeMessage(message), deadlineIn(kSendTime));
  if (sent.ok()) return {};
  // Half a message may be on its way: nothing can follow it.
  leave(sent.error().message);
  return *failure();
}

Result<void> ControlClient::waitFor(const char* what, Deadline deadline, const Ready& ready) {
  if (isForked()) return *failure();
  std::unique_lock lock(mutex_);
  for (;;) {
    if (ready(inbox_)) return {};
    if (failure_) return *failure_;
    if (Clock::now() >= deadline) return serverError(std::string("no ") + what + " in time");
    if (deadline == kNoDeadline) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, deadline);
    }
  }
}

void ControlClient::leave(const std::string& cause) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = serverError(cause);
    changed_.notify_all();
  }
  output_.end();
  if (gates_) gates_->end();
}

void ControlClient::propose(const CloseProposal& proposal, bool mayWait) {
  // Where it fails the connection has ended, and with it every wait.
  if (mayWait) return static_cast<void>(send(proposal));
  auto sent = output_.enqueue(encodeMessage(proposal));
  if (!sent.ok()) leave(sent.error().message);
}

void ControlClient::end() {
  leave("this rank has left");
  if (watch_.reader != nullptr) watch_.reader->remove(watch_.id);
  output_.close();
}

bool ControlClient::onReadable() {
  uint8_t bytes[kClientReadBytes];
  auto received = receiveSome(output_.socket(), bytes, sizeof bytes);
  if (!received.ok()) {
    leave(received.error().message);
    return false;
  }
  input_.append(bytes, received.value());
  for (;;) {
    auto message = input_.next();
    Result<void> good = message.ok() ? Result<void>() : Result<void>(message.error());
    if (message.ok() && !message.value()) return true;
    if (message.ok()) good = receive(*message.value());
    if (good.ok()) continue;
    leave(good.error().message);
    return false;
  }
}

bool ControlClient::onWritable() {
  auto flushed = output_.flush();
  if (!flushed.ok()) leave(flushed.error().message);
  return flushed.ok();
}

Result<void> ControlClient::receive(const Message& message) {
  if (const auto* prepare = std::get_if<ClosePrepare>(&message)) return answer(*prepare);
  if (const auto* closed = std::get_if<GateClosed>(&message)) return gates_->receive(*closed);
  if (const auto* open = std::get_if<GateNotClosed>(&message)) return gates_->receive(*open);
  std::lock_guard lock(mutex_);
  if (failure_) return *failure_;  // this rank has left
  CINCH_TRY(inbox_.store(message));
  changed_.notify_all();
  return {};
}

Result<void> ControlClient::answer(const ClosePrepare& message) {
  const auto promised = gates_->receive(message);
  CINCH_TRY(promised);
  if (!promised.value()) return {};
  return output_.enqueue(encodeMessage(*promised.value()));
}

}  // namespace cinch
