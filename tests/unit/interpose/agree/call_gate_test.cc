// Gates over loopback: ranks as threads, and servers of our own making that end at the worst time.
#include "interpose/agree/call_gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>

#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/gate_rounds.h"
#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Gate = std::shared_ptr<CallGate>;

class CallGateTest : public AgreementFixture {
 protected:
  Ranks agreed(int nRanks) {
    Ranks ranks = greetAll(newId(), nRanks);
    EXPECT_TRUE(verdictOfAll(ranks).compress);
    return ranks;
  }

  static std::vector<Gate> openAll(const Ranks& ranks, uint64_t topic) {
    std::vector<Gate> gates;
    for (const auto& rank : ranks) gates.push_back(rank->openGate(topic));
    return gates;
  }

  // Until all of them know that their next call is one of a closed gate.
  static void expectClosedSoon(const std::vector<Gate>& gates) {
    const Deadline deadline = deadlineIn(seconds(kTestSeconds));
    for (const Gate& gate : gates) {
      while (!gate->isClosed() && Clock::now() < deadline) std::this_thread::yield();
      EXPECT_TRUE(gate->isClosed());
    }
  }
};

bool begun(const Gate& gate) {
  auto open = gate->begin();
  EXPECT_TRUE(open.ok()) << open.error().message;
  return open.ok() && open.value();
}

// How many of its next calls are open, at the pace of a program that does something in between.
uint64_t callsUntilClosed(const Gate& gate) {
  const Deadline deadline = deadlineIn(seconds(kTestSeconds));
  uint64_t open = 0;
  for (; begun(gate); ++open) {
    if (Clock::now() > deadline) {
      ADD_FAILURE() << "it stays open";
      break;
    }
    std::this_thread::sleep_for(microseconds(200));
  }
  return open;
}

TEST_F(CallGateTest, ClosesBeforeTheNextCallThoughNoOtherProgramMoves) {
  Ranks ranks = agreed(4);
  const auto gates = openAll(ranks, 1);
  for (const Gate& gate : gates)
    for (int call = 0; call < 3; ++call) EXPECT_TRUE(begun(gate));
  EXPECT_FALSE(gates[2]->isClosed());
  EXPECT_TRUE(gates[2]->close().value());
  EXPECT_TRUE(gates[2]->isClosed());
  EXPECT_TRUE(gates[2]->close().value()) << "it is closed";
  for (const Gate& gate : gates) EXPECT_FALSE(begun(gate));
  for (const Gate& gate : gates) EXPECT_TRUE(gate->close().value());
}

TEST_F(CallGateTest, ARankThatIsAheadKeepsTheCallOpenAndItClosesLater) {
  Ranks ranks = agreed(2);
  const auto gates = openAll(ranks, 1);
  for (int call = 0; call < 10; ++call) EXPECT_TRUE(begun(gates[0]));
  for (int call = 0; call < 3; ++call) EXPECT_TRUE(begun(gates[1]));
  EXPECT_FALSE(gates[1]->close().value());
  for (int call = 3; call < 10; ++call) EXPECT_TRUE(begun(gates[1]));
  const uint64_t open = 10 + callsUntilClosed(gates[0]);
  EXPECT_GE(open, 10 + kFirstMargin);
  EXPECT_EQ(open, 10 + callsUntilClosed(gates[1]));
}

TEST_F(CallGateTest, ARankThatOpensItLaterObeys) {
  Ranks ranks = agreed(3);
  const Gate early = ranks[0]->openGate(1);
  for (int call = 0; call < 5; ++call) EXPECT_TRUE(begun(early));
  EXPECT_TRUE(early->close().value());
  for (size_t rank : {1, 2}) {
    const Gate late = ranks[rank]->openGate(1);
    for (int call = 0; call < 5; ++call) EXPECT_TRUE(begun(late));
    EXPECT_FALSE(begun(late));
    EXPECT_EQ(ranks[rank]->openGate(1), late) << "once per topic";
  }
  EXPECT_TRUE(begun(ranks[1]->openGate(2))) << "another site's";
}

