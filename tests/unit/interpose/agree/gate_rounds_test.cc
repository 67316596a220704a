// Closing gates, without sockets or threads: the server's rounds, a rank's record, and both of them
// together in random interleavings.
#include "interpose/agree/gate_rounds.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "interpose/agree/agreement_session.h"
#include "interpose/agree/gate_record.h"
#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

using State = GateRecord::State;

// The one message in `out`, which is emptied.
template <class T>
T taken(std::vector<Message>& out) {
  EXPECT_EQ(out.size(), 1u);
  const T* message = out.empty() ? nullptr : std::get_if<T>(&out[0]);
  EXPECT_NE(message, nullptr);
  T copy = message == nullptr ? T{} : *message;
  out.clear();
  return copy;
}

TEST(GateRounds, CloseWhereAllAccept) {
  GateRounds rounds(3);
  std::vector<Message> out;
  rounds.propose({7, 5}, true, out);
  EXPECT_EQ(taken<ClosePrepare>(out).ordinal, 5u);
  for (size_t member : {2, 0}) ASSERT_TRUE(rounds.prepared(member, {7, 5, 5}, out).ok());
  EXPECT_TRUE(out.empty());
  ASSERT_TRUE(rounds.prepared(1, {7, 5, 0}, out).ok());
  const GateClosed closed = taken<GateClosed>(out);
  EXPECT_TRUE(closed.topic == 7 && closed.ordinal == 5);
}

TEST(GateRounds, TryLaterCallsWithAMarginThatDoubles) {
  GateRounds rounds(2);
  std::vector<Message> out;
  rounds.propose({7, 5}, true, out);
  uint64_t ordinal = taken<ClosePrepare>(out).ordinal;
  for (uint64_t margin : {2, 4, 8, 16}) {
    const uint64_t begun = ordinal + 3;
    ASSERT_TRUE(rounds.prepared(0, {7, ordinal, begun}, out).ok());
    EXPECT_TRUE(out.empty()) << "the other one may have begun more";
    ASSERT_TRUE(rounds.prepared(1, {7, ordinal, ordinal}, out).ok());
    ASSERT_EQ(out.size(), 2u);
    const auto open = std::get<GateNotClosed>(out[0]);
    EXPECT_TRUE(open.ordinal == ordinal && open.openBelow == begun);
    ordinal = std::get<ClosePrepare>(out[1]).ordinal;
    EXPECT_EQ(ordinal, begun + margin);
    out.clear();
  }
}

TEST(GateRounds, OneRoundAnswersAllProposals) {
  GateRounds rounds(1);
  std::vector<Message> out;
  rounds.propose({7, 5}, true, out);
  for (uint64_t ordinal : {4, 5, 9}) rounds.propose({7, ordinal}, true, out);
  taken<ClosePrepare>(out);
  rounds.propose({8, 1}, true, out);
  EXPECT_EQ(taken<ClosePrepare>(out).topic, 8u) << "topics have nothing to do with each other";
}

TEST(GateRounds, ARankThatLeavesEndsThemForGood) {
  GateRounds rounds(2);
  std::vector<Message> out;
  rounds.propose({7, 5}, true, out);
  taken<ClosePrepare>(out);
  rounds.giveUp(out);
  EXPECT_EQ(taken<GateNotClosed>(out).openBelow, kNeverCloses);
  ASSERT_TRUE(rounds.prepared(0, {7, 5, 0}, out).ok()) << "it had not been told yet";
  EXPECT_TRUE(out.empty());
  rounds.propose({7, 6}, false, out);
  const auto open = taken<GateNotClosed>(out);
  EXPECT_TRUE(open.ordinal == 6 && open.openBelow == kNeverCloses);
}

TEST(GateRounds, AnswersTwiceAreABreach) {
  GateRounds rounds(2);
  std::vector<Message> out;
  rounds.propose({7, 5}, true, out);
  ASSERT_TRUE(rounds.prepared(0, {7, 5, 0}, out).ok());
  EXPECT_FALSE(rounds.prepared(0, {7, 5, 0}, out).ok());
}

