// Communicators that rank 0's process takes over from that which made the id; and that two
// processes have one connection, whatever they have to do with each other.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

class TakeoverTest : public AgreementFixture {
 protected:
  void SetUp() override {
    AgreementFixture::SetUp();
    limits_.arrivalTime = std::chrono::milliseconds(500);
    auto started = AgreementServer::start(loopback(), limits_);
    ASSERT_TRUE(started.ok());
    home_ = std::move(started.value());
  }

  static uint64_t nonceOf(const UniqueId& id) { return readStamp(id.data())->nonce; }

  // Ranks of a communicator of which rank 0 offers to serve it at home.
  std::vector<Hello> hellosOf(const UniqueId& id, int nRanks) {
    std::vector<Hello> hellos;
    for (int rank = 0; rank < nRanks; ++rank) hellos.push_back(makeHello(rank, nRanks));
    EXPECT_TRUE(home_->takeOver(nonceOf(id), nRanks).ok());
    hellos[0].server = home_->where();
    return hellos;
  }
  Ranks movedRanks(int nRanks) {
    const UniqueId id = newId();
    Ranks ranks = greetAll(id, hellosOf(id, nRanks));
    EXPECT_TRUE(verdictOfAll(ranks).compress);
    return ranks;
  }

  static void expectWorking(const Ranks& ranks, uint64_t topic) {
    for (const auto& rank : ranks) ASSERT_TRUE(rank->castVote(topic, true).ok());
    for (const auto& rank : ranks) EXPECT_TRUE(allSaidYes(*rank, topic));
    const std::vector<uint8_t> bytes = {1, 2, 3};
    ASSERT_TRUE(ranks[0]->propose(topic + 1000, bytes).ok());
    for (const auto& rank : ranks)
      EXPECT_EQ(awaitDecision(*rank, topic + 1000).value().bytes, bytes);
    for (size_t i = 0; i < ranks.size(); ++i)
      ASSERT_TRUE(ranks[i]->pool(topic + 2000, std::vector<uint64_t>{7 + i}).ok());
    for (const auto& rank : ranks)
      EXPECT_EQ(leastOf(awaitDecision(*rank, topic + 2000).value().bytes),
                std::vector<uint64_t>{7});
    EXPECT_TRUE(ranks.back()->decisions().isDecidedBeforeNext(topic + 3000).value());
  }

  std::unique_ptr<AgreementServer> home_;
};

TEST_F(TakeoverTest, RanksDoWithoutTheProcessThatMadeTheId) {
  Ranks ranks = movedRanks(3);
  server_.reset();
  expectWorking(ranks, 1);
  home_.reset();
  EXPECT_FALSE(awaitDecision(*ranks[1], 2).ok());
}

TEST_F(TakeoverTest, SoDoTheirChildren) {
  Ranks parents = movedRanks(3);
  server_.reset();
  Ranks children;
  for (int rank : {0, 1})
    children.push_back(
        greetChild(*parents[static_cast<size_t>(rank + 1)], 0, 5, makeHello(rank, 2)));
  EXPECT_TRUE(verdictOfAll(children).compress);
  expectWorking(children, 1);
}

TEST_F(TakeoverTest, AChildIsTakenOverToo) {
  Ranks parents = greetAll(newId(), 3);
  ASSERT_TRUE(verdictOfAll(parents).compress);
  std::vector<Hello> hellos = {makeHello(0, 2), makeHello(1, 2)};
  hellos[0].server = Agreement::offerToServe(*parents[1], 0, 5, 2);
  ASSERT_NE(hellos[0].server.address.family, Family::none) << "this process has another server";
  Ranks children;
  for (size_t i = 0; i < 2; ++i) children.push_back(greetChild(*parents[i + 1], 0, 5, hellos[i]));
  ASSERT_TRUE(verdictOfAll(children).compress);
  parents.clear();
  server_.reset();
  expectWorking(children, 1);
}

// No rank's verdict may wait for another rank of the same thread.
TEST_F(TakeoverTest, OneThreadCanSpeakForAllRanksInTurn) {
  const UniqueId id = newId();
  Ranks ranks = greetAll(id, hellosOf(id, 4));
  for (const auto& rank : ranks) ASSERT_TRUE(rank->awaitVerdict(kTestSeconds).value().compress);
  expectWorking(ranks, 1);
}