TEST_F(CallGateTest, ATakenBackCallIsMadeAgain) {
  Ranks ranks = agreed(2);
  const auto gates = openAll(ranks, 1);
  EXPECT_TRUE(begun(gates[0]));
  gates[0]->takeBack();
  EXPECT_TRUE(gates[1]->close().value()) << "call 0 has not begun on any rank";
  EXPECT_FALSE(begun(gates[0]));
  gates[0]->takeBack();
  gates[0]->takeBack();
  EXPECT_FALSE(begun(gates[0]));
  EXPECT_FALSE(begun(gates[1]));
}

TEST_F(CallGateTest, ClosesSoonWithoutWaiting) {
  Ranks ranks = agreed(3);
  const auto gates = openAll(ranks, 1);
  for (const Gate& gate : gates) EXPECT_TRUE(begun(gate));
  gates[1]->closeSoon();
  gates[1]->closeSoon();
  const uint64_t open = callsUntilClosed(gates[0]);
  EXPECT_GE(open, kFirstMargin);
  for (size_t i : {1, 2}) EXPECT_EQ(callsUntilClosed(gates[i]), open);
  gates[0]->closeSoon();
  expectClosedSoon(gates);
}

TEST_F(CallGateTest, OneThreadMayDriveAllRanks) {
  Ranks ranks = agreed(5);
  for (uint64_t topic = 0; topic < 50; ++topic) {
    const auto gates = openAll(ranks, topic);
    for (const Gate& gate : gates) EXPECT_TRUE(begun(gate));
    gates[topic % 5]->closeSoon();
    for (const Gate& gate : gates) EXPECT_TRUE(gate->close().ok());
    for (int call = 0; call < 3; ++call) {
      const bool open = begun(gates[0]);
      for (size_t i = 1; i < gates.size(); ++i) ASSERT_EQ(begun(gates[i]), open);
    }
  }
}

TEST_F(CallGateTest, StaysOpenForGoodOnceARankHasLeft) {
  Ranks ranks = agreed(3);
  const auto gates = openAll(ranks, 1);
  for (const Gate& gate : gates) EXPECT_TRUE(begun(gate));
  EXPECT_TRUE(ranks[0]->openGate(2)->close().value());
  ranks[1].reset();
  // Its leaving may not have reached the server, which then still waits for its answer, or has it.
  const bool closed = gates[0]->close().value();
  EXPECT_FALSE(closed);
  EXPECT_FALSE(gates[2]->close().value());
  for (int call = 0; call < 20; ++call) {
    EXPECT_TRUE(begun(gates[0]));
    EXPECT_TRUE(begun(gates[2]));
  }
  EXPECT_FALSE(begun(ranks[2]->openGate(2))) << "the last decision stays in force";
}

TEST_F(CallGateTest, OutlivesItsCommunicator) {
  Ranks ranks = agreed(2);
  const auto gates = openAll(ranks, 1);
  const Gate closed = ranks[0]->openGate(2);
  EXPECT_TRUE(closed->close().value());
  ranks.clear();
  EXPECT_TRUE(begun(gates[0]));
  EXPECT_FALSE(gates[0]->close().value());
  gates[0]->closeSoon();
  EXPECT_FALSE(begun(closed));
}

TEST_F(CallGateTest, TheServersDeathLeavesThingsAsTheyAre) {
  Ranks ranks = agreed(2);
  const auto gates = openAll(ranks, 1);
  const auto others = openAll(ranks, 2);
  EXPECT_TRUE(others[1]->close().value());
  for (const Gate& gate : others) EXPECT_FALSE(begun(gate));
  server_.reset();
  for (const Gate& gate : gates) {
    EXPECT_FALSE(gate->close().value());
    EXPECT_TRUE(begun(gate));
  }
  for (const Gate& gate : others) EXPECT_FALSE(begun(gate));
  EXPECT_TRUE(begun(ranks[0]->openGate(3)));
}

// A server that does what a test tells it.
class FakeServer {
 public:
  FakeServer() : listener_(std::move(listenOn(loopback()).value())) {
    writeStamp({localEndpoint(listener_), 5}, id_.data());
  }

  // A rank that has had a verdict from it.
  std::unique_ptr<Agreement> agreed() {
    auto greeting = std::async(std::launch::async, [&] {
      return Agreement::greet(id_.data(), makeHello(0, 1), kTestSeconds);
    });
    EXPECT_TRUE(waitReadable(listener_, deadlineIn(seconds(kTestSeconds))).value());
    rank_ = std::move(acceptFrom(listener_).value()->socket);
    receive<HelloMessage>();
    send(Acknowledged{});
    send(Verdict{true, "", {1}});
    auto greeted = greeting.get();
    EXPECT_TRUE(greeted.ok());
    EXPECT_TRUE(greeted.value()->awaitVerdict(kTestSeconds).ok());
    return std::move(greeted.value());
  }

