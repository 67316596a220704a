// The server against those who are not ranks, or are bad ones: raw sockets and hand-made bytes.
#include "interpose/agree/agreement_server.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <random>

#include "interpose/agree/agreement_wire.h"
#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

using std::chrono::seconds;

class ServerTest : public AgreementFixture {
 protected:
  static Socket connectRaw(const UniqueId& id) {
    auto connected = connectTo(readStamp(id.data())->server, deadlineIn(seconds(kTestSeconds)));
    EXPECT_TRUE(connected.ok()) << connected.error().message;
    return connected.ok() ? std::move(connected.value()) : Socket();
  }

  static void sendRaw(const Socket& socket, const Bytes& bytes) {
    // The server may have ended the connection already, as it should.
    static_cast<void>(sendAll(socket, bytes, deadlineIn(seconds(kTestSeconds))));
  }

  static Bytes helloFrame(const UniqueId& id, const Hello& hello) {
    return encodeMessage(HelloMessage{readStamp(id.data())->nonce, hello});
  }

  // What the server sends until it ends the connection; fails where it does not.
  static Bytes readToEnd(const Socket& socket) {
    Bytes all;
    uint8_t bytes[4096];
    for (;;) {
      auto ready = waitReadable(socket, deadlineIn(seconds(kTestSeconds)));
      EXPECT_TRUE(ready.ok() && ready.value()) << "the server keeps a bad client";
      if (!ready.ok() || !ready.value()) return all;
      auto n = receiveSome(socket, bytes, sizeof bytes);
      if (!n.ok()) return all;
      all.insert(all.end(), bytes, bytes + n.value());
    }
  }

  static Message readMessage(const Socket& socket, MessageReader& reader) {
    reader.setLimit(kMaxServerBytes);
    for (;;) {
      auto message = reader.next();
      EXPECT_TRUE(message.ok());
      if (!message.ok()) return Acknowledged{};
      if (message.value()) return message.value()->message;
      uint8_t bytes[4096];
      auto ready = waitReadable(socket, deadlineIn(seconds(kTestSeconds)));
      EXPECT_TRUE(ready.ok() && ready.value());
      auto n = receiveSome(socket, bytes, sizeof bytes);
      EXPECT_TRUE(n.ok()) << n.error().message;
      if (!n.ok()) return Acknowledged{};
      reader.append(bytes, n.value());
    }
  }

  // The server still serves: an id of its own, two ranks, a verdict, a vote.
  void expectServing() {
    UniqueId id = newId();
    Ranks ranks = greetAll(id, 2);
    EXPECT_TRUE(verdictOfAll(ranks).compress);
    for (const auto& rank : ranks) EXPECT_TRUE(rank->castVote(1, true).ok());
    for (const auto& rank : ranks) EXPECT_TRUE(allSaidYes(*rank, 1));
  }
};

TEST_F(ServerTest, DropsThoseWhoSpeakSomethingElse) {
  UniqueId id = newId();
  Ranks early = greetAll(id, {makeHello(0, 2)});
  for (const std::string text : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02", "\n"}) {
    Socket stray = connectRaw(id);
    sendRaw(stray, Bytes(text.begin(), text.end()));
    EXPECT_TRUE(readToEnd(stray).empty());
  }
  early.push_back(greet(id, makeHello(1, 2)));
  EXPECT_TRUE(verdictOfAll(early).compress);
}

TEST_F(ServerTest, DropsThoseWhoSayNothingOrNotEnough) {
  UniqueId id = newId();
  Socket silent = connectRaw(id);
  Socket halfway = connectRaw(id);
  Bytes hello = helloFrame(id, makeHello(0, 2));
  hello.resize(hello.size() / 2);
  sendRaw(halfway, hello);
  Socket halfOpen = connectRaw(id);
  ::shutdown(halfOpen.fd(), SHUT_WR);
  EXPECT_TRUE(readToEnd(silent).empty());
  EXPECT_TRUE(readToEnd(halfway).empty());
  EXPECT_TRUE(readToEnd(halfOpen).empty());
  Ranks ranks = greetAll(id, 2);
  EXPECT_TRUE(verdictOfAll(ranks).compress);
}

TEST_F(ServerTest, ASlowDripOfBytesDoesNotExtendTheTime) {
  UniqueId id = newId();
  Socket slow = connectRaw(id);
  Bytes hello = helloFrame(id, makeHello(0, 2));
  bool ended = false;
  for (size_t i = 0; i + 1 < hello.size() && !ended; ++i) {
    sendRaw(slow, {hello[i]});
    auto ready = waitReadable(slow, deadlineIn(std::chrono::milliseconds(20)));
    ended = ready.ok() && ready.value();
  }
  EXPECT_TRUE(ended);
  expectServing();
}

