// Runs with CINCH_RESIDUAL_MEMORY=16M.
#include "interpose/comm/residual_budget.h"

#include <gtest/gtest.h>

#include "interpose/execute/residuals.h"
#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

constexpr uint64_t kMost = 16 << 20;

// Of two communicators.
TEST(ResidualBudget, HoldsForTheProcess) {
  test::resetFakes();
  Result<void> taken;
  {
    auto ranks = test::makeRanks(2);
    std::vector<Slot*> slots;
    for (const auto& rank : ranks)
      for (uint64_t count = 1 << 23; count < (1 << 23) + 3; ++count) {
        CommState::Decision decision;
        while (decision.slot == nullptr)
          decision =
              rank->comm->decide({CallKind::allReduce, OpClass::sum, ncclFloat32, count}, nullptr);
        slots.push_back(decision.slot);
      }
    for (Slot* slot : slots) {
      if (taken.ok()) taken = slot->takeResiduals(fakeDeviceTable());
      EXPECT_LE(bytesOfResiduals(0), kMost);
    }
    EXPECT_FALSE(taken.ok());
    EXPECT_NE(taken.error().message.find("no room within CINCH_RESIDUAL_MEMORY"),
              std::string::npos);
    EXPECT_GT(bytesOfResiduals(0), kMost / 2) << "it is there to be used";
    slots.front()->residuals.giveBack(nullptr);
    EXPECT_TRUE(slots.back()->takeResiduals(fakeDeviceTable()).ok());
  }
  EXPECT_EQ(bytesOfResiduals(0), 0u) << "communicators that have ended hold none";
}

// Whatever fails, nothing stays allocated or counted.
TEST(ResidualBudget, CountsWhatIsThere) {
  for (int failAt = 0; failAt < 3; ++failAt) {
    test::resetFakes();
    SlotResiduals residuals;
    fakeDevice().failAt = failAt;
    const bool isTaken =
        residuals.take(fakeDeviceTable(), {.encodeBytes = 1000, .ownedFirst = 0, .ownedEnd = 500})
            .ok();
    EXPECT_EQ(isTaken, failAt == 2);
    EXPECT_EQ(bytesOfResiduals(0), isTaken ? 1500u : 0u);
    EXPECT_EQ(fakeDevice().memory.size(), isTaken ? 2u : 0u);
    residuals.giveBack(nullptr);
    EXPECT_EQ(bytesOfResiduals(0), 0u);
    EXPECT_TRUE(fakeDevice().memory.empty());
  }
}

}  // namespace
}  // namespace cinch
