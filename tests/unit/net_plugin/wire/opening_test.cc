#include "net_plugin/wire/opening.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/net_plugin/wire/wire_support.h"

namespace cinch::net {
namespace {

using Step = FlowOpening::Step;

struct Pair {
  Socket near;
  Socket far;
};

Pair makePair() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  return {Socket(fds[0]), Socket(fds[1])};
}

FlowOpening connecting(Socket socket, const Key& key) {
  return {std::move(socket), sampleHello(), key};
}

FlowOpening listening(Socket socket, const Key& key) {
  return {std::move(socket), kListening, 0x0006, key};
}

void put(const Socket& socket, std::span<const uint8_t> bytes) {
  auto sent = sendSome(socket, bytes.data(), bytes.size());
  ASSERT_TRUE(sent.ok());
  ASSERT_EQ(sent.value(), bytes.size());
}

void put(const Socket& socket, std::string_view text) {
  put(socket, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

std::vector<uint8_t> takeAll(const Socket& socket) {
  std::vector<uint8_t> bytes(1 << 16);
  auto got = receiveSome(socket, bytes.data(), bytes.size());
  bytes.resize(got.ok() ? got.value() : 0);
  return bytes;
}

void expectRefused(FlowOpening& opening, const std::string& why) {
  ASSERT_EQ(opening.advance(), Step::refused);
  EXPECT_NE(opening.error().message.find(why), std::string::npos) << opening.error().message;
  EXPECT_EQ(opening.advance(), Step::refused);
}

// What each side sends in an opening that goes well.
struct Script {
  explicit Script(const Key& key) : connecting(sampleHello(), key), listening(kListening, 6, key) {
    EXPECT_TRUE(listening.takeHello(hello()).ok());
    EXPECT_TRUE(connecting.takeWelcome(copyOf<kWelcomeBytes>(listening.welcome())).ok());
  }
  HelloBytes hello() const { return copyOf<kHelloBytes>(connecting.hello()); }

  ConnectingHandshake connecting;
  ListeningHandshake listening;
};

class Opening : public ::testing::TestWithParam<bool> {
 protected:
  Key shared() const { return GetParam() ? key(1) : Key(); }
};

TEST_P(Opening, EndsWithBothSidesInformed) {
  Pair pair = makePair();
  FlowOpening connector = connecting(std::move(pair.near), shared());
  FlowOpening listener = listening(std::move(pair.far), shared());
  EXPECT_EQ(listener.advance(), Step::waiting);
  EXPECT_FALSE(listener.wantsToWrite());
  EXPECT_EQ(connector.advance(), Step::waiting);
  EXPECT_FALSE(connector.wantsToWrite());
  EXPECT_EQ(listener.advance(), GetParam() ? Step::waiting : Step::done);
  EXPECT_EQ(connector.advance(), Step::done);
  EXPECT_EQ(listener.advance(), Step::done);
  EXPECT_EQ(connector.advance(), Step::done);
  for (FlowOpening* side : {&connector, &listener}) {
    EXPECT_EQ(side->hello(), sampleHello());
    EXPECT_EQ(side->features(), 0x0004);
  }
  EXPECT_EQ(connector.peer(), kListening);
  EXPECT_EQ(listener.peer(), kConnecting);
  const Socket first = connector.takeSocket(), second = listener.takeSocket();
  put(first, "a record");
  EXPECT_EQ(takeAll(second).size(), 8u);
}

// Carries one byte from one socket to the other.
bool relay(const Socket& from, const Socket& to) {
  uint8_t byte;
  auto got = receiveSome(from, &byte, 1);
  if (!got.ok() || got.value() == 0) return false;
  put(to, {&byte, 1});
  return true;
}

TEST_P(Opening, GoesByteByByte) {
  Pair left = makePair(), right = makePair();
  FlowOpening connector = connecting(std::move(left.near), shared());
  FlowOpening listener = listening(std::move(right.near), shared());
  size_t there = 0, back = 0;
  for (bool moved = true; moved;) {
    const Step first = connector.advance(), second = listener.advance();
    ASSERT_NE(first, Step::refused);
    ASSERT_NE(second, Step::refused);
    const bool isThere = relay(left.far, right.far);
    const bool isBack = relay(right.far, left.far);
    there += isThere;
    back += isBack;
    moved = isThere || isBack;
  }
  EXPECT_EQ(connector.advance(), Step::done);
  EXPECT_EQ(listener.advance(), Step::done);
  EXPECT_EQ(there, kHelloBytes + (GetParam() ? kConfirmBytes : 0));
  EXPECT_EQ(back, kWelcomeBytes);
}

TEST_P(Opening, LeavesTheRecordsBehindItInTheSocket) {
  Pair pair = makePair();
  FlowOpening connector = connecting(std::move(pair.near), shared());
  ASSERT_EQ(connector.advance(), Step::waiting);
  ListeningHandshake handshake(kListening, 6, shared());
  ASSERT_TRUE(handshake.takeHello(copyOf<kHelloBytes>(takeAll(pair.far))).ok());
  put(pair.far, handshake.welcome());
  put(pair.far, "records");
  ASSERT_EQ(connector.advance(), Step::done);
  EXPECT_EQ(takeAll(connector.takeSocket()).size(), 7u);
}

TEST_P(Opening, OfAListenerLeavesTheRecordsBehindItInTheSocket) {
  Pair pair = makePair();
  FlowOpening listener = listening(std::move(pair.near), shared());
  ConnectingHandshake handshake(sampleHello(), shared());
  put(pair.far, handshake.hello());
  if (!GetParam()) put(pair.far, "records");
  ASSERT_EQ(listener.advance(), GetParam() ? Step::waiting : Step::done);
  if (GetParam()) {
    ASSERT_TRUE(handshake.takeWelcome(copyOf<kWelcomeBytes>(takeAll(pair.far))).ok());
    put(pair.far, handshake.confirm());
    put(pair.far, "records");
    ASSERT_EQ(listener.advance(), Step::done);
  }
  EXPECT_EQ(takeAll(listener.takeSocket()).size(), 7u);
}

TEST_P(Opening, EndsWhereverThePeerLeaves) {
  const Script script(shared());
  for (size_t n = 0; n < kHelloBytes; ++n) {
    Pair pair = makePair();
    FlowOpening listener = listening(std::move(pair.near), shared());
    put(pair.far, std::span(script.connecting.hello()).first(n));
    ASSERT_EQ(listener.advance(), Step::waiting);
    pair.far = Socket();
    expectRefused(listener, "the connection was closed before the flow was open");
    EXPECT_EQ(listener.error().status, Status::remoteError);
  }
  for (size_t n = 0; n < kWelcomeBytes; ++n) {
    Pair pair = makePair();
    FlowOpening connector = connecting(std::move(pair.near), shared());
    put(pair.far, std::span(script.listening.welcome()).first(n));
    ASSERT_EQ(connector.advance(), Step::waiting);
    takeAll(pair.far);  // or the kernel reports a reset
    pair.far = Socket();
    expectRefused(connector, "its log says why");
  }
}

TEST(OpeningWithKeys, EndsWhereThePeerLeavesInsteadOfConfirming) {
  for (size_t n = 0; n < kConfirmBytes; ++n) {
    Pair pair = makePair();
    FlowOpening listener = listening(std::move(pair.near), key(1));
    ConnectingHandshake handshake(sampleHello(), key(1));
    put(pair.far, handshake.hello());
    ASSERT_EQ(listener.advance(), Step::waiting);
    ASSERT_TRUE(handshake.takeWelcome(copyOf<kWelcomeBytes>(takeAll(pair.far))).ok());
    put(pair.far, handshake.confirm().first(n));
    ASSERT_EQ(listener.advance(), Step::waiting);
    pair.far = Socket();
    expectRefused(listener, "before the flow was open");
  }
}

TEST_P(Opening, RefusesAtTheFirstByteOfAnotherProgram) {
  const std::string_view texts[] = {"G", "SSH-2.0-", "\x16\x03\x01", "CinchNEt", "cinch"};
  for (std::string_view text : texts) {
    Pair pair = makePair();
    FlowOpening listener = listening(std::move(pair.near), shared());
    put(pair.far, text);
    expectRefused(listener, "not a Cinch peer");
    Pair other = makePair();
    FlowOpening connector = connecting(std::move(other.near), shared());
    put(other.far, text);
    expectRefused(connector, "not a Cinch peer");
  }
}

TEST(OpeningWithKeys, NamesWhatIsWrongOnTheSideThatRefuses) {
  const auto refusedBy = [](const Key& theirs, const Key& ours) {
    Pair pair = makePair();
    FlowOpening connector = connecting(std::move(pair.far), theirs);
    EXPECT_EQ(connector.advance(), Step::waiting);
    auto listener = std::make_unique<FlowOpening>(listening(std::move(pair.near), ours));
    const Step first = listener->advance();
    std::string text = first == Step::refused ? listener->error().message : "";
    if (first == Step::refused) listener.reset();
    EXPECT_EQ(connector.advance(), Step::refused);
    return text + "|" + connector.error().message;
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const std::string lacking = refusedBy(Key(), key(1)), extra = refusedBy(key(1), Key());
  EXPECT_TRUE(has(lacking, "it has no key") && has(lacking, "its log says why")) << lacking;
  EXPECT_TRUE(has(extra, "it has a key") && has(extra, "its log says why")) << extra;
  const std::string other = refusedBy(key(1), key(2));
  EXPECT_TRUE(has(other, "|its key differs")) << other;
}

TEST(OpeningWithKeys, RefusesAWrongConfirmation) {
  Pair pair = makePair();
  FlowOpening listener = listening(std::move(pair.near), key(1));
  put(pair.far, Script(key(1)).hello());
  ASSERT_EQ(listener.advance(), Step::waiting);
  put(pair.far, Script(key(1)).connecting.confirm());
  expectRefused(listener, "its key differs");
}

TEST_P(Opening, WaitsWhereTheKernelTakesNoMore) {
  Pair pair = makePair();
  const std::vector<uint8_t> filler(4096, 0xaa);
  size_t filled = 0;
  for (size_t n = 1; n > 0; filled += n) {
    n = sendSome(pair.near, filler.data(), filler.size()).value();
    ASSERT_LT(filled, size_t{64} << 20);
  }
  FlowOpening listener = listening(std::move(pair.near), shared());
  ConnectingHandshake handshake(sampleHello(), shared());
  put(pair.far, handshake.hello());
  ASSERT_EQ(listener.advance(), Step::waiting);
  ASSERT_TRUE(listener.wantsToWrite());
  for (size_t taken = 0; taken < filled;) taken += takeAll(pair.far).size();
  ASSERT_EQ(listener.advance(), GetParam() ? Step::waiting : Step::done);
  EXPECT_TRUE(handshake.takeWelcome(copyOf<kWelcomeBytes>(takeAll(pair.far))).ok());
}

size_t openDescriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  size_t n = 0;
  while (readdir(folder.get()) != nullptr) ++n;
  return n;
}

TEST_P(Opening, OfAThousandStrangersCostsNothing) {
  const size_t before = openDescriptors();
  const std::vector<uint8_t> flood(32 << 10, 'x');
  for (int i = 0; i < 1000; ++i) {
    Pair pair = makePair();
    FlowOpening listener = listening(std::move(pair.near), shared());
    put(pair.far, i % 2 == 0 ? std::span(flood) : std::span(flood).first(1));
    expectRefused(listener, "not a Cinch peer");
    // After at most the bytes of a hello.
    const size_t left = takeAll(listener.takeSocket()).size();
    EXPECT_GE(left, i % 2 == 0 ? flood.size() - kHelloBytes : 0);
  }
  EXPECT_EQ(openDescriptors(), before);
}

TEST_P(Opening, OfManyWhoSendHalfAHelloHoldsLittle) {
  constexpr size_t kStrangers = 200;
  const HelloBytes hello = Script(shared()).hello();
  const size_t before = mallinfo2().uordblks;
  std::vector<FlowOpening> openings;
  std::vector<Socket> strangers;
  for (size_t i = 0; i < kStrangers; ++i) {
    Pair pair = makePair();
    put(pair.far, std::span(hello).first(1 + i % 79));
    openings.push_back(listening(std::move(pair.near), shared()));
    strangers.push_back(std::move(pair.far));
    ASSERT_EQ(openings.back().advance(), Step::waiting);
  }
  EXPECT_LT(mallinfo2().uordblks - before, kStrangers * 2048);
}

INSTANTIATE_TEST_SUITE_P(Keys, Opening, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Shared" : "None"; });

}  // namespace
}  // namespace cinch::net