TEST_F(ServerTest, RefusesAWrongNonceWithAReason) {
  UniqueId id = newId();
  Socket stray = connectRaw(id);
  sendRaw(stray, encodeMessage(HelloMessage{readStamp(id.data())->nonce ^ 1, makeHello(0, 2)}));
  MessageReader reader;
  Message answer = readMessage(stray, reader);
  ASSERT_TRUE(std::holds_alternative<Rejected>(answer));
  EXPECT_NE(std::get<Rejected>(answer).reason.find("no longer"), std::string::npos);
  EXPECT_TRUE(readToEnd(stray).empty());
}

TEST_F(ServerTest, RefusesLongHellosFromTheirHeader) {
  UniqueId id = newId();
  Socket stray = connectRaw(id);
  Bytes header = helloFrame(id, makeHello(0, 2));
  header.resize(16);
  header[10] = 1;  // 64 KiB
  sendRaw(stray, header);
  EXPECT_TRUE(readToEnd(stray).empty());
  expectServing();
}

TEST_F(ServerTest, RefusesMessagesOutOfTurn) {
  UniqueId id = newId();
  for (const Message& message : {Message(Vote{1, true}), Message(Initialised{}),
                                 Message(Acknowledged{}), Message(Verdict{})}) {
    Socket stray = connectRaw(id);
    sendRaw(stray, encodeMessage(message));
    EXPECT_TRUE(readToEnd(stray).empty());
  }
  // A rank that breaks the rules after its hello has left; the other is told.
  Socket bad = connectRaw(id);
  sendRaw(bad, helloFrame(id, makeHello(0, 3)));
  MessageReader reader;
  ASSERT_TRUE(std::holds_alternative<Acknowledged>(readMessage(bad, reader)));
  Ranks ranks = greetAll(id, {makeHello(1, 3), makeHello(2, 3)});
  readMessage(bad, reader);  // all are here: the verdict
  sendRaw(bad, encodeMessage(Commit{}));
  readToEnd(bad);
  for (const auto& rank : ranks) ASSERT_TRUE(rank->castVote(1, true).ok());
  for (const auto& rank : ranks) EXPECT_FALSE(allSaidYes(*rank, 1));
}

// The reader is busy with something else until it is told to go on.
class BusyReader final : public ControlReader::Connection {
 public:
  bool onReadable() override {
    isBusy_ = true;
    while (!mayGoOn_) std::this_thread::yield();
    return false;
  }
  void onWritable() override {}
  void onTick() override {}
  void onLost(const char*) override {}

  void awaitBusy() const {
    while (!isBusy_) std::this_thread::yield();
  }
  void goOn() { mayGoOn_ = true; }

 private:
  std::atomic<bool> isBusy_{false}, mayGoOn_{false};
};

// A server that ends once it has answered: what it has sent is there, however late it is read, and
// whoever finds out first by sending something.
TEST_F(ServerTest, ItsAnswerOutlivesItWhereItHasNotBeenReadYet) {
  UniqueId id = newId();
  Ranks ranks = greetAll(id, {makeHello(0, 3), makeHello(1, 3)});
  const auto busy = std::make_shared<BusyReader>();
  const Socket event(eventfd(1, EFD_CLOEXEC));
  ASSERT_TRUE(ControlReader::ofProcess().value()->add(event.fd(), busy).ok());
  busy->awaitBusy();
  Socket last = connectRaw(id);
  sendRaw(last, helloFrame(id, makeHello(2, 3)));
  MessageReader reader;
  while (!std::holds_alternative<Verdict>(readMessage(last, reader))) {
  }
  server_.reset();
  while (ranks[0]->castVote(1, true).ok()) std::this_thread::yield();
  EXPECT_FALSE(ranks[1]->castVote(1, true).ok()) << "they share the connection";
  busy->goOn();
  for (const auto& rank : ranks) {
    const auto verdict = rank->awaitVerdict(kTestSeconds);
    ASSERT_TRUE(verdict.ok()) << verdict.error().message;
    EXPECT_TRUE(verdict.value().compress);
  }
}