  void send(const Message& message) {
    EXPECT_TRUE(sendAll(rank_, encodeMessage(message), deadlineIn(seconds(kTestSeconds))).ok());
  }

  // The next message of this type; those of others are skipped.
  template <class T>
  T receive() {
    reader_.setLimit(kMaxRankBytes);
    for (;;) {
      auto message = reader_.next();
      if (!message.ok()) ADD_FAILURE() << message.error().message;
      if (message.ok() && message.value()) {
        if (const T* found = std::get_if<T>(&message.value()->message)) return *found;
        continue;
      }
      uint8_t bytes[4096];
      auto ready = waitReadable(rank_, deadlineIn(seconds(kTestSeconds)));
      auto n = receiveSome(rank_, bytes, sizeof bytes);
      if (!ready.ok() || !ready.value() || !n.ok()) {
        ADD_FAILURE() << "nothing has come";
        return {};
      }
      reader_.append(bytes, n.value());
    }
  }

  void end() { rank_ = Socket(); }

 private:
  Socket listener_;
  UniqueId id_ = {};
  Socket rank_;
  MessageReader reader_;
};

TEST_F(CallGateTest, APromiseWhoseOutcomeIsLostIsAnErrorAtItsCallOnly) {
  FakeServer server;
  auto rank = server.agreed();
  const Gate gate = rank->openGate(1);
  server.send(ClosePrepare{1, 2});
  EXPECT_EQ(server.receive<ClosePrepared>().openBelow, 0u);
  EXPECT_TRUE(begun(gate));
  EXPECT_TRUE(begun(gate));
  std::atomic<bool> waits{true};
  std::thread program([&] {
    auto third = gate->begin();
    EXPECT_TRUE(waits) << "it had to wait";
    ASSERT_FALSE(third.ok());
    EXPECT_NE(third.error().message.find("the connection ended"), std::string::npos);
  });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(gate->isClosed());
  server.end();
  program.join();
  EXPECT_FALSE(gate->close().ok());
  EXPECT_FALSE(gate->begin().ok()) << "it has not begun";
  gate->takeBack();
  EXPECT_TRUE(begun(gate)) << "call 1 again";
}

TEST_F(CallGateTest, CloseOfTheCommunicatorEndsTheWait) {
  FakeServer server;
  auto rank = server.agreed();
  const Gate gate = rank->openGate(1);
  std::thread closing([&] {
    auto closed = gate->close();
    ASSERT_TRUE(closed.ok()) << "it has promised nothing";
    EXPECT_FALSE(closed.value());
  });
  EXPECT_EQ(server.receive<CloseProposal>().ordinal, 0u);
  rank.reset();
  closing.join();
  EXPECT_TRUE(begun(gate));
}

TEST_F(CallGateTest, AServerThatBreaksTheProtocolIsLeft) {
  for (const Message& bad : {Message(GateClosed{1, 3}), Message(GateClosed{2, 0}),
                             Message(ClosePrepare{1, 7}), Message(CloseProposal{1, 3})}) {
    FakeServer server;
    auto rank = server.agreed();
    const Gate gate = rank->openGate(1);
    server.send(ClosePrepare{1, 4});
    server.receive<ClosePrepared>();
    server.send(bad);
    EXPECT_FALSE(rank->awaitVote(1, kTestSeconds).ok());
    for (int call = 0; call < 4; ++call) EXPECT_TRUE(begun(gate));
    EXPECT_FALSE(gate->begin().ok());
  }
}

TEST_F(CallGateTest, WhatIsRememberedForAProgramIsBounded) {
  FakeServer server;
  auto rank = server.agreed();
  for (uint64_t topic = 0; topic <= kMaxOpenGates; ++topic) {
    server.send(ClosePrepare{topic, 0});
    const bool isLast = topic == kMaxOpenGates;
    ASSERT_EQ(server.receive<ClosePrepared>().openBelow, isLast ? kNeverCloses : 0) << topic;
    if (!isLast) server.send(GateClosed{topic, 0});
  }
  server.send(GateNotClosed{kMaxOpenGates, 0, kNeverCloses});
  EXPECT_FALSE(begun(rank->openGate(7)));
  EXPECT_TRUE(begun(rank->openGate(kMaxOpenGates)));
  server.send(ClosePrepare{kMaxOpenGates + 1, 3});
  EXPECT_EQ(server.receive<ClosePrepared>().openBelow, 0u) << "one has been opened";
}

