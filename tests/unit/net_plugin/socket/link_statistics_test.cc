// What links and networks count, over real sockets.
#include <sys/socket.h>

#include <algorithm>
#include <atomic>

#include "net_plugin/log.h"
#include "tests/unit/net_plugin/socket/two_networks.h"

namespace cinch::net {
namespace {

std::vector<std::string> lines;

FlowCounters totalsOf(const PeerFigures& peer) {
  FlowCounters totals;
  for (const FlowFigures& flow : peer.flows) add(totals, flow.counters);
  return totals;
}

class LinkStatistics : public TwoNetworks {
 protected:
  void SetUp() override {
    lines.clear();
    setLogSink([](LogLevel, const char*, int, const char* text) { lines.push_back(text); });
  }
  void TearDown() override { setLogSink(nullptr); }

  void openAndConnect(int nFlows) {
    open(quickSettings(nFlows));
    connect(&send, &receive);
  }
  void transfer(size_t nBytes) {
    const std::vector<char> bytes = randomBytes(nBytes, 1);
    std::vector<char> got(nBytes);
    const auto incoming = post(receive, got);
    const auto outgoing = post(send, bytes);
    runUntil([&] { return hasEnded(incoming) && hasEnded(outgoing); }, "a message");
    ASSERT_EQ(got, bytes);
  }
  static bool isWhole(const std::shared_ptr<Link>& link) {
    const PeerFigures peer = link->figures();
    return std::all_of(peer.flows.begin(), peer.flows.end(),
                       [](const FlowFigures& flow) { return flow.isOpen; });
  }
  // Kills the connection of the first flow that is there.
  static void cutOne(Link& link) {
    std::vector<std::pair<int, short>> targets;
    link.addPollTargets(&targets);
    ASSERT_FALSE(targets.empty());
    shutdown(targets.front().first, SHUT_RDWR);
  }
  void awaitAllFlows() {
    runUntil([&] { return isWhole(send.link) && isWhole(receive.link); }, "all flows");
  }
  static size_t linesWith(const std::string& part) {
    return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    });
  }

  SendEnd send;
  ReceiveEnd receive;
};

TEST_F(LinkStatistics, BothEndsCountTheSameBytes) {
  openAndConnect(3);
  awaitAllFlows();
  transfer(3 << 20);
  if (HasFatalFailure()) return;
  const auto agree = [&] {
    const PeerFigures mine = send.link->figures(), theirs = receive.link->figures();
    for (size_t i = 0; i < mine.flows.size(); ++i) {
      const FlowFigures &a = mine.flows[i], &b = theirs.flows[i];
      const bool same = a.counters.sentBytes == b.counters.receivedBytes &&
                        a.counters.receivedBytes == b.counters.sentBytes;
      if (!same) return false;
    }
    return true;
  };
  runUntil(agree, "what is on its way");
  const PeerFigures mine = send.link->figures(), theirs = receive.link->figures();
  EXPECT_GE(totalsOf(mine).sentBytes, 3u << 20);
  EXPECT_GE(totalsOf(mine).chunks, (3u << 20) / (32 << 10));
  EXPECT_EQ(totalsOf(theirs).chunks, 0u);
  for (size_t i = 0; i < mine.flows.size(); ++i) {
    EXPECT_EQ(mine.flows[i].local, theirs.flows[i].remote);
    EXPECT_EQ(mine.flows[i].remote, theirs.flows[i].local);
    EXPECT_NE(mine.flows[i].local.find("127.0.0.1:"), std::string::npos);
    EXPECT_GT(mine.flows[i].roundTripUs, 0u);
    EXPECT_EQ(mine.flows[i].counters.openings, 1u);
    EXPECT_EQ(mine.flows[i].counters.losses, 0u);
  }
}

TEST_F(LinkStatistics, CountersOutliveTheirFlow) {
  openAndConnect(2);
  awaitAllFlows();
  transfer(1 << 20);
  if (HasFatalFailure()) return;
  const PeerFigures before = send.link->figures();
  cutOne(*send.link);
  transfer(1 << 20);
  awaitAllFlows();
  if (HasFatalFailure()) return;
  for (const std::shared_ptr<Link>& link : {send.link, receive.link}) {
    EXPECT_EQ(totalsOf(link->figures()).openings, 3u);
    EXPECT_EQ(totalsOf(link->figures()).losses, 1u);
  }
  const PeerFigures after = send.link->figures();
  for (size_t i = 0; i < after.flows.size(); ++i) {
    EXPECT_GE(after.flows[i].counters.sentBytes, before.flows[i].counters.sentBytes) << i;
    EXPECT_GE(after.flows[i].counters.chunks, before.flows[i].counters.chunks) << i;
  }
  EXPECT_GE(totalsOf(after).sentBytes, 2u << 20);
  EXPECT_GE(totalsOf(receive.link->figures()).receivedBytes, 2u << 20);
  EXPECT_NE(after.flows[0].local, before.flows[0].local) << "it is another connection";
}

