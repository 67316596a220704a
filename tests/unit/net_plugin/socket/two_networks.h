// Two processes' ends of the network in one test, moved on by the test alone: no helpers, no
// threads.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "net_plugin/socket/network.h"

namespace cinch::net {

inline std::vector<char> randomBytes(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<char> bytes(n);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// One end of a connection under test.
using SendEnd = Connecting;
struct ReceiveEnd {
  std::shared_ptr<Link> link;
  std::shared_ptr<ReceiveChannel> channel;
};

class TwoNetworks : public testing::Test {
 protected:
  // Chunks of 32 KiB, so that few bytes are many of them.
  static SocketSettings quickSettings(int nFlows) {
    SocketSettings settings;
    settings.nFlows = nFlows;
    settings.chunkBytes = 32 << 10;
    settings.checksum = ChecksumChoice::all;
    return settings;
  }

  void open(const SocketSettings& settings) {
    const IpAddress loopback{Family::ipv4, {127, 0, 0, 1}};
    for (auto* network : {&here, &there}) {
      auto opened = Network::open(settings, {{"lo", loopback, true}});
      ASSERT_TRUE(opened.ok()) << opened.error().message;
      *network = std::move(opened.value());
    }
  }

  // Moves both ends on until `done`; fails the test after ten seconds.
  void runUntil(const std::function<bool()>& done, const char* what) {
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    while (!done()) {
      ASSERT_LT(Clock::now(), deadline) << "waiting for " << what;
      step();
    }
  }

  void step() {
    for (auto* network : {&here, &there}) {
      (*network)->tick();
      for (const auto& link : (*network)->links()) link->pump();
    }
  }

  // A connection from `here` to `there`.
  void connect(SendEnd* send, ReceiveEnd* receive) {
    const Invitation invitation = there->invite();
    *send = here->connect(invitation);
    runUntil([&] { return isOpened(*send); }, "the connection");
    WaitingChannel waiting = there->accept(invitation.token);
    ASSERT_NE(waiting.link, nullptr);
    *receive = {waiting.link, waiting.channel};
    there->withdraw(invitation.token);
  }

  static bool isOpened(const SendEnd& send) {
    const Result<bool> opened = send.link->isOpened(*send.channel);
    return opened.ok() && opened.value();
  }

  static std::shared_ptr<OutgoingMessage> post(SendEnd& end, const std::vector<char>& bytes) {
    auto posted = end.link->post(*end.channel, bytes.data(), bytes.size());
    EXPECT_TRUE(posted.ok()) << posted.error().message;
    return posted.ok() ? posted.value() : nullptr;
  }
  static std::shared_ptr<IncomingMessage> post(ReceiveEnd& end, std::vector<char>& buffer) {
    auto posted = end.link->post(end.channel, buffer.data(), buffer.size());
    EXPECT_TRUE(posted.ok()) << posted.error().message;
    return posted.ok() ? posted.value() : nullptr;
  }

  template <class Message>
  static bool hasEnded(const Message& message) {
    return message->outcome != Outcome::pending;
  }

  static bool hasFailed(const SendEnd& send) {
    return !send.link->errorOf(*send.channel).message.empty();
  }

  std::unique_ptr<Network> here;
  std::unique_ptr<Network> there;
};

}  // namespace cinch::net