TEST_F(TakeoverTest, NothingIsDecidedBeforeTheLastHasCome) {
  const UniqueId id = newId();
  Ranks ranks = greetAll(id, hellosOf(id, 3));
  const std::vector<uint8_t> bytes = {9};
  for (const size_t early : {0, 2}) {
    ASSERT_TRUE(ranks[early]->awaitVerdict(kTestSeconds).ok());
    ASSERT_TRUE(ranks[early]->castVote(1, true).ok());
  }
  for (uint64_t topic = 100; topic < 200; ++topic)
    ASSERT_TRUE(ranks[0]->propose(topic, bytes).ok());
  EXPECT_FALSE(awaitDecision(*ranks[2], 199, 0).ok());
  ASSERT_TRUE(ranks[1]->awaitVerdict(kTestSeconds).ok());
  for (const auto& rank : ranks)
    for (uint64_t topic = 100; topic < 200; ++topic)
      EXPECT_EQ(awaitDecision(*rank, topic).value().bytes, bytes);
  ASSERT_TRUE(ranks[1]->castVote(1, true).ok());
  for (const auto& rank : ranks) EXPECT_TRUE(allSaidYes(*rank, 1));
}

TEST_F(TakeoverTest, WhoComesAfterOneHasLeftIsTold) {
  const UniqueId id = newId();
  Ranks ranks = greetAll(id, hellosOf(id, 3));
  ASSERT_TRUE(ranks[0]->awaitVerdict(kTestSeconds).ok());
  ranks[0]->close();
  ASSERT_TRUE(ranks[1]->awaitVerdict(kTestSeconds).ok());
  ASSERT_TRUE(ranks[1]->castVote(1, true).ok());
  EXPECT_FALSE(allSaidYes(*ranks[1], 1));
}

TEST_F(TakeoverTest, WhoDoesNotComeInTimeHasLeft) {
  const UniqueId id = newId();
  Ranks ranks = greetAll(id, hellosOf(id, 3));
  for (const size_t here : {0, 1}) {
    ASSERT_TRUE(ranks[here]->awaitVerdict(kTestSeconds).ok());
    ASSERT_TRUE(ranks[here]->castVote(1, true).ok());
  }
  for (const size_t here : {0, 1}) EXPECT_FALSE(allSaidYes(*ranks[here], 1));
  EXPECT_FALSE(ranks[2]->awaitVerdict(kTestSeconds).ok()) << "it must pass";
}

TEST_F(TakeoverTest, ARankThatCannotGoTherePassesAndTheOthersAreToldNo) {
  const UniqueId id = newId();
  Ranks ranks = greetAll(id, hellosOf(id, 2));
  home_.reset();
  for (const auto& rank : ranks) EXPECT_FALSE(rank->awaitVerdict(kTestSeconds).ok());
}

TEST_F(TakeoverTest, NobodyIsServedWhoHasNotAgreed) {
  const UniqueId id = newId();
  std::vector<Hello> hellos = hellosOf(id, 2);
  hellos[1].settingsHash++;
  const Ranks ranks = greetAll(id, hellos);
  EXPECT_FALSE(verdictOfAll(ranks).compress);
  EXPECT_EQ(home_->where(), hellos[0].server);
}

// It may be gone when a program first uses the communicator.
TEST_F(TakeoverTest, TheProcessThatMadeTheIdMayEndOnceItHasAnswered) {
  const UniqueId id = newId();
  Ranks ranks = greetAll(id, hellosOf(id, 3));
  server_.reset();
  EXPECT_TRUE(verdictOfAll(ranks).compress);
  expectWorking(ranks, 1);
}

// A program that makes rank 0 of one id twice, to try again or by mistake.
TEST_F(TakeoverTest, ASessionThatIsServedIsNotTakenOverAnew) {
  const UniqueId id = newId();
  Ranks ranks = greetAll(id, hellosOf(id, 2));
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  EXPECT_FALSE(home_->takeOver(nonceOf(id), 1).ok());
  home_->forget(nonceOf(id));
  expectWorking(ranks, 1);
}

TEST_F(TakeoverTest, AnOfferThatIsNotTakenUpIsWithdrawn) {
  const UniqueId id = newId();
  Hello hello = makeHello(0, 2);
  const auto offer = [&] {
    hello.server = offerToServe(id.data(), 2);
    return hello.server.address.family != Family::none;
  };
  ASSERT_TRUE(offer());
  EXPECT_FALSE(offer()) << "it stands";
  hello.server = home_->where();  // any
  greet(id, hello).reset();       // destroyed before its first call
  EXPECT_TRUE(offer());
  EXPECT_FALSE(Agreement::greet(id.data(), hello, kTestSeconds).ok()) << "it has left";
  EXPECT_TRUE(offer());
  forgetAgreement(nonceOf(id));
}