TEST(GateRounds, ARankThatAlwaysRefusesKeepsNobodyBusyForEver) {
  GateRounds rounds(1);
  std::vector<Message> out;
  rounds.propose({7, 0}, true, out);
  for (int tries = 0; tries < 100; ++tries) {
    const auto* prepare = std::get_if<ClosePrepare>(&out.back());
    if (prepare == nullptr) break;
    const uint64_t ordinal = prepare->ordinal;
    ASSERT_TRUE(rounds.prepared(0, {7, ordinal, ordinal + 1}, out).ok());
  }
  EXPECT_EQ(std::get<GateNotClosed>(out.back()).openBelow, kNeverCloses);
  out.clear();
  rounds.propose({7, 0}, true, out);
  taken<ClosePrepare>(out);
  ASSERT_TRUE(rounds.prepared(0, {7, 0, kNeverCloses}, out).ok());
  EXPECT_EQ(taken<GateNotClosed>(out).openBelow, kNeverCloses);
}

TEST(GateRounds, AreBounded) {
  GateRounds rounds(1);
  std::vector<Message> out;
  for (uint64_t topic = 0; topic < kMaxOpenGates; ++topic) rounds.propose({topic, 0}, true, out);
  out.clear();
  rounds.propose({kMaxOpenGates, 0}, true, out);
  EXPECT_EQ(taken<GateNotClosed>(out).openBelow, kNeverCloses);
}

TEST(GateRounds, OfASessionNeedAllItsRanks) {
  AgreementSession early(loopback(), std::chrono::seconds(1));
  ASSERT_TRUE(early.join(makeHello(0, 2), loopback()).ok());
  EXPECT_FALSE(early.proposeClosing({1, 0}).ok()) << "before the verdict";
  EXPECT_FALSE(early.closePrepared(0, {1, 0, 0}).ok());
  early.expire();
  early.takeBroadcasts();
  ASSERT_TRUE(early.proposeClosing({1, 0}).ok());
  auto out = early.takeBroadcasts();
  EXPECT_EQ(taken<GateNotClosed>(out).openBelow, kNeverCloses) << "nothing is compressed";

  AgreementSession session(loopback(), std::chrono::seconds(1));
  for (int rank : {0, 1, 2}) ASSERT_TRUE(session.join(makeHello(rank, 3), loopback()).ok());
  session.takeBroadcasts();
  ASSERT_TRUE(session.proposeClosing({1, 4}).ok());
  ASSERT_TRUE(session.closePrepared(2, {1, 4, 1}).ok());
  out = session.takeBroadcasts();
  EXPECT_EQ(taken<ClosePrepare>(out).ordinal, 4u);
  session.leave(1);
  out = session.takeBroadcasts();
  EXPECT_EQ(taken<GateNotClosed>(out).openBelow, kNeverCloses);
  ASSERT_TRUE(session.proposeClosing({2, 4}).ok());
  out = session.takeBroadcasts();
  EXPECT_EQ(taken<GateNotClosed>(out).topic, 2u);
}

TEST(GateRecord, WaitsOnlyAtTheCallItHasPromised) {
  GateRecord record;
  record.begin();
  const auto promised = record.prepare({1, 3});
  ASSERT_TRUE(promised.ok());
  EXPECT_EQ(promised.value()->openBelow, 1u);
  for (; record.begun() < 3; record.begin()) EXPECT_EQ(record.nextCall(), State::open);
  EXPECT_EQ(record.nextCall(), State::undecided);
  GateRecord closed = record;
  ASSERT_TRUE(closed.closed({1, 3}).ok());
  EXPECT_EQ(closed.nextCall(), State::closed);
  ASSERT_TRUE(record.notClosed({1, 3, 5}).ok());
  EXPECT_EQ(record.nextCall(), State::open);
  EXPECT_EQ(record.prepare({1, 4}).value()->openBelow, 5u) << "calls below 5 are open for all";
}

TEST(GateRecord, RefusesWhatHasBegunAndWhatItWasToldIsOpen) {
  GateRecord record;
  for (int i = 0; i < 4; ++i) record.begin();
  EXPECT_EQ(record.prepare({1, 3}).value()->openBelow, 4u);
  EXPECT_EQ(record.nextCall(), State::open) << "a refusal promises nothing";
  ASSERT_TRUE(record.notClosed({1, 3, 4}).ok());
  record.takeBack();
  EXPECT_EQ(record.nextCallOnceProposed(), State::open) << "others were told so of call 3";
  EXPECT_EQ(record.prepare({1, 3}).value()->openBelow, 4u);
}

