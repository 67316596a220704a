#include "interpose/agree/inquiry.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "common/network/socket.h"
#include "interpose/agree/channel_key.h"

namespace cinch {
namespace {

// As long as a silent host is taken to be there, where a connection lasts (tolerateOutages()).
constexpr std::chrono::minutes kOutage{30};
// A host that answers that nobody listens has lost the process, and NCCL a rank; or a firewall
// answers in its place for a moment.
constexpr std::chrono::seconds kRefused{10};
// To connect and be answered: several of the kernel's own attempts. Soon enough for an abort.
constexpr std::chrono::seconds kAttempt{3};
constexpr std::chrono::milliseconds kShortestPause{20}, kLongestPause{1000};

constexpr size_t kReadBytes = 16 << 10;

Rejected unknown(const std::string& why) {
  return {why};
}

// The next message; none where it does not come in time, or the connection ends.
std::optional<Message> receive(const Socket& socket, MessageReader& reader, Deadline deadline) {
  for (;;) {
    auto frame = reader.next();
    if (!frame.ok()) return {};
    if (frame.value()) return std::move(frame.value()->message);
    const auto isThere = waitReadable(socket, deadline);
    if (!isThere.ok() || !isThere.value()) return {};
    uint8_t bytes[kReadBytes];
    const auto received = receiveSome(socket, bytes, sizeof bytes);
    if (!received.ok()) return {};
    reader.append(bytes, received.value());
  }
}

// What the server answers over this connection; none where it ends, or the time is over.
std::optional<Message> answerOver(const Socket& socket, const Inquiry& inquiry, const Key& key,
                                  Deadline deadline) {
  if (!sendAll(socket, encodeMessage(inquiry), deadline).ok()) return {};
  MessageReader reader;
  reader.setLimit(kMaxServerBytes);
  const auto first = receive(socket, reader, deadline);
  if (!first) return {};
  if (std::holds_alternative<Rejected>(*first)) return first;
  const Acknowledged* const known = std::get_if<Acknowledged>(&*first);
  if (known == nullptr) return {};  // it may be anybody
  if (const auto isKnown = checkAnswer(inquiry.from, *known, key); !isKnown.ok())
    return unknown(isKnown.error().message);
  return receive(socket, reader, deadline);
}

bool isAnswer(const Message& message) {
  return std::holds_alternative<Commit>(message) || std::holds_alternative<Withdraw>(message) ||
         std::holds_alternative<Rejected>(message);
}

}  // namespace

Message askForOutcome(const Endpoint& server, const HelloMessage& from, uint64_t round,
                      const std::function<bool()>& isWanted) {
  const auto key = channelKey();
  if (!key.ok()) return unknown(key.error().message);
  Inquiry inquiry{from, round};
  const Deadline end = deadlineIn(kOutage);
  Deadline endOfRefusals = deadlineIn(kRefused);
  for (auto pause = kShortestPause; isWanted(); pause = std::min(2 * pause, kLongestPause)) {
    sign(inquiry.from, key.value(), Purpose::ask);
    const Deadline deadline = std::min(deadlineIn(kAttempt), end);
    const auto socket = connectTo(server, deadline);
    if (socket.ok()) {
      auto answer = answerOver(socket.value(), inquiry, key.value(), deadline);
      if (answer && isAnswer(*answer)) return std::move(*answer);
    }
    // It is there, or nobody can say that it is not.
    const bool isRefused = !socket.ok() && socket.error().status == Status::remoteError;
    if (!isRefused) endOfRefusals = deadlineIn(kRefused);
    if (Clock::now() >= std::min(end, endOfRefusals))
      return unknown(socket.ok() ? "the process that serves does not answer"
                                 : socket.error().message);
    std::this_thread::sleep_for(pause);
  }
  return unknown("this rank has left");
}

}  // namespace cinch