TEST_F(ServerTest, AFloodOfStrangersMakesTheOldestGiveWay) {
  limits_.maxStrangers = 8;
  limits_.helloTime = seconds(1000);
  startServer();
  UniqueId id = newId();
  std::vector<Socket> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(connectRaw(id));
  for (size_t i = 0; i < 32; ++i) EXPECT_TRUE(readToEnd(strangers[i]).empty());
  Ranks ranks = greetAll(id, 4);
  EXPECT_TRUE(verdictOfAll(ranks).compress);
}

// Each has sent its hello when the next one comes, whether the server has read it or not.
TEST_F(ServerTest, AFloodOfRanksIsNoneOfStrangers) {
  limits_.maxStrangers = 1;
  startServer();
  constexpr int kRanks = 200;
  const UniqueId id = newId();
  std::vector<Socket> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(connectRaw(id));
    sendRaw(ranks.back(), helloFrame(id, makeHello(rank, kRanks)));
  }
  for (const Socket& rank : ranks) {
    MessageReader reader;
    EXPECT_TRUE(std::holds_alternative<Acknowledged>(readMessage(rank, reader)));
    const Message verdict = readMessage(rank, reader);
    ASSERT_TRUE(std::holds_alternative<Verdict>(verdict));
    EXPECT_TRUE(std::get<Verdict>(verdict).compress);
  }
}

// Threads of one process that greet at once share a connection.
TEST_F(ServerTest, AHelloThatIsTurnedAwayTakesNoOtherWithIt) {
  const UniqueId id = newId();
  const Socket process = connectRaw(id);
  const HelloMessage wrong{readStamp(id.data())->nonce ^ 1, makeHello(0, 2)};
  const HelloMessage right{readStamp(id.data())->nonce, makeHello(0, 1)};
  Bytes both = encodeMessage(wrong, 1);
  const Bytes second = encodeMessage(right, 2);
  both.insert(both.end(), second.begin(), second.end());
  sendRaw(process, both);
  MessageReader reader;
  EXPECT_TRUE(std::holds_alternative<Rejected>(readMessage(process, reader)));
  EXPECT_TRUE(std::holds_alternative<Acknowledged>(readMessage(process, reader)));
  EXPECT_TRUE(std::holds_alternative<Verdict>(readMessage(process, reader)));
}

// It becomes a stranger, of whom there are too many and it is the oldest, in the middle of what it
// has sent.
TEST_F(ServerTest, WhoLeavesAndJoinsAmongTooManyStrangersStays) {
  limits_.maxStrangers = 1;
  limits_.helloTime = seconds(1000);
  startServer();
  const UniqueId id = newId();
  const Socket process = connectRaw(id);
  sendRaw(process, helloFrame(id, makeHello(0, 3)));
  MessageReader reader;
  EXPECT_TRUE(std::holds_alternative<Acknowledged>(readMessage(process, reader)));
  const Socket silent = connectRaw(id);
  Bytes frames = encodeMessage(Leave{}, 1);
  for (int rank : {1, 2}) {
    const HelloMessage hello{readStamp(id.data())->nonce, makeHello(rank, 3)};
    const Bytes frame = encodeMessage(hello, static_cast<Channel>(rank + 1));
    frames.insert(frames.end(), frame.begin(), frame.end());
    const Bytes leave = encodeMessage(Leave{}, static_cast<Channel>(rank + 1));
    if (rank == 1) frames.insert(frames.end(), leave.begin(), leave.end());
  }
  sendRaw(process, frames);
  for (int rank : {1, 2}) {
    const Message answer = readMessage(process, reader);
    EXPECT_FALSE(std::holds_alternative<Verdict>(answer)) << rank;
  }
  expectServing();
}

TEST_F(ServerTest, WhoHasLeftIsAStrangerAgain) {
  const UniqueId id = newId();
  const Socket process = connectRaw(id);
  sendRaw(process, helloFrame(id, makeHello(0, 2)));
  sendRaw(process, encodeMessage(Leave{}));
  MessageReader reader;
  EXPECT_TRUE(std::holds_alternative<Acknowledged>(readMessage(process, reader)));
  EXPECT_TRUE(readToEnd(process).empty());
}

TEST_F(ServerTest, FuzzedConversationsDisturbNobody) {
  UniqueId watched = newId();
  Ranks ranks = greetAll(watched, {makeHello(0, 2)});
  std::mt19937 random(31);
  UniqueId id = newId();
  for (int round = 0; round < 300; ++round) {
    Bytes stream = helloFrame(id, makeHello(static_cast<int>(random() % 3), 3));
    for (const Message& message :
         {Message(Initialised{{loopback()}, {}}), Message(Vote{1, true})}) {
      Bytes frame = encodeMessage(message);
      stream.insert(stream.end(), frame.begin(), frame.end());
    }
    for (unsigned flips = random() % 4; flips > 0; --flips) {
      stream[random() % stream.size()] = static_cast<uint8_t>(random());
    }
    stream.resize(random() % (stream.size() + 1));
    sendRaw(connectRaw(id), stream);
    if (round % 20 == 0) id = newId();
  }
  ranks.push_back(greet(watched, makeHello(1, 2)));
  EXPECT_TRUE(verdictOfAll(ranks).compress);
  expectServing();
}