TEST(GateRecord, WithoutItsConnectionOnlyWhatItPromisedIsUnknown) {
  GateRecord free;
  free.end();
  EXPECT_EQ(free.nextCallOnceProposed(), State::open);
  EXPECT_FALSE(free.prepare({1, 0}).value()) << "nobody would receive the promise";
  GateRecord record;
  ASSERT_TRUE(record.prepare({1, 2}).ok());
  record.end();
  EXPECT_EQ(record.nextCallOnceProposed(), State::open);
  record.begin();
  record.begin();
  EXPECT_EQ(record.nextCall(), State::unknown);
  EXPECT_EQ(record.nextCallOnceProposed(), State::unknown);
}

TEST(GateRecord, AServerThatBreaksTheProtocolIsFoundOut) {
  GateRecord record;
  EXPECT_FALSE(record.closed({1, 0}).ok());
  ASSERT_TRUE(record.prepare({1, 3}).ok());
  EXPECT_FALSE(record.prepare({1, 4}).ok());
  EXPECT_FALSE(record.closed({1, 4}).ok());
  EXPECT_FALSE(record.notClosed({1, 4, 4}).ok());
  ASSERT_TRUE(record.closed({1, 3}).ok());
  EXPECT_EQ(record.prepare({1, 9}).value()->openBelow, 0u) << "a proposal that came too late";
  ASSERT_TRUE(record.closed({1, 9}).ok());
  for (int i = 0; i < 3; ++i) record.begin();
  EXPECT_EQ(record.nextCall(), State::closed);
}

// A communicator in one thread: programs, control threads, and a network that delivers in order but
// at any time.
class World {
 public:
  World(unsigned seed, bool mayLeave) : random_(seed), mayLeave_(mayLeave) {
    const int nRanks = 1 + static_cast<int>(random_() % 6);
    for (int rank = 0; rank < nRanks; ++rank) {
      EXPECT_TRUE(session_.join(makeHello(rank, nRanks), loopback()).ok());
    }
    session_.takeBroadcasts();
    ranks_.resize(static_cast<size_t>(nRanks));
    for (Rank& rank : ranks_) rank.speed = 1 + random_() % 20;
  }

  void run() {
    constexpr int kSteps = 4000;
    for (int step = 0; step < kSteps && !::testing::Test::HasFailure(); ++step) {
      const size_t who = random_() % ranks_.size();
      const auto dice = random_() % 100;
      if (dice < 35) {
        if (random_() % 20 < ranks_[who].speed) program(who);
      } else if (dice < 98) {
        deliver(who, random_() % 2 == 0);
      } else if (dice == 98 && random_() % 4 == 0) {
        deliverAll();
      } else if (mayLeave_ && random_() % 30 == 0) {
        leave(who);
      }
    }
    deliverAll();
    checkSame();
  }

  bool isDecided() const { return proposed_; }

 private:
  struct Rank {
    GateRecord record;
    std::deque<Message> toServer, toRank;
    std::vector<bool> open;  // by call, as made
    bool closing = false;    // its program is in close()
    int owedOpen = -1;       // the call that close() was false for
    bool gone = false;       // its connection has ended
    uint64_t speed = 1;
  };

  // One step of a rank's program; none where it waits.
  void program(size_t who) {
    Rank& rank = ranks_[who];
    if (rank.closing) return finishClose(rank);
    const auto dice = random_() % 200;
    if (dice == 0) {
      rank.closing = true;
      propose(rank, rank.record.begun());
    } else if (dice == 1) {
      propose(rank, rank.record.begun() + kFirstMargin);
    } else if (dice < 12 && !rank.open.empty()) {
      rank.open.pop_back();
      rank.record.takeBack();
    } else {
      call(rank);
    }
  }

  void propose(Rank& rank, uint64_t ordinal) {
    if (!rank.record.mustPropose()) return;
    proposed_ = true;
    rank.toServer.push_back(CloseProposal{1, ordinal});
  }

  void finishClose(Rank& rank) {
    const State state = rank.record.nextCallOnceProposed();
    if (state == State::undecided) return;
    rank.closing = false;
    if (state == State::open) rank.owedOpen = static_cast<int>(rank.record.begun());
    if (state == State::closed) {
      ASSERT_EQ(rank.record.nextCall(), State::closed);
    }
  }

  void call(Rank& rank) {
    const State state = rank.record.nextCall();
    if (state == State::undecided) return;
    if (state == State::unknown) {
      ASSERT_TRUE(rank.gone);
      return;
    }
    const int number = static_cast<int>(rank.open.size());
    ASSERT_EQ(rank.record.begun(), static_cast<uint64_t>(number));
    if (rank.owedOpen >= number) {
      ASSERT_EQ(state, State::open) << "close() had said so of call " << rank.owedOpen;
    }
    rank.record.begin();
    rank.open.push_back(state == State::open);
  }

