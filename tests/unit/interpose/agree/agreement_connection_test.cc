#include "interpose/agree/agreement_connection.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>

#include <random>

namespace cinch {
namespace {

// A connection, and its other end, which does not block.
struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    const int size = 4096;
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    other = Socket(fds[1]);
    connection.emplace(Accepted{Socket(fds[0]), {}});
  }
  Bytes read(size_t most) const {
    Bytes bytes(most);
    const ssize_t n = recv(other.fd(), bytes.data(), most, 0);
    bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return bytes;
  }

  Socket other;
  std::optional<AgreementConnection> connection;
};

TEST(AgreementConnection, FramesOfSeveralConnectionsArriveWholeAndInOrder) {
  std::mt19937 random(5);
  std::vector<Pair> pairs(3);
  std::vector<Bytes> read(pairs.size());
  Bytes all;
  for (int turn = 0; turn < 600; ++turn) {
    if (turn < 300) {
      Bytes frame(1 + random() % (random() % 8 == 0 ? 30000 : 60));
      for (uint8_t& byte : frame) byte = static_cast<uint8_t>(random());
      all.insert(all.end(), frame.begin(), frame.end());
      const auto shared = std::make_shared<const Bytes>(std::move(frame));
      for (Pair& pair : pairs) ASSERT_TRUE(pair.connection->send(shared).ok());
    }
    for (size_t i = 0; i < pairs.size(); ++i) {
      const Bytes some = pairs[i].read(random() % 20000 + (turn >= 300 ? 20000 : 0));
      read[i].insert(read[i].end(), some.begin(), some.end());
      ASSERT_TRUE(pairs[i].connection->flush().ok());
    }
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    EXPECT_FALSE(pairs[i].connection->hasOutput());
    EXPECT_EQ(read[i], all);
  }
}

TEST(AgreementConnection, WhatIsKeptForOneThatDoesNotReadIsBounded) {
  Pair pair;
  const auto frame = std::make_shared<const Bytes>(100000);
  int nTaken = 0;
  while (nTaken < 1000 && pair.connection->send(frame).ok()) ++nTaken;
  EXPECT_GT(nTaken, 10);
  EXPECT_LT(nTaken, 100);
  EXPECT_TRUE(pair.connection->hasOutput());
}

}  // namespace
}  // namespace cinch