TEST_F(ServerTest, LeavesNoDescriptorsBehind) {
  const size_t serving = settledDescriptors();
  for (int i = 0; i < 20; ++i) {
    UniqueId id = newId();
    Socket stray = connectRaw(id);
    sendRaw(stray, {'x'});
    readToEnd(stray);
    Ranks ranks = greetAll(id, 3);
    EXPECT_TRUE(verdictOfAll(ranks).compress);
  }
  // The server closes its ends when it sees the ranks' leaving.
  Deadline deadline = deadlineIn(seconds(kTestSeconds));
  while (openDescriptors() > serving && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(openDescriptors(), serving);
  server_.reset();
  EXPECT_EQ(openDescriptors(), serving - 3) << "listener, epoll, eventfd";
}

TEST_F(ServerTest, ForgetsTheOldestUnusedIdBeyondItsLimit) {
  limits_.maxIds = 3;
  startServer();
  UniqueId used = newId();
  Ranks ranks = greetAll(used, {makeHello(0, 2)});
  UniqueId oldest = newId();
  UniqueId middle = newId();
  UniqueId newest = newId();
  auto refused = Agreement::greet(oldest.data(), makeHello(0, 2), kTestSeconds);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("no longer"), std::string::npos);
  auto middleRank = greet(middle, makeHello(0, 2));
  auto newestRank = greet(newest, makeHello(0, 2));
  UniqueId none = {};
  EXPECT_FALSE(server_->serve(none.data()).ok()) << "all are in use";
  EXPECT_FALSE(hasAgreementStamp(none.data()));
  ranks.push_back(greet(used, makeHello(1, 2)));
  EXPECT_TRUE(verdictOfAll(ranks).compress);
}

// Says hello for (ordinal 0, part 0) of the session `parent`, whatever that is.
class ChildHelloTest : public ServerTest {
 protected:
  static Message answerTo(const UniqueId& id, const HelloMessage& hello) {
    Socket socket = connectRaw(id);
    sendRaw(socket, encodeMessage(hello));
    MessageReader reader;
    return readMessage(socket, reader);
  }
  static bool isRejection(const Message& answer, const std::string& reason) {
    const Rejected* rejected = std::get_if<Rejected>(&answer);
    return rejected != nullptr && rejected->reason.find(reason) != std::string::npos;
  }
  static uint64_t nonceOf(const UniqueId& id) { return readStamp(id.data())->nonce; }
};

TEST_F(ChildHelloTest, AParentMustBeInUseHere) {
  UniqueId used = newId();
  UniqueId unused = newId();
  Ranks ranks = greetAll(used, 2);
  for (uint64_t parent : {nonceOf(unused), nonceOf(used) ^ 1}) {
    HelloMessage hello{childNonce(parent, 0, 0), makeHello(0, 2), parent};
    EXPECT_TRUE(isRejection(answerTo(used, hello), "is not, or no longer, in use"));
  }
  EXPECT_TRUE(verdictOfAll(ranks).compress);
}

TEST_F(ChildHelloTest, AParentOfAnotherServerIsForeign) {
  auto elsewhere = AgreementServer::start(loopback(), limits_);
  ASSERT_TRUE(elsewhere.ok());
  UniqueId foreign = {};
  ASSERT_TRUE(elsewhere.value()->serve(foreign.data()).ok());
  Ranks there = greetAll(foreign, 2);
  Ranks here = greetAll(newId(), 2);
  HelloMessage hello{childNonce(nonceOf(foreign), 0, 0), makeHello(0, 2), nonceOf(foreign)};
  EXPECT_TRUE(isRejection(answerTo(newId(), hello), "no longer, in use"));
  EXPECT_TRUE(verdictOfAll(here).compress && verdictOfAll(there).compress);
}