  void deliver(size_t who, bool toServer) {
    Rank& rank = ranks_[who];
    std::deque<Message>& queue = toServer ? rank.toServer : rank.toRank;
    if (queue.empty() || rank.gone) return;
    const Message message = queue.front();
    queue.pop_front();
    toServer ? serve(who, message) : receive(rank, message);
  }

  void serve(size_t who, const Message& message) {
    if (const auto* proposal = std::get_if<CloseProposal>(&message)) {
      ASSERT_TRUE(session_.proposeClosing(*proposal).ok());
    } else {
      ASSERT_TRUE(session_.closePrepared(who, std::get<ClosePrepared>(message)).ok());
    }
    broadcast();
  }

  void broadcast() {
    for (const Message& message : session_.takeBroadcasts())
      for (Rank& rank : ranks_)
        if (!rank.gone) rank.toRank.push_back(message);
  }

  static void receive(Rank& rank, const Message& message) {
    if (const auto* prepare = std::get_if<ClosePrepare>(&message)) {
      const auto answer = rank.record.prepare(*prepare);
      ASSERT_TRUE(answer.ok() && answer.value());
      rank.toServer.push_back(*answer.value());
    } else if (const auto* closed = std::get_if<GateClosed>(&message)) {
      ASSERT_TRUE(rank.record.closed(*closed).ok());
    } else if (const auto* open = std::get_if<GateNotClosed>(&message)) {
      ASSERT_TRUE(rank.record.notClosed(*open).ok());
    }
  }

  void leave(size_t who) {
    Rank& rank = ranks_[who];
    if (rank.gone) return;
    anyGone_ = true;
    rank.gone = true;
    // What it had sent may still arrive; nothing reaches it any more.
    while (!rank.toServer.empty() && random_() % 2 == 0) {
      const Message message = rank.toServer.front();
      rank.toServer.pop_front();
      serve(who, message);
    }
    rank.record.end();
    session_.leave(who);
    broadcast();
  }

  // All programs are stopped, and still everything is decided: nobody waits for a program.
  void deliverAll() {
    for (bool any = true; any;) {
      any = false;
      for (size_t who = 0; who < ranks_.size(); ++who) {
        for (bool toServer : {true, false}) {
          Rank& rank = ranks_[who];
          any = any || (!rank.gone && !(rank.toServer.empty() && rank.toRank.empty()));
          deliver(who, toServer);
        }
      }
    }
    for (Rank& rank : ranks_) {
      ASSERT_NE(rank.record.nextCall(), State::undecided);
      if (rank.closing) {
        ASSERT_NE(rank.record.nextCallOnceProposed(), State::undecided);
      }
      if (proposed_ && !anyGone_) {
        GateRecord copy = rank.record;
        for (int i = 0; i < 100000 && copy.nextCall() == State::open; ++i) copy.begin();
        ASSERT_EQ(copy.nextCall(), State::closed) << "it closes without anybody's further doing";
      }
    }
    checkSame();
  }

  void checkSame() {
    for (const Rank& rank : ranks_) {
      for (const Rank& other : ranks_) {
        const size_t n = std::min(rank.open.size(), other.open.size());
        for (size_t i = 0; i < n; ++i) ASSERT_EQ(rank.open[i], other.open[i]) << "call " << i;
      }
    }
  }

  std::mt19937 random_;
  const bool mayLeave_;
  AgreementSession session_{loopback(), std::chrono::seconds(1)};
  std::vector<Rank> ranks_;
  bool proposed_ = false;
  bool anyGone_ = false;
};

class RandomClosing : public ::testing::TestWithParam<bool> {};

TEST_P(RandomClosing, LeavesTheSameCallsOpenOnAllRanks) {
  const unsigned first = std::random_device()();
  int decided = 0;
  for (unsigned i = 0; i < 1500; ++i) {
    SCOPED_TRACE("seed " + std::to_string(first + i));
    World world(first + i, GetParam());
    world.run();
    if (HasFailure()) return;
    decided += world.isDecided() ? 1 : 0;
  }
  EXPECT_GT(decided, 1000) << "seed " << first;
}

INSTANTIATE_TEST_SUITE_P(MayLeave, RandomClosing, ::testing::Bool());

}  // namespace
}  // namespace cinch
