#include "interpose/plan/waves.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace cinch {
namespace {

const int kA = 0, kB = 0;
const int kSlots[500] = {};

TEST(Waves, OneCallStartsAtOnce) {
  const WorkspaceNeed need{&kA, &kSlots[0], 100, 100};
  const auto uses = packWaves({&need, 1});
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].wave, 0u);
  EXPECT_EQ(uses[0].offset, 0u);
}

TEST(Waves, CallsShareTheWorkspaceUntilItIsFull) {
  const WorkspaceNeed needs[] = {{&kA, &kSlots[0], 40, 100},
                                 {&kA, &kSlots[1], 60, 100},
                                 {&kA, &kSlots[2], 1, 100},
                                 {&kA, &kSlots[3], 100, 100}};
  const auto uses = packWaves(needs);
  EXPECT_EQ(uses[0].wave, 0u);
  EXPECT_EQ(uses[1].wave, 0u);
  EXPECT_EQ(uses[1].offset, 40u);
  EXPECT_EQ(uses[2].wave, 1u);
  EXPECT_EQ(uses[2].offset, 0u);
  EXPECT_EQ(uses[3].wave, 2u);
}

// Its second call must find the count and the residuals that the first one leaves.
TEST(Waves, ASlotIsInAWaveOnce) {
  const WorkspaceNeed needs[] = {{&kA, &kSlots[0], 1, 100}, {&kA, &kSlots[1], 1, 100},
                                 {&kA, &kSlots[0], 1, 100}, {&kB, &kSlots[2], 1, 100},
                                 {&kA, &kSlots[1], 1, 100}, {&kA, &kSlots[1], 1, 100}};
  const auto uses = packWaves(needs);
  const uint32_t waves[] = {0, 0, 1, 0, 1, 2};
  for (size_t i = 0; i < uses.size(); ++i) EXPECT_EQ(uses[i].wave, waves[i]) << i;
  EXPECT_EQ(uses[2].offset, 0u);
}

// What another communicator in the group does must not be visible to this one.
TEST(Waves, ACommunicatorIsPackedAloneWhateverElseIsThere) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<WorkspaceNeed> mixed, alone;
    std::vector<size_t> positions;
    for (int i = 0; i < 30; ++i) {
      const bool isA = random() % 2 == 0;
      const WorkspaceNeed need{isA ? &kA : &kB, &kSlots[random() % 30], 16 * (1 + random() % 60),
                               16 * 60};
      if (isA) {
        positions.push_back(mixed.size());
        alone.push_back(need);
      }
      mixed.push_back(need);
    }
    const auto ofMixed = packWaves(mixed);
    const auto ofAlone = packWaves(alone);
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(ofMixed[positions[i]].wave, ofAlone[i].wave);
      EXPECT_EQ(ofMixed[positions[i]].offset, ofAlone[i].offset);
    }
  }
}

TEST(Waves, NoTwoCallsOfAWaveOverlapAndOrderIsKept) {
  std::mt19937 random(8);
  std::vector<WorkspaceNeed> needs;
  for (int i = 0; i < 500; ++i) needs.push_back({&kA, &kSlots[i], 16 * (1 + random() % 100), 1600});
  const auto uses = packWaves(needs);
  std::map<uint32_t, uint64_t> end;
  uint32_t last = 0;
  for (size_t i = 0; i < needs.size(); ++i) {
    EXPECT_GE(uses[i].wave, last);
    EXPECT_EQ(uses[i].offset, end[uses[i].wave]);
    end[uses[i].wave] += needs[i].nBytes;
    EXPECT_LE(end[uses[i].wave], 1600u);
    last = uses[i].wave;
  }
}

}  // namespace
}  // namespace cinch
