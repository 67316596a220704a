#include "net_plugin/socket/link.h"

#include <algorithm>

#include "tests/unit/net_plugin/socket/two_networks.h"

namespace cinch::net {
namespace {

class LinkTest : public TwoNetworks {
 protected:
  // Sends messages of these sizes, the buffers posted before or after, and checks every byte.
  void exchange(SendEnd& send, ReceiveEnd& receive, const std::vector<size_t>& sizes,
                bool postsFirst) {
    std::vector<std::vector<char>> sent, got;
    std::vector<std::shared_ptr<OutgoingMessage>> outgoing;
    std::vector<std::shared_ptr<IncomingMessage>> incoming;
    for (const size_t size : sizes) {
      sent.push_back(randomBytes(size, static_cast<uint32_t>(size + sent.size())));
      got.emplace_back(size + 77, 'x');
    }
    const auto postAll = [&] {
      for (auto& buffer : got) incoming.push_back(post(receive, buffer));
    };
    if (postsFirst) postAll();
    for (const auto& bytes : sent) outgoing.push_back(post(send, bytes));
    for (int i = 0; i < 20; ++i) step();
    if (!postsFirst) postAll();
    for (size_t i = 0; i < sizes.size(); ++i) {
      runUntil([&] { return hasEnded(outgoing[i]) && hasEnded(incoming[i]); }, "a message");
      ASSERT_EQ(outgoing[i]->outcome, Outcome::done);
      ASSERT_EQ(incoming[i]->outcome, Outcome::done);
      ASSERT_EQ(incoming[i]->total(), sizes[i]);
      ASSERT_TRUE(std::equal(sent[i].begin(), sent[i].end(), got[i].begin())) << "message " << i;
      ASSERT_EQ(got[i][sizes[i]], 'x') << "written behind message " << i;
    }
  }
};

const std::vector<size_t> kSizes = {0,     1,     8,      4096,    16384,   16385,   32767, 32768,
                                    32769, 65536, 100000, 1 << 20, 3000001, 5 << 20, 0,     7};

TEST_F(LinkTest, MovesMessagesOfAllSizes) {
  for (const int nFlows : {1, 2, 4, 16}) {
    for (const bool postsFirst : {true, false}) {
      open(quickSettings(nFlows));
      SendEnd send;
      ReceiveEnd receive;
      connect(&send, &receive);
      if (HasFatalFailure()) return;
      exchange(send, receive, kSizes, postsFirst);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(LinkTest, SharesItsFlowsAmongConnectionsOfBothDirections) {
  open(quickSettings(4));
  constexpr int kConnections = 6;
  SendEnd sends[kConnections];
  ReceiveEnd receives[kConnections];
  for (int i = 0; i < kConnections; ++i) {
    connect(&sends[i], &receives[i]);
    if (HasFatalFailure()) return;
    std::swap(here, there);
  }
  EXPECT_EQ(here->links().size(), 1u);
  EXPECT_EQ(there->links().size(), 1u);
  for (int i = 0; i < kConnections; ++i) exchange(sends[i], receives[i], kSizes, i % 2 == 0);
}

TEST_F(LinkTest, TakesNoMoreThanItsRequests) {
  open(quickSettings(2));
  SendEnd send;
  ReceiveEnd receive;
  connect(&send, &receive);
  if (HasFatalFailure()) return;
  const std::vector<char> bytes = randomBytes(100, 1);
  std::vector<char> buffer(100);
  for (int i = 0; i < kMaxRequests; ++i) {
    ASSERT_NE(post(send, bytes), nullptr);
    ASSERT_NE(post(receive, buffer), nullptr);
  }
  // Nothing has moved yet.
  EXPECT_EQ(post(send, bytes), nullptr);
  EXPECT_EQ(post(receive, buffer), nullptr);
}

TEST_F(LinkTest, RefusesWhatDoesNotFit) {
  for (const size_t size : {100, 100000}) {
    open(quickSettings(2));
    SendEnd send;
    ReceiveEnd receive;
    connect(&send, &receive);
    if (HasFatalFailure()) return;
    std::vector<char> buffer(size - 1, 'x');
    const auto incoming = post(receive, buffer);
    const std::vector<char> bytes = randomBytes(size, 1);
    const auto outgoing = post(send, bytes);
    runUntil([&] { return hasEnded(incoming) && hasFailed(send); }, "the refusal");
    EXPECT_EQ(incoming->outcome, Outcome::failed);
    EXPECT_EQ(outgoing->outcome, outgoing->isCopy() ? Outcome::done : Outcome::failed);
    EXPECT_EQ(receive.link->errorOf(*receive.channel).status, Status::invalidUsage);
    EXPECT_NE(send.link->errorOf(*send.channel).message.find("truncated"), std::string::npos);
    EXPECT_EQ(buffer, std::vector<char>(size - 1, 'x'));
  }
}

TEST_F(LinkTest, EndsTheOtherSidesMessagesWhenOneCloses) {
  open(quickSettings(2));
  SendEnd send;
  ReceiveEnd receive;
  connect(&send, &receive);
  if (HasFatalFailure()) return;
  std::vector<char> buffer(1000);
  const auto incoming = post(receive, buffer);
  send.link->close(send.channel);
  runUntil([&] { return hasEnded(incoming); }, "the news");
  EXPECT_EQ(incoming->outcome, Outcome::failed);
  EXPECT_EQ(receive.link->errorOf(*receive.channel).status, Status::remoteError);
  receive.link->close(receive.channel);
  // The link serves on.
  SendEnd again;
  ReceiveEnd other;
  connect(&again, &other);
  if (HasFatalFailure()) return;
  exchange(again, other, kSizes, true);
  EXPECT_EQ(here->links().size(), 1u);
}

TEST_F(LinkTest, DeliversShortMessagesOfAConnectionThatIsClosed) {
  open(quickSettings(3));
  SendEnd send;
  ReceiveEnd receive;
  connect(&send, &receive);
  if (HasFatalFailure()) return;
  constexpr int kMessages = 6;
  const std::vector<char> bytes = randomBytes(kEagerBytes, 1);
  for (int i = 0; i < kMessages; ++i) {
    std::vector<char> mine = bytes;
    const auto outgoing = post(send, mine);
    ASSERT_EQ(outgoing->outcome, Outcome::done);
    std::fill(mine.begin(), mine.end(), 'x');  // it is ours again
  }
  send.link->close(send.channel);
  EXPECT_TRUE(send.link->hasChannels()) << "what was sent is not there yet";
  std::vector<std::vector<char>> got(kMessages + 1, std::vector<char>(kEagerBytes));
  for (int i = 0; i < kMessages; ++i) {
    const auto incoming = post(receive, got[i]);
    if (i % 2 == 0) runUntil([&] { return hasEnded(incoming); }, "a message");
  }
  const auto last = post(receive, got.back());
  runUntil([&] { return hasEnded(last); }, "the end");
  EXPECT_EQ(last->outcome, Outcome::failed);
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(got[i], bytes) << "message " << i;
  runUntil(
      [&] {
        here->tick();
        return !send.link->hasChannels();
      },
      "the end at the sender");
}

TEST_F(LinkTest, DeliversWhatIsInFrontOfALongMessageThatIsGivenUp) {
  open(quickSettings(2));
  SendEnd send;
  ReceiveEnd receive;
  connect(&send, &receive);
  if (HasFatalFailure()) return;
  const std::vector<char> small = randomBytes(100, 1);
  const std::vector<char> large = randomBytes(1 << 20, 2);
  post(send, small);
  const auto givenUp = post(send, large);
  post(send, small);
  send.link->close(send.channel);
  EXPECT_EQ(givenUp->outcome, Outcome::failed);
  std::vector<std::vector<char>> got(3, std::vector<char>(1 << 20));
  std::vector<std::shared_ptr<IncomingMessage>> incoming;
  for (auto& buffer : got) incoming.push_back(post(receive, buffer));
  runUntil(
      [&] {
        return std::all_of(incoming.begin(), incoming.end(), hasEnded<decltype(incoming[0])>);
      },
      "the end");
  EXPECT_EQ(incoming[0]->outcome, Outcome::done);
  EXPECT_TRUE(std::equal(small.begin(), small.end(), got[0].begin()));
  EXPECT_EQ(incoming[1]->outcome, Outcome::failed);
  EXPECT_EQ(incoming[2]->outcome, Outcome::failed) << "it would be taken for the one before";
}

TEST_F(LinkTest, SendsAShortMessageAgainThatNobodyAcknowledges) {
  open(quickSettings(1));
  SendEnd send;
  ReceiveEnd receive;
  connect(&send, &receive);
  if (HasFatalFailure()) return;
  const auto nSent = [&] { return send.link->figures().flows[0].counters.chunks; };
  const auto pumpHere = [&] {
    while (send.link->pump()) {
    }
  };
  const std::vector<char> bytes = randomBytes(100, 1);
  post(send, bytes);
  pumpHere();
  ASSERT_EQ(nSent(), 1u);
  const Clock::time_point now = Clock::now();
  send.link->look(now);
  pumpHere();
  ASSERT_EQ(nSent(), 1u) << "there was no time for an answer";
  send.link->look(now + std::chrono::milliseconds(1500));
  pumpHere();
  EXPECT_EQ(nSent(), 2u);
  std::vector<char> first(100), second(100);
  const auto incoming = post(receive, first);
  const auto next = post(receive, second);
  runUntil([&] { return hasEnded(incoming) && !send.channel->hasCopies(); }, "the answer");
  EXPECT_EQ(first, bytes);
  EXPECT_FALSE(hasEnded(next)) << "it was taken for a message of its own";
}

// What the kernel has is not lost because an answer to it cannot be written any more.
TEST_F(LinkTest, ReadsWhatCameBeforeThePeerLeft) {
  open(quickSettings(1));
  SendEnd send;
  ReceiveEnd receive;
  connect(&send, &receive);
  if (HasFatalFailure()) return;
  const std::vector<char> bytes = randomBytes(3000, 1);
  constexpr int kMessages = 4;
  for (int i = 0; i < kMessages; ++i) post(send, bytes);
  while (send.link->pump()) {
  }
  send = {};
  here.reset();  // and with it the sockets
  std::vector<std::vector<char>> got(kMessages, std::vector<char>(3000));
  for (int i = 0; i < kMessages; ++i) {
    const auto incoming = post(receive, got[i]);
    receive.link->flush(std::chrono::milliseconds(1));
    while (!hasEnded(incoming)) receive.link->pump();
    ASSERT_EQ(incoming->outcome, Outcome::done) << "message " << i;
    ASSERT_EQ(got[i], bytes);
  }
}

TEST_F(LinkTest, FailsWhenThePeerIsGone) {
  open(quickSettings(3));
  SendEnd send;
  ReceiveEnd receive;
  connect(&send, &receive);
  if (HasFatalFailure()) return;
  const std::vector<char> bytes = randomBytes(1 << 20, 1);
  const auto outgoing = post(send, bytes);
  receive = {};
  there.reset();
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while (!hasEnded(outgoing) && Clock::now() < deadline) {
    here->tick();
    send.link->pump();
  }
  ASSERT_EQ(outgoing->outcome, Outcome::failed);
  const Error error = send.link->errorOf(*send.channel);
  EXPECT_EQ(error.status, Status::remoteError);
  EXPECT_NE(error.message.find("127.0.0.1"), std::string::npos) << error.message;
}

// The rest of a chunk that is half on its way must not be filled up with something else.
TEST_F(LinkTest, NeverDeliversWhatTheSenderGaveUp) {
  int nFailed = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SocketSettings settings = quickSettings(1 + seed % 3);
    settings.checksum = ChecksumChoice::off;
    open(settings);
    SendEnd send;
    ReceiveEnd receive;
    connect(&send, &receive);
    if (HasFatalFailure()) return;
    const std::vector<char> bytes(4 << 20, 'y');
    std::vector<char> buffer(bytes.size());
    const auto incoming = post(receive, buffer);
    const auto outgoing = post(send, bytes);
    // The receiver reads nothing for a while, so that the kernel takes a part of a chunk.
    for (uint32_t i = 0; i <= seed; ++i) step();
    for (int i = 0; i < 20; ++i) send.link->pump();
    send.link->forget(*send.channel, bytes);
    EXPECT_TRUE(hasEnded(outgoing));
    send.link->close(send.channel);
    runUntil([&] { return hasEnded(incoming); }, "the end");
    nFailed += incoming->outcome == Outcome::failed;
    // All of it may have been on its way already.
    if (incoming->outcome == Outcome::done) {
      EXPECT_EQ(buffer, bytes);
    }
  }
  EXPECT_GT(nFailed, 0);
}

TEST_F(LinkTest, FailsWhereThePeersLinkHasFailed) {
  SocketSettings settings = quickSettings(3);
  settings.timeout = std::chrono::seconds(2);
  open(settings);
  SendEnd send;
  ReceiveEnd receive;
  connect(&send, &receive);
  if (HasFatalFailure()) return;
  const std::vector<char> bytes = randomBytes(1 << 20, 1);
  const auto outgoing = post(send, bytes);
  receive.link->fail(errorf(Status::remoteError, "for a test"));
  runUntil([&] { return hasEnded(outgoing); }, "the news");
  EXPECT_EQ(outgoing->outcome, Outcome::failed);
}

// The peer has dropped all that it knew of the link, and has a new one of that number.
TEST_F(LinkTest, FailsWhereThePeerKnowsNothingOfIt) {
  open(quickSettings(2));
  SendEnd send;
  ReceiveEnd receive;
  connect(&send, &receive);
  if (HasFatalFailure()) return;
  receive.link->fail(errorf(Status::remoteError, "for a test"));
  receive.link->close(receive.channel);
  receive = {};
  const std::vector<char> bytes = randomBytes(100, 1);
  post(send, bytes);
  runUntil([&] { return hasFailed(send); }, "the news");
  EXPECT_FALSE(send.link->post(*send.channel, bytes.data(), bytes.size()).ok());
}

TEST_F(LinkTest, KeepsOutNobodyWhenAllComeAtOnce) {
  open(quickSettings(4));
  constexpr int kPeers = 80;
  std::vector<std::unique_ptr<Network>> peers;
  std::vector<SendEnd> ends;
  std::vector<Invitation> invitations;
  for (int i = 0; i < kPeers; ++i) {
    auto opened = Network::open(quickSettings(4), {{"lo", {Family::ipv4, {127, 0, 0, 1}}, true}});
    ASSERT_TRUE(opened.ok());
    peers.push_back(std::move(opened.value()));
    invitations.push_back(there->invite());
    ends.push_back(peers.back()->connect(invitations.back()));
  }
  for (const auto& peer : peers) peer->tick();  // all connect before anybody is taken in
  const auto allOpen = [&] {
    for (const auto& peer : peers) {
      peer->tick();
      for (const auto& link : peer->links()) link->pump();
    }
    return std::all_of(ends.begin(), ends.end(), [](const SendEnd& end) { return isOpened(end); });
  };
  runUntil(allOpen, "all peers");
  for (const SendEnd& end : ends) EXPECT_FALSE(end.link->hasFailed());
}

}  // namespace
}  // namespace cinch::net
