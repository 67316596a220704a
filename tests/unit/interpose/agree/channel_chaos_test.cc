// Connections of ranks that break while they decide, and come back: no rank fails, and all do the
// same from the same calls on. With TEST_RUNS so many runs; a line of JSON says what came of
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <vector>

#include "interpose/agree/unique_id_stamp.h"
#include "tests/unit/interpose/agree/agreement_fixture.h"
#include "tests/unit/interpose/agree/relay.h"

namespace cinch {
namespace {

using std::chrono::milliseconds;
using test::Phase;
using test::Relay;

constexpr size_t kRanks = 3;
constexpr uint64_t kCalls = 300;
constexpr uint64_t kTopics = 64;
constexpr int kNever = -1;  // round

// What was in force with each call of one rank, and why it ended early.
struct Life {
  std::map<uint64_t, std::vector<uint64_t>> log;
  std::string failure;
};

class ChannelChaos : public AgreementFixture {
 protected:
  void SetUp() override {
    AgreementFixture::SetUp();
    for (size_t rank = 0; rank < kRanks; ++rank)
      relays_.push_back(std::make_unique<Relay>(server_->where(), loopback()));
  }

  Ranks agreed() {
    const UniqueId id = newId();
    Ranks ranks;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      UniqueId own = id;
      UniqueIdStamp stamp = *readStamp(own.data());
      stamp.server = relays_[rank]->where();
      writeStamp(stamp, own.data());
      ranks.push_back(greet(own, makeHello(static_cast<int>(rank), kRanks)));
    }
    EXPECT_TRUE(verdictOfAll(ranks).compress);
    return ranks;
  }

  static void live(Agreement& rank, unsigned seed, Life& life) {
    std::mt19937 random(seed);
    Decisions& decisions = rank.decisions();
    while (decisions.claimed() < kCalls) {
      if (random() % 20 == 0) decisions.decideSoon(random() % kTopics);
      if (random() % 40 == 0) {
        const auto isIn = decisions.isDecidedBeforeNext(kTopics + random() % kTopics);
        if (!isIn.ok()) return static_cast<void>(life.failure = isIn.error().message);
      }
      // What comes of it is the same on all ranks; whether it arrives is nobody's affair.
      if (decisions.claimed() % 16 == 0)
        static_cast<void>(rank.castVote(2 * kTopics + decisions.claimed(), true));
      const auto claimed = decisions.claim();
      if (!claimed.ok()) return static_cast<void>(life.failure = claimed.error().message);
      for (const Decision& decision : claimed.value().decisions)
        life.log[claimed.value().call].push_back(decision.topic);
      if (random() % 10 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    }
  }

  std::vector<Life> run(unsigned seed) {
    Ranks ranks = agreed();
    std::vector<Life> lives(kRanks);
    std::vector<std::thread> programs;
    for (size_t rank = 0; rank < kRanks; ++rank)
      programs.emplace_back(
          [&, rank] { live(*ranks[rank], seed + static_cast<unsigned>(rank), lives[rank]); });
    for (std::thread& program : programs) program.join();
    return lives;
  }

  std::vector<std::unique_ptr<Relay>> relays_;
};

TEST_F(ChannelChaos, NoRankIsLostAndNonePartFromTheOthers) {
  const char* const wanted = getenv("TEST_RUNS");
  const int nRuns = wanted == nullptr ? 60 : atoi(wanted);
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::map<Phase, int> nCut;
  int nFailed = 0;
  for (int run = 0; run < nRuns; ++run) {
    std::mt19937 random(seed + static_cast<unsigned>(run));
    const auto phase = static_cast<Phase>(run % 4);
    const int round = 1 + static_cast<int>(random() % 4);
    // One rank, or all at once, as where the server's host is cut off.
    const bool isEverybody = random() % 4 == 0;
    const size_t one = random() % kRanks;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      const int at = isEverybody || rank == one ? round : kNever;
      relays_[rank]->plan({phase, at, milliseconds(random() % 60), random() % 2 == 0});
    }
    const std::vector<Life> lives = this->run(random());
    bool isWell = true;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(lives[rank].failure, "") << "rank " << rank << ", run " << run;
      EXPECT_EQ(lives[rank].log, lives[0].log) << "rank " << rank << ", run " << run;
      isWell = isWell && lives[rank].failure.empty() && lives[rank].log == lives[0].log;
    }
    nFailed += isWell ? 0 : 1;
    const auto isCut = [](const auto& relay) { return relay->nCuts() > 0; };
    nCut[phase] += std::ranges::any_of(relays_, isCut) ? 1 : 0;
  }
  printf(
      "{\"runs\": %d, \"failures\": %d, \"phases\": {\"before_proposal\": %d, "
      "\"after_proposal\": %d, \"before_answer\": %d, \"before_outcome\": %d}}\n",
      nRuns, nFailed, nCut[Phase::proposal], nCut[Phase::afterProposal], nCut[Phase::answer],
      nCut[Phase::outcome]);
  for (const auto& [phase, n] : nCut) EXPECT_GT(n, nRuns / 20);
}

// The ranks are told whose process is gone by NCCL; here a rank in doubt only must not wait for it
// for ever.
TEST_F(ChannelChaos, WhoseServerIsGoneIsToldSo) {
  Ranks ranks = agreed();
  relays_[0]->plan({Phase::outcome, 1, std::chrono::minutes(10), true});
  ranks[0]->decisions().decideSoon(7);
  while (relays_[0]->nCuts() == 0) std::this_thread::yield();
  server_.reset();
  relays_.clear();
  for (;;) {
    const auto claimed = ranks[0]->decisions().claim();
    if (!claimed.ok()) {
      EXPECT_NE(claimed.error().message.find("restart the job"), std::string::npos);
      break;
    }
    ASSERT_LT(claimed.value().call, 100u) << "it has not promised anything";
  }
}

TEST_F(ChannelChaos, AnAbortEndsTheAsking) {
  Ranks ranks = agreed();
  relays_[0]->plan({Phase::outcome, 1, std::chrono::minutes(10), false});
  ranks[0]->decisions().decideSoon(7);
  while (relays_[0]->nCuts() == 0) std::this_thread::yield();
  std::thread aborting([&] {
    std::this_thread::sleep_for(milliseconds(50));
    ranks[0]->close();
  });
  uint64_t nCalls = 0;
  while (ranks[0]->decisions().claim().ok()) ++nCalls;
  aborting.join();
  EXPECT_LT(nCalls, 100u) << "it waited at the promised call";
  EXPECT_FALSE(ranks[0]->decisions().isAsking());
}

}  // namespace
}  // namespace cinch
