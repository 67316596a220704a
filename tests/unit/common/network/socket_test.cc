#include "common/network/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <thread>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Pair {
  Socket client;
  Socket server;
};

Pair connectedPair() {
  auto listener = listenOn(loopback());
  EXPECT_TRUE(listener.ok());
  auto client = connectTo(localEndpoint(listener.value()), deadlineIn(seconds(5)));
  EXPECT_TRUE(client.ok());
  EXPECT_TRUE(waitReadable(listener.value(), deadlineIn(seconds(5))).value());
  auto accepted = acceptFrom(listener.value());
  EXPECT_TRUE(accepted.ok() && accepted.value());
  return {std::move(client.value()), std::move(accepted.value()->socket)};
}

TEST(Socket, PollTimeoutRoundsUpAndNeverOverflows) {
  EXPECT_EQ(pollTimeout(kNoDeadline), -1);
  EXPECT_EQ(pollTimeout(Clock::now() - seconds(1)), 0);
  EXPECT_GE(pollTimeout(Clock::now() + std::chrono::microseconds(900)), 0);
  EXPECT_EQ(pollTimeout(Clock::now() + std::chrono::hours(24 * 365)), INT32_MAX);
}

TEST(Socket, CarriesBytesLargerThanTheKernelHolds) {
  Pair pair = connectedPair();
  std::vector<uint8_t> sent(32 << 20);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<uint8_t>(i * 7 + i / 251);
  std::vector<uint8_t> got;
  std::thread reader([&] {
    std::vector<uint8_t> chunk(1 << 20);
    while (got.size() < sent.size()) {
      ASSERT_TRUE(waitReadable(pair.server, deadlineIn(seconds(20))).value());
      auto n = receiveSome(pair.server, chunk.data(), chunk.size());
      ASSERT_TRUE(n.ok());
      got.insert(got.end(), chunk.begin(), chunk.begin() + static_cast<ptrdiff_t>(n.value()));
    }
  });
  EXPECT_TRUE(sendAll(pair.client, sent, deadlineIn(seconds(20))).ok());
  reader.join();
  EXPECT_TRUE(sent == got);
}

TEST(Socket, SendingToOneWhoDoesNotReadEnds) {
  Pair pair = connectedPair();
  auto sent = sendAll(pair.client, std::vector<uint8_t>(64 << 20), deadlineIn(milliseconds(50)));
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().message, "it takes no more data");
}

TEST(Socket, ALeaverIsAnErrorAndNoSignal) {
  Pair pair = connectedPair();
  pair.server = Socket();
  ASSERT_TRUE(waitReadable(pair.client, deadlineIn(seconds(5))).value());
  uint8_t byte;
  EXPECT_FALSE(receiveSome(pair.client, &byte, 1).ok());
  bool failed = false;  // SIGPIPE would end this process
  for (int i = 0; i < 100 && !failed; ++i) {
    failed = !sendAll(pair.client, std::vector<uint8_t>(1000), deadlineIn(seconds(5))).ok();
  }
  EXPECT_TRUE(failed);
}

TEST(Socket, ShutdownWakesAWaiter) {
  Pair pair = connectedPair();
  std::thread waiter([&] {
    auto ready = waitReadable(pair.client, deadlineIn(seconds(20)));
    EXPECT_TRUE(ready.ok() && ready.value());
  });
  pair.client.shutdown();
  waiter.join();
}

TEST(Socket, DescriptorsCloseOnExec) {
  auto listener = listenOn(loopback());
  ASSERT_TRUE(listener.ok());
  EXPECT_TRUE(fcntl(listener.value().fd(), F_GETFD) & FD_CLOEXEC);
  Pair pair = connectedPair();
  EXPECT_TRUE(fcntl(pair.client.fd(), F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(fcntl(pair.server.fd(), F_GETFD) & FD_CLOEXEC);
}

TEST(Socket, ConnectingToADeadPortFailsAndNamesIt) {
  Endpoint dead;
  {
    auto listener = listenOn(loopback());
    ASSERT_TRUE(listener.ok());
    dead = localEndpoint(listener.value());
  }
  auto connected = connectTo(dead, deadlineIn(seconds(20)));
  ASSERT_FALSE(connected.ok());
  EXPECT_NE(connected.error().message.find(dead.text() + ": Connection refused"), std::string::npos)
      << connected.error().message;
}

TEST(Socket, AnAddressOfNobodyCannotBeListenedOn) {
  auto listener = listenOn(ipv4(203, 0, 113, 1));
  ASSERT_FALSE(listener.ok());
  EXPECT_NE(listener.error().message.find("203.0.113.1"), std::string::npos);
}

// Seconds after which the kernel gives up a connection whose other end is silent, with data on its
// way and without.
std::pair<int, int> patienceOf(const Socket& socket) {
  const auto option = [&](int name) {
    int value = 0;
    socklen_t size = sizeof value;
    EXPECT_EQ(getsockopt(socket.fd(), IPPROTO_TCP, name, &value, &size), 0);
    return value;
  };
  return {option(TCP_USER_TIMEOUT) / 1000,
          option(TCP_KEEPIDLE) + option(TCP_KEEPINTVL) * option(TCP_KEEPCNT)};
}

TEST(Socket, GivesUpASilentHostSoonUnlessItToleratesOutages) {
  const Pair pair = connectedPair();
  for (const Socket* socket : {&pair.client, &pair.server}) {
    EXPECT_LE(patienceOf(*socket).first, 60);
    EXPECT_LE(patienceOf(*socket).second, 60);
    tolerateOutages(*socket);
    EXPECT_GE(patienceOf(*socket).first, 30 * 60);
    EXPECT_GE(patienceOf(*socket).second, 30 * 60);
  }
}

TEST(Socket, LeavesNoDescriptorsBehind) {
  size_t before = openDescriptors();
  for (int i = 0; i < 50; ++i) {
    Pair pair = connectedPair();
    pair.client = std::move(pair.server);
  }
  EXPECT_EQ(openDescriptors(), before);
}

}  // namespace
}  // namespace cinch
