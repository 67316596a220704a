// A network between ranks and their server that breaks when it is told to, frame by frame.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/network/socket.h"
#include "interpose/agree/agreement_wire.h"

namespace cinch::test {

// When the connection of a rank breaks: at some round, what is named is the first that is lost;
// afterProposal: the answer, which the rank may fail to send.
enum class Phase { proposal, answer, afterProposal, outcome };

class Relay {
 public:
  struct Cut {
    Phase phase{};
    int round = 1;                     // counted by the relay
    std::chrono::milliseconds away{};  // nobody is let through so long
    bool isHalf = false;               // the server is not told in that time
  };

  explicit Relay(Endpoint server, const IpAddress& address)
      : server_(server), listener_(std::move(listenOn(address).value())) {
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    isOver_ = true;
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  Endpoint where() const { return localEndpoint(listener_); }

  // Once. Lets everybody through until then.
  void plan(const Cut& cut) {
    const std::lock_guard lock(mutex_);
    cut_ = cut;
    nCuts_ = 0;
    nRounds_ = 0;
    backAt_ = {};
  }
  int nCuts() const { return nCuts_; }

 private:
  struct Way {
    Socket rank, server;
    MessageReader up{}, down{};
    bool isOpen = true;  // to the rank
  };

  static constexpr std::chrono::milliseconds kPollTime{2};

  void run() {
    while (!isOver_) {
      std::vector<pollfd> fds{{listener_.fd(), POLLIN, 0}};
      for (const Way& way : ways_) {
        if (way.isOpen) fds.push_back({way.rank.fd(), POLLIN, 0});
        if (way.isOpen) fds.push_back({way.server.fd(), POLLIN, 0});
      }
      poll(fds.data(), fds.size(), static_cast<int>(kPollTime.count()));
      acceptAll();
      for (Way& way : ways_)
        if (way.isOpen &&
            !(move(way.rank, way.up, way, true) && move(way.server, way.down, way, false)))
          end(way);
      const bool isBack = !isAway();
      ways_.remove_if([&](const Way& way) { return !way.isOpen && isBack; });
    }
  }

  void acceptAll() {
    for (;;) {
      auto next = acceptFrom(listener_);
      if (!next.ok() || !next.value()) return;
      Accepted* const accepted = &*next.value();
      if (isAway()) {
        accepted->socket.reset();
        continue;
      }
      auto server = connectTo(server_, deadlineIn(std::chrono::seconds(5)));
      if (!server.ok()) continue;
      Way& way = ways_.emplace_back(Way{std::move(accepted->socket), std::move(server.value())});
      way.up.setLimit(kMaxServerBytes);
      way.down.setLimit(kMaxServerBytes);
    }
  }

  bool isAway() {
    const std::lock_guard lock(mutex_);
    return Clock::now() < backAt_;
  }

  // False where the connection is over.
  bool move(const Socket& from, MessageReader& reader, Way& way, bool isUp) {
    uint8_t bytes[4096];
    const auto received = receiveSome(from, bytes, sizeof bytes);
    if (!received.ok()) return false;
    reader.append(bytes, received.value());
    for (;;) {
      auto frame = reader.next();
      if (!frame.ok()) return false;
      if (!frame.value()) return true;
      const Message& message = frame.value()->message;
      const Socket& to = isUp ? way.server : way.rank;
      if (isCutAt(message)) {
        if (isAfterIt()) static_cast<void>(pass(to, *frame.value()));
        const std::lock_guard lock(mutex_);
        backAt_ = deadlineIn(cut_->away);
        const bool isHalf = cut_->isHalf;
        cut_.reset();
        ++nCuts_;
        way.rank.reset();
        way.isOpen = false;
        if (!isHalf) end(way);
        return true;
      }
      if (!pass(to, *frame.value())) return false;
    }
  }

  static bool pass(const Socket& to, const Frame& frame) {
    const Bytes bytes = encodeMessage(frame.message, frame.channel);
    return sendAll(to, bytes, deadlineIn(std::chrono::seconds(5))).ok();
  }

  bool isAfterIt() {
    const std::lock_guard lock(mutex_);
    return cut_->phase == Phase::afterProposal;
  }

  bool isCutAt(const Message& message) {
    const std::lock_guard lock(mutex_);
    const bool isProposal = std::holds_alternative<Prepare>(message);
    nRounds_ += isProposal ? 1 : 0;
    if (!cut_ || nRounds_ != cut_->round) return false;
    switch (cut_->phase) {
      case Phase::proposal:
      case Phase::afterProposal:
        return isProposal;
      case Phase::answer:
        return std::holds_alternative<Prepared>(message);
      case Phase::outcome:
        return std::holds_alternative<Commit>(message) || std::holds_alternative<Withdraw>(message);
    }
    return false;
  }

  void end(Way& way) {
    way.isOpen = false;
    way.rank = Socket();
    way.server = Socket();
  }

  const Endpoint server_;
  Socket listener_;
  std::atomic<bool> isOver_{false};
  std::atomic<int> nCuts_{0};
  std::mutex mutex_;  // guards what follows
  std::optional<Cut> cut_;
  int nRounds_ = 0;
  Deadline backAt_{};

  // The thread's own.
  std::list<Way> ways_;
  std::thread thread_;
};

}  // namespace cinch::test