// Ranks of random speed, stopped at random for long, whose programs and background threads close
// gates at random, and take calls back. The run ends, and all make the same calls compressed.
class RandomGates : public CallGateTest, public ::testing::WithParamInterface<int> {
 protected:
  static constexpr int kCalls = 300;

  struct Site {
    Gate gate;
    std::vector<bool> open;
  };

  static void nap(std::mt19937& random, unsigned speed) {
    if (random() % 400 == 0) std::this_thread::sleep_for(milliseconds(random() % 30));
    if (random() % 4 == 0) std::this_thread::sleep_for(microseconds(random() % speed));
  }

  static void call(Site& site, std::mt19937& random) {
    bool owedOpen = false;
    if (random() % 150 == 0) {
      auto closed = site.gate->close();
      ASSERT_TRUE(closed.ok()) << closed.error().message;
      owedOpen = !closed.value();
      if (closed.value()) {
        ASSERT_FALSE(begun(site.gate));
        site.gate->takeBack();
      }
    }
    if (random() % 200 == 0) site.gate->closeSoon();
    const bool open = begun(site.gate);
    ASSERT_TRUE(open || !owedOpen);
    if (random() % 20 == 0) return site.gate->takeBack();
    site.open.push_back(open);
  }

  static void live(Agreement& rank, size_t nSites, unsigned seed, std::vector<Site>& sites) {
    std::mt19937 random(seed);
    const unsigned speed = 1 + random() % 300;
    sites.resize(nSites);
    std::vector<size_t> schedule;
    for (size_t i = 0; i < nSites; ++i) schedule.insert(schedule.end(), kCalls, i);
    std::shuffle(schedule.begin(), schedule.end(), random);
    for (size_t at : schedule) {
      Site& site = sites[at];
      if (site.gate == nullptr) site.gate = rank.openGate(at);
      while (site.open.size() < kCalls && !HasFatalFailure()) {
        call(site, random);
        nap(random, speed);
        if (random() % 3 != 0) break;
      }
    }
    for (Site& site : sites)
      while (site.open.size() < kCalls && !HasFatalFailure()) call(site, random);
  }
};

TEST_P(RandomGates, LeaveTheSameCallsOpenOnAllRanks) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const int nRanks = 2 + static_cast<int>(random() % 5);
  const size_t nSites = 1 + random() % 6;
  Ranks ranks = agreed(nRanks);
  std::vector<std::vector<Site>> sites(ranks.size());
  std::vector<std::thread> programs;
  for (size_t i = 0; i < ranks.size(); ++i) {
    programs.emplace_back(
        [&, i] { live(*ranks[i], nSites, seed + 1 + static_cast<unsigned>(i), sites[i]); });
  }
  for (std::thread& program : programs) program.join();
  for (size_t i = 1; i < ranks.size(); ++i)
    for (size_t site = 0; site < nSites; ++site)
      ASSERT_EQ(sites[i][site].open, sites[0][site].open) << "rank " << i << " site " << site;
}

INSTANTIATE_TEST_SUITE_P(Runs, RandomGates, ::testing::Range(0, 12));

TEST_F(CallGateTest, AThousandGatesOfOneCommunicator) {
  constexpr uint64_t kGates = 1000;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Ranks ranks = agreed(4);
  std::vector<std::vector<int>> closedAt(ranks.size());
  std::vector<std::thread> programs;
  for (size_t i = 0; i < ranks.size(); ++i) {
    programs.emplace_back([&, i] {
      std::mt19937 random(seed + static_cast<unsigned>(i));
      std::vector<Gate> gates;
      closedAt[i].assign(kGates, -1);
      for (uint64_t topic = 0; topic < kGates; ++topic) gates.push_back(ranks[i]->openGate(topic));
      for (int step = 0; step < 40; ++step) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // as long as a program computes
        for (uint64_t topic = 0; topic < kGates; ++topic) {
          if (random() % 100 == 0) gates[topic]->closeSoon();
          if (random() % 1000 == 0) {
            ASSERT_TRUE(gates[topic]->close().ok());
          }
          if (!begun(gates[topic]) && closedAt[i][topic] < 0) closedAt[i][topic] = step;
        }
      }
    });
  }
  for (std::thread& program : programs) program.join();
  for (size_t i = 1; i < ranks.size(); ++i) ASSERT_EQ(closedAt[i], closedAt[0]);
  EXPECT_GT(std::count_if(closedAt[0].begin(), closedAt[0].end(), [](int at) { return at >= 0; }),
            500);
}

