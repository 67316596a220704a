// Seeded chaos between two real processes, which are stopped, killed and replaced, close in the
// middle, or have a bad network between them: what arrives is right, nothing hangs, nothing is
// left.
//
// CINCH_CHAOS_RUNS says how many seeds (default 20, under a sanitizer 6), CINCH_CHAOS_SEED where
// they begin.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "tests/net/chaos/conductor.h"

namespace cinch::chaos {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRuns = 6;
// Sanitizers keep memory of their own; that of address finds leaks by itself.
constexpr size_t kResidentSlack = 256 << 20;
constexpr int kMappingSlack = 200;
#else
constexpr int kRuns = 20;
constexpr size_t kResidentSlack = 8 << 20;
constexpr int kMappingSlack = 8;
#endif
// Two links, where both sides began at once, of four flows.
constexpr int kMostOfLinks = 8;
// Links remember what was closed until they go themselves, and the report some of those that went.
constexpr size_t kHeapSlack = 256 << 10;

int numberIn(const char* name, int fallback) {
  const char* text = getenv(name);
  return text == nullptr ? fallback : atoi(text);
}

// One seed's worth.
struct Chaos {
  Plan plan;
  Events events;
  std::optional<net::Faults> faults;
};

using Random = std::mt19937;

int below(Random& random, int limit) {
  return static_cast<int>(random() % limit);
}

Plan drawPlan(Random& random) {
  Plan plan;
  plan.seed = random();
  plan.nLanes = 1 + below(random, kMaxLanes);
  plan.nLives = 1 + below(random, 3);
  plan.nMessages = 4 + below(random, 16);
  return plan;
}

int nMessages(const Plan& plan) {
  return kSides * plan.nLanes * plan.nLives * plan.nMessages;
}

void drawStops(Random& random, Chaos& chaos) {
  for (int i = below(random, 6); i > 0; --i) {
    const auto length =
        std::chrono::milliseconds(5 + below(random, below(random, 4) == 0 ? 396 : 40));
    chaos.events.stops.push_back({below(random, nMessages(chaos.plan)), below(random, 2), length});
  }
  std::sort(chaos.events.stops.begin(), chaos.events.stops.end(),
            [](const Stop& a, const Stop& b) { return a.after < b.after; });
}

// From nearly nothing to nearly everything.
net::Faults drawFaults(Random& random) {
  const auto upTo = [&](double most) {
    return below(random, 3) == 0 ? 0 : most * std::uniform_real_distribution<>()(random);
  };
  net::Faults faults;
  faults.pause = upTo(0.05);
  faults.flip = upTo(0.002);
  faults.reset = upTo(0.0005);
  faults.silence = upTo(0.0002);
  faults.maxPiece = below(random, 2) == 0 ? 64 << 10 : 1 << (9 + below(random, 6));
  return faults;
}

Chaos drawChaos(uint32_t seed) {
  Random random(seed);
  Chaos chaos;
  chaos.plan = drawPlan(random);
  if (below(random, 2) == 0) drawStops(random, chaos);
  switch (below(random, 4)) {
    case 0:
      chaos.events.killAfter = below(random, nMessages(chaos.plan));
      break;
    case 1:
      chaos.plan.closesAfter[below(random, 2)] = below(random, nMessages(chaos.plan) / 2);
      break;
    case 2:
      chaos.faults = drawFaults(random);
      chaos.plan.maxBytes = 200 << 10;
      break;
  }
  return chaos;
}

class ProcessChaos : public testing::Test {
 protected:
  void SetUp() override {
    empty_ = conductor_.measure(0).descriptors;
    ASSERT_NO_FATAL_FAILURE(conductor_.run({.seed = 1, .nLanes = kMaxLanes, .nMessages = 30}));
    ASSERT_NO_FATAL_FAILURE(conductor_.retirePeer());
    warm_ = conductor_.settle(0, empty_);
    conductor_.replacePeer();
  }

  void run(const Chaos& chaos) {
    if (chaos.faults || hasFaults_)
      conductor_.replacePeer(chaos.faults ? &*chaos.faults : nullptr, chaos.plan.seed);
    hasFaults_ = chaos.faults.has_value();
    conductor_.run(chaos.plan, chaos.events);
    if (HasFatalFailure()) return;
    for (int i = 0; i < kSides; ++i) {
      nDone_ += conductor_.tally(i).nMessages;
      nErrors_ += conductor_.tally(i).nErrors;
    }
    judge(chaos);
    const Resources rest = conductor_.settle(0, empty_ + kMostOfLinks);
    EXPECT_EQ(rest.threads, warm_.threads);
    if (chaos.events.killAfter != kNever) conductor_.replacePeer();
  }

  void judge(const Chaos& chaos) {
    const bool killed = chaos.events.killAfter != kNever;
    const bool closed = chaos.plan.closesAfter[0] != kNever || chaos.plan.closesAfter[1] != kNever;
    nKills_ += killed;
    nStops_ += static_cast<int>(chaos.events.stops.size());
    if (killed || closed || chaos.faults) return;
    for (int i = 0; i < kSides; ++i) {
      EXPECT_EQ(conductor_.tally(i).nErrors, 0) << conductor_.tally(i).firstError;
      EXPECT_EQ(conductor_.tally(i).nMessages, nMessages(chaos.plan) / kSides);
    }
  }

  // Held for good: what has added up over all rounds.
  void checkLeaks() {
    // A bad network does not pass on that its other end is gone.
    if (hasFaults_) conductor_.replacePeer();
    ASSERT_NO_FATAL_FAILURE(conductor_.retirePeer());
    const Resources cold = conductor_.settle(0, empty_);
    const std::string both = "at first " + warm_.text() + "; at last " + cold.text();
    EXPECT_EQ(cold.descriptors, warm_.descriptors) << both;
    EXPECT_EQ(cold.threads, warm_.threads) << both;
    EXPECT_LE(cold.mappings, warm_.mappings + kMappingSlack) << both;
    EXPECT_LE(cold.heapBytes, warm_.heapBytes + kHeapSlack) << both;
    EXPECT_LE(cold.residentBytes, warm_.residentBytes + kResidentSlack) << both;
    printf("%s\n", both.c_str());
  }

  Conductor conductor_;
  int empty_ = 0;   // descriptors of a process without links
  Resources warm_;  // the same after an exchange
  bool hasFaults_ = false;
  int nDone_ = 0;
  int nErrors_ = 0;
  int nKills_ = 0;
  int nStops_ = 0;
};

TEST_F(ProcessChaos, ArrivesRightOrFails) {
  const int first = numberIn("CINCH_CHAOS_SEED", 1);
  const int runs = numberIn("CINCH_CHAOS_RUNS", kRuns);
  for (int seed = first; seed < first + runs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run(drawChaos(static_cast<uint32_t>(seed)));
    if (HasFailure()) return;
  }
  EXPECT_GT(nDone_, runs)
      << "hardly anything got through: the chaos is too strong to test anything";
  checkLeaks();
  printf("%d seeds, %d messages right, %d connections failed, %d stops, %d kills, %d faults\n",
         runs, nDone_, nErrors_, nStops_, nKills_, conductor_.nFaults());
}

}  // namespace
}  // namespace cinch::chaos