// A flow that is lost again and again is counted each time, and spoken of for a while.
TEST_F(LinkStatistics, LostFlowsAreCountedWhenTheyAreNoLongerSaid) {
  openAndConnect(2);
  constexpr uint64_t kCuts = 30;
  for (uint64_t i = 0; i < kCuts; ++i) {
    awaitAllFlows();
    if (HasFatalFailure()) return;
    cutOne(*send.link);
    runUntil([&] { return totalsOf(send.link->figures()).losses == i + 1; }, "the loss");
    if (HasFatalFailure()) return;
  }
  const std::string peer = send.link->peer();
  EXPECT_EQ(linesWith("to " + peer + " is lost"), 20u);
  EXPECT_EQ(linesWith("further lost flows to " + peer), 1u);
  EXPECT_FALSE(send.link->hasFailed());
}

TEST_F(LinkStatistics, FiguresOutliveTheirLink) {
  openAndConnect(2);
  transfer(100000);
  if (HasFatalFailure()) return;
  const uint64_t sent = totalsOf(send.link->figures()).sentBytes;
  send.link->fail(errorf(Status::remoteError, "for a test"));
  send.link->close(send.channel);
  send = {};
  runUntil([&] { return here->links().empty(); }, "the end of the link");
  const NetworkFigures figures = here->figures();
  ASSERT_EQ(figures.peers.size(), 1u);
  EXPECT_TRUE(figures.peers[0].isGone);
  EXPECT_EQ(figures.peers[0].error, "for a test");
  EXPECT_GE(totalsOf(figures.peers[0]).sentBytes, sent);
  EXPECT_EQ(figures.forgottenPeers, 0u);
}

// Whoever waits is told by the call that fails; a line of the link's own would be the second.
TEST_F(LinkStatistics, SaysNothingOfAnErrorThatSomebodyWaitsFor) {
  openAndConnect(2);
  awaitAllFlows();
  const std::vector<char> bytes = randomBytes(1 << 20, 1);
  const auto outgoing = post(send, bytes);
  send.link->fail(errorf(Status::remoteError, "for a test"));
  EXPECT_EQ(outgoing->outcome, Outcome::failed);
  EXPECT_EQ(linesWith("for a test"), 0u);
  receive.link->fail(errorf(Status::remoteError, "for a test"));
  EXPECT_EQ(linesWith("for a test"), 1u) << "nobody waits there";
}

TEST_F(LinkStatistics, CountsStrangers) {
  open(quickSettings(2));
  constexpr uint64_t kStrangers = 5;
  const Endpoint target = there->invite().endpoints[0];
  std::vector<Socket> strangers;
  for (uint64_t i = 0; i < kStrangers; ++i) {
    Result<Socket> socket = connectTo(target, deadlineIn(std::chrono::seconds(5)));
    ASSERT_TRUE(socket.ok());
    ASSERT_TRUE(
        sendAll(socket.value(), {'G', 'E', 'T', ' ', '/'}, deadlineIn(std::chrono::seconds(5))));
    strangers.push_back(std::move(socket.value()));
  }
  runUntil([&] { return there->figures().strangers == kStrangers; }, "all strangers");
  EXPECT_TRUE(there->figures().peers.empty());
  EXPECT_EQ(there->figures().device, "lo");
}

TEST_F(LinkStatistics, CountsOpeningsThatFail) {
  open(quickSettings(2));
  Invitation invitation = there->invite();
  there.reset();
  std::swap(here, there);  // step() moves both
  open(quickSettings(2));
  send = here->connect(invitation);
  runUntil([&] { return send.link->hasFailed(); }, "the end");
  const FlowCounters totals = totalsOf(send.link->figures());
  EXPECT_GE(totals.failedOpenings, 4u);
  EXPECT_EQ(totals.openings, 0u);
  EXPECT_EQ(linesWith("cannot be opened"), std::min<size_t>(totals.failedOpenings, 20));
}

}  // namespace
}  // namespace cinch::net
