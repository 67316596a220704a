// The two ends of one connection inside a link: plain state, guarded by the link's lock.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>

#include "common/network/socket.h"
#include "net_plugin/net.h"
#include "net_plugin/socket/message.h"

namespace cinch::net {

using Token = std::array<uint8_t, kOpenPayloadBytes>;  // of a listener: random, in its handle

// Numbers of messages wrap; the distance between two that are alive never exceeds kMaxRequests.
inline int32_t distance(uint32_t from, uint32_t to) {
  return static_cast<int32_t>(to - from);
}

struct SendChannel {
  SendChannel(uint32_t id, const Token& token) : id(id), token(token) {}

  const uint32_t id;
  const Token token;
  bool isOpened = false;                              // the peer has it
  uint32_t next = 0;                                  // number of the next message
  std::deque<std::shared_ptr<OutgoingMessage>> live;  // those not through, oldest first
  std::array<uint32_t, 2 * kMaxRequests> granted{};   // by number: that number + 1
  std::optional<Error> error;
  uint32_t end = 0;            // where there is an error: nothing is sent from this number on
  uint32_t frontNumber = ~0u;  // of the oldest message, since
  Clock::time_point frontSince{};
  bool isClosed = false;  // kept only until the peer has the copies that were sent

  // The first that the peer may not have; and the first that needs its owner's buffer.
  uint32_t firstUndelivered() const {
    return firstOf([](const OutgoingMessage& it) { return !it.isDelivered(); });
  }
  uint32_t firstUnsendable() const {
    return firstOf([](const OutgoingMessage& it) { return !it.isDelivered() && !it.isCopy(); });
  }
  bool hasCopies() const {
    return std::any_of(live.begin(), live.end(),
                       [](const auto& it) { return it->isCopy() && !it->isThrough(); });
  }
  bool isThrough() const {
    return std::all_of(live.begin(), live.end(), [](const auto& it) { return it->isThrough(); });
  }

  bool isGranted(uint32_t number) const { return granted[number % granted.size()] == number + 1; }
  void grant(uint32_t number) { granted[number % granted.size()] = number + 1; }

 private:
  template <class Predicate>
  uint32_t firstOf(Predicate predicate) const {
    const auto found =
        std::find_if(live.begin(), live.end(), [&](const auto& it) { return predicate(*it); });
    return found == live.end() ? next : (*found)->number();
  }
};

struct ReceiveChannel {
  explicit ReceiveChannel(uint32_t id) : id(id) {}

  const uint32_t id;  // the peer's
  uint32_t next = 0;  // number of the next buffer that is posted
  std::array<std::shared_ptr<IncomingMessage>, kMaxRequests> posted;
  std::array<std::shared_ptr<IncomingMessage>, kMaxRequests> early;  // came before their buffers
  std::optional<uint32_t> closedAt;  // by the sender: from this number on nothing comes
  bool wasLong = false;              // the last message
  std::optional<Error> error;

  bool isClosedFor(uint32_t number) const { return closedAt && distance(*closedAt, number) >= 0; }
  // Where it is closed at several numbers the first counts.
  void closeAt(uint32_t number) {
    if (!isClosedFor(number)) closedAt = number;
  }

  // The first number whose message is not there, or was not waited for.
  uint32_t firstOpen() const {
    uint32_t first = next;
    for (const auto& message : posted) {
      const bool open = message != nullptr && message->outcome != Outcome::done;
      if (open && distance(message->number(), first) > 0) first = message->number();
    }
    return first;
  }
  std::shared_ptr<IncomingMessage>& postedAt(uint32_t number) {
    return posted[number % kMaxRequests];
  }
  std::shared_ptr<IncomingMessage>& earlyAt(uint32_t number) {
    return early[number % kMaxRequests];
  }
};

}  // namespace cinch::net