TEST_F(TakeoverTest, AnAbortEndsTheWayThere) {
  const auto silent = listenOn(loopback());
  ASSERT_TRUE(silent.ok());
  std::vector<Hello> hellos = {makeHello(0, 2), makeHello(1, 2)};
  hellos[0].server = localEndpoint(silent.value());
  Ranks ranks = greetAll(newId(), hellos);
  std::thread program([&] { EXPECT_FALSE(ranks[0]->awaitVerdict(kTestSeconds).ok()); });
  EXPECT_TRUE(waitReadable(silent.value(), deadlineIn(std::chrono::seconds(kTestSeconds))).value());
  const Deadline begun = Clock::now();
  ranks[0]->close();
  program.join();
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(kTestSeconds / 2));
}

TEST_F(TakeoverTest, StrangersToTheSessionAreTurnedAway) {
  const UniqueId id = newId();
  Ranks ranks = greetAll(id, hellosOf(id, 2));
  UniqueId there = {};
  writeStamp({home_->where(), nonceOf(id)}, there.data());
  for (const auto& [rank, nRanks] : {std::pair(2, 3), std::pair(1, 3), std::pair(0, 1)}) {
    const auto stranger = Agreement::greet(there.data(), makeHello(rank, nRanks), kTestSeconds);
    ASSERT_FALSE(stranger.ok());
    EXPECT_NE(stranger.error().message.find("there is no rank"), std::string::npos);
  }
  EXPECT_TRUE(verdictOfAll(ranks).compress);
  EXPECT_FALSE(Agreement::greet(there.data(), makeHello(1, 2), kTestSeconds).ok()) << "twice";
  expectWorking(ranks, 1);
}

// --- One connection between two processes.

TEST_F(TakeoverTest, ManyCommunicatorsHaveOneConnection) {
  const size_t before = settledDescriptors();
  std::vector<Ranks> communicators;
  for (int i = 0; i < 20; ++i) {
    communicators.push_back(greetAll(newId(), 8));
    ASSERT_TRUE(verdictOfAll(communicators.back()).compress);
  }
  EXPECT_EQ(openDescriptors(), before + 2) << "both of its ends are in this process";
  for (const Ranks& ranks : communicators) expectWorking(ranks, 1);
  communicators.resize(1);
  expectWorking(communicators[0], 2);
  communicators.clear();
  const Deadline deadline = deadlineIn(std::chrono::seconds(kTestSeconds));
  while (openDescriptors() > before && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(openDescriptors(), before);
}

TEST_F(TakeoverTest, ARankThatLeavesTakesNoOtherWithIt) {
  Ranks first = greetAll(newId(), 3), second = greetAll(newId(), 3);
  ASSERT_TRUE(verdictOfAll(first).compress && verdictOfAll(second).compress);
  first[1].reset();
  ASSERT_TRUE(first[0]->castVote(1, true).ok() && first[2]->castVote(1, true).ok());
  EXPECT_FALSE(allSaidYes(*first[0], 1)) << "rank 1 has left";
  expectWorking(second, 1);
}

TEST_F(TakeoverTest, ThreadsThatGreetAtOnceShareAConnection) {
  const size_t before = settledDescriptors();
  const UniqueId id = newId();
  Ranks ranks(16);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 16; ++rank)
    threads.emplace_back(
        [&, rank] { ranks[static_cast<size_t>(rank)] = greet(id, makeHello(rank, 16)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(verdictOfAll(ranks).compress);
  EXPECT_EQ(openDescriptors(), before + 2);
}

// Nobody accepts there, and the kernel takes no more.
class FullListener {
 public:
  FullListener() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_storage address;
    const socklen_t size = toSockaddr({loopback(), 0}, &address);
    EXPECT_EQ(::bind(listener_.fd(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.fd(), 0), 0);
    for (int i = 0; i < 8; ++i)
      if (auto begun = beginConnect(where(), {}); begun.ok())
        waiting_.push_back(std::move(begun.value()));
  }
  Endpoint where() const { return localEndpoint(listener_); }

 private:
  Socket listener_;
  std::vector<Socket> waiting_;
};

TEST_F(TakeoverTest, AServerThatCannotBeReachedIsTriedOnce) {
  const FullListener full;
  UniqueId id = {};
  writeStamp({full.where(), 5}, id.data());
  const auto first = Agreement::greet(id.data(), makeHello(0, 2), kTestSeconds);
  ASSERT_FALSE(first.ok());
  const Deadline begun = Clock::now();
  for (int i = 0; i < 20; ++i) {
    const auto again = Agreement::greet(id.data(), makeHello(0, 2), kTestSeconds);
    ASSERT_FALSE(again.ok());
    EXPECT_EQ(again.error().message, first.error().message);
  }
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(2));
}

}  // namespace
}  // namespace cinch
