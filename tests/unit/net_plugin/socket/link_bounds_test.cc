// What a peer that proved itself can still not make us keep.
#include <sys/socket.h>

#include "tests/unit/net_plugin/socket/two_networks.h"

namespace cinch::net {
namespace {

class LinkBounds : public TwoNetworks {
 protected:
  // The one flow of a peer that the test itself is.
  void openFlow() {
    open(quickSettings(1));
    invitation = there->invite();
    auto socket = connectTo(invitation.endpoints[0], deadlineIn(std::chrono::seconds(5)));
    ASSERT_TRUE(socket.ok());
    // Does not grow, so that the kernel keeps little; a buffer below the loopback's segments has
    // TCP wait for seconds before it sends into it again.
    const int fixed = 256 << 10;
    setsockopt(socket.value().fd(), SOL_SOCKET, SO_RCVBUF, &fixed, sizeof fixed);
    Hello hello;
    hello.flows = 1;
    hello.from = randomBytes16();
    hello.to = invitation.process;
    FlowOpening opening(std::move(socket.value()), hello, Key{});
    FlowOpening::Step step = FlowOpening::Step::waiting;
    runUntil([&] { return (step = opening.advance()) != FlowOpening::Step::waiting; }, "a flow");
    ASSERT_EQ(step, FlowOpening::Step::done);
    runUntil([&] { return there->links().size() == 1; }, "the link");
    flow = opening.takeSocket();
  }

  void say(const std::vector<uint8_t>& bytes) {
    size_t sent = 0;
    runUntil(
        [&] {
          const auto some = sendSome(flow, bytes.data() + sent, bytes.size() - sent);
          sent += some.ok() ? some.value() : bytes.size() - sent;  // it was closed
          return sent == bytes.size();
        },
        "all that is said");
  }

  Invitation invitation;
  Socket flow;
};

TEST_F(LinkBounds, DropsAnswersThatNobodyReads) {
  openFlow();
  if (HasFatalFailure()) return;
  const auto ping = encodeRecord({.type = RecordType::ping});
  constexpr size_t kBytes = 400000 * kRecordBytes;
  std::vector<uint8_t> pings;
  while (pings.size() < kBytes) pings.insert(pings.end(), ping.begin(), ping.end());
  say(pings);
  // Now they are read: what comes is whole, and far less than was asked for. It comes in bursts.
  constexpr auto kLongestPause = std::chrono::milliseconds(500);
  std::vector<uint8_t> bytes(1 << 16);
  size_t got = 0;
  Clock::time_point last = Clock::now();
  runUntil(
      [&] {
        const size_t n = receiveSome(flow, bytes.data(), bytes.size()).value();
        got += n;
        if (n > 0) last = Clock::now();
        return got % kRecordBytes == 0 && Clock::now() - last > kLongestPause;
      },
      "whole answers");
  EXPECT_GT(got, 0u);
  EXPECT_LT(got, kBytes / 2);
}

}  // namespace
}  // namespace cinch::net