TEST_F(ChildHelloTest, AChildKeepsItsParentAndAnIdHasNone) {
  UniqueId first = newId();
  UniqueId second = newId();
  Ranks firstRanks = greetAll(first, 2);
  Ranks secondRanks = greetAll(second, 2);
  auto child = greetChild(*firstRanks[0], 0, 0, makeHello(0, 2));
  HelloMessage adopted{childNonce(nonceOf(first), 0, 0), makeHello(1, 2), nonceOf(second)};
  EXPECT_TRUE(isRejection(answerTo(first, adopted), "not, or no longer, in use"));
  adopted.parent = kNoParent;
  EXPECT_TRUE(isRejection(answerTo(first, adopted), "not, or no longer, in use"));
  HelloMessage asChild{nonceOf(second), makeHello(1, 2), nonceOf(first)};
  EXPECT_TRUE(isRejection(answerTo(first, asChild), "not, or no longer, in use"));
}

TEST_F(ChildHelloTest, WhoMakesNoSenseBeginsNothing) {
  limits_.maxIds = 3;
  startServer();
  UniqueId id = newId();
  Ranks ranks = greetAll(id, 2);
  UniqueId unused = newId();  // the first to give way where there is no room
  for (int part = 0; part < 50; ++part) {
    HelloMessage hello{childNonce(nonceOf(id), 0, part), makeHello(5, 2), nonceOf(id)};
    EXPECT_TRUE(isRejection(answerTo(id, hello), "there is no rank 5 of 2"));
  }
  EXPECT_TRUE(verdictOfAll(greetAll(unused, 2)).compress);
}

TEST_F(ChildHelloTest, ChildrenBeyondTheLimitAreTurnedAwayOnAllTheirRanks) {
  limits_.maxIds = 2;
  startServer();
  Ranks parents = greetAll(newId(), 2);
  auto kept = greetChild(*parents[0], 0, 0, makeHello(0, 2));
  auto refused = Agreement::greetChild(*parents[0], 1, 0, makeHello(0, 2), kTestSeconds);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("2 communicators of this process are in use"),
            std::string::npos);
  Ranks child;
  child.push_back(std::move(kept));
  child.push_back(greetChild(*parents[1], 0, 0, makeHello(1, 2)));
  EXPECT_TRUE(verdictOfAll(child).compress);
  child.clear();
  // There is room again, but rank 0 has gone on without compression.
  auto late = Agreement::greetChild(*parents[1], 1, 0, makeHello(1, 2), kTestSeconds);
  ASSERT_FALSE(late.ok());
}

TEST_F(ChildHelloTest, AnUnusedIdGivesWayToAChild) {
  limits_.maxIds = 2;
  startServer();
  Ranks parents = greetAll(newId(), 2);
  UniqueId unused = newId();
  Ranks child;
  for (int rank : {0, 1}) {
    child.push_back(greetChild(*parents[static_cast<size_t>(rank)], 0, 0, makeHello(rank, 2)));
  }
  EXPECT_TRUE(verdictOfAll(child).compress);
  EXPECT_FALSE(Agreement::greet(unused.data(), makeHello(0, 2), kTestSeconds).ok());
}

// Were a child's session kept, or its descriptors, there would soon be no room for the next.
TEST_F(ChildHelloTest, ThousandsOfChildrenInTurnTakeNoMoreRoomThanAFew) {
  limits_.maxIds = 8;
  startServer();
  Ranks parents = greetAll(newId(), 2);
  size_t agreed = 0;
  for (uint64_t ordinal = 0; ordinal < 3000; ++ordinal) {
    auto first = greetChild(*parents[0], ordinal, 5, makeHello(0, 2));
    auto second = greetChild(*parents[1], ordinal, 5, makeHello(1, 2));
    ASSERT_TRUE(first && second) << ordinal;
    auto verdict = first->awaitVerdict(kTestSeconds);
    ASSERT_TRUE(verdict.ok() && verdict.value().compress);
    agreed++;
  }
  EXPECT_EQ(agreed, 3000u);
}

TEST_F(ChildHelloTest, WhatIsRememberedOfFailedChildrenIsBounded) {
  limits_.maxFailed = 1;
  startServer();
  Ranks parents = greetAll(newId(), 2);
  for (uint64_t ordinal : {0, 1}) greetChild(*parents[0], ordinal, 0, makeHello(0, 2)).reset();
  expectTurnedAway(*parents[1], 0, 0, makeHello(1, 2));
  // The other one begins anew and waits in vain, but is told no yes.
  auto forgotten = greetChild(*parents[1], 1, 0, makeHello(1, 2));
  ASSERT_TRUE(forgotten);
  auto verdict = forgotten->awaitVerdict(1);
  EXPECT_FALSE(verdict.ok() && verdict.value().compress);
}

}  // namespace
}  // namespace cinch