// Ranks leave while gates are being closed: the others go on, with the same calls open.
TEST_F(CallGateTest, ARankThatLeavesInTheMiddleChangesNothingForTheOthers) {
  for (int run = 0; run < 30; ++run) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    Ranks ranks = agreed(4);
    std::vector<std::vector<bool>> open(ranks.size());
    std::vector<std::thread> programs;
    for (size_t i = 0; i < ranks.size(); ++i) {
      programs.emplace_back([&, i] {
        std::mt19937 random(seed + static_cast<unsigned>(i));
        const Gate gate = ranks[i]->openGate(1);
        for (int call = 0; call < 60; ++call) {
          if (random() % 30 == 0) gate->closeSoon();
          if (random() % 100 == 0) static_cast<void>(gate->close());
          auto begun = gate->begin();
          if (i == 3 && (!begun.ok() || random() % 40 == 0)) return ranks[i]->close();
          ASSERT_TRUE(begun.ok()) << begun.error().message;
          open[i].push_back(begun.value());
          if (random() % 3 == 0) std::this_thread::sleep_for(microseconds(random() % 200));
        }
      });
    }
    for (std::thread& program : programs) program.join();
    ASSERT_EQ(open[1], open[0]);
    ASSERT_EQ(open[2], open[0]);
    for (size_t call = 0; call < open[3].size(); ++call) ASSERT_EQ(open[3][call], open[0][call]);
  }
}

// The process's thread for control connections, as the kernel lists it.
std::vector<std::string> readerThreads() {
  std::vector<std::string> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    std::getline(file, name);
    if (name == "cinch-control") found.push_back(task.path());
  }
  return found;
}

uint64_t wakings(const std::string& task) {
  std::ifstream file(task + "/status");
  const std::string key = "voluntary_ctxt_switches:";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return std::stoull(line.substr(key.size()));
  return 0;
}

TEST_F(CallGateTest, ThousandsOfCommunicatorsShareOneThreadThatSleepsWhileNothingArrives) {
  constexpr size_t kCommunicators = 2000;
  const Ranks parents = agreed(2);
  std::vector<Ranks> communicators;
  for (size_t i = 0; i < kCommunicators; ++i) {
    Ranks& ranks = communicators.emplace_back();
    for (int rank : {0, 1}) ranks.push_back(greetChild(*parents[0], i, 0, makeHello(rank, 2)));
    for (const auto& rank : ranks) ASSERT_TRUE(rank->awaitVerdict(kTestSeconds).ok());
  }
  ASSERT_EQ(readerThreads().size(), 1u);
  for (const Ranks& ranks : communicators) EXPECT_TRUE(ranks[0]->openGate(1)->close().value());
  for (const Ranks& ranks : communicators) EXPECT_FALSE(begun(ranks[1]->openGate(1)));
  std::this_thread::sleep_for(milliseconds(50));
  const uint64_t before = wakings(readerThreads()[0]);
  EXPECT_GT(before, 0u);
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(wakings(readerThreads()[0]), before);
  communicators.clear();
  EXPECT_EQ(readerThreads().size(), 1u);
}

// Communicators begin and end in several threads while others' messages arrive.
TEST_F(CallGateTest, CommunicatorsComeAndGoWhileTheThreadReads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int run = 0; run < 60; ++run) {
        Ranks ranks = agreed(2);
        const auto gates = openAll(ranks, 1);
        for (uint64_t topic = 0; topic < 20; ++topic)
          ASSERT_TRUE(ranks[0]->castVote(topic, true).ok());
        gates[1]->closeSoon();
        if (i % 2 == 0) ranks[static_cast<size_t>(run) % 2].reset();
        if (i == 1) static_cast<void>(gates[0]->close());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cinch
