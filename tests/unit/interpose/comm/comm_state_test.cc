#include "interpose/comm/comm_state.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/support/fake_device.h"
#include "tests/unit/interpose/support/fake_real.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

const Signature kGradients{CallKind::allReduce, OpClass::sum, ncclFloat32, 1 << 20};
const Signature kLoss{CallKind::allReduce, OpClass::sum, ncclFloat32, 1};
const Signature kOrder{CallKind::broadcast, OpClass::none, ncclInt32, 100};

class CommStateTest : public testing::Test {
 protected:
  void SetUp() override {
    fakeDevice().reset();
    CommResources resources;
    resources.device = &fakeDeviceTable();
    resources.fault =
        std::move(Buffer::allocate(fakeDeviceTable(), 4, Buffer::Where::host).value());
    *resources.fault.as<uint32_t>() = 0;
    comm_.enable(std::move(resources), nullptr, true);
  }
  // Decides on the gradients until they are a candidate.
  Slot& gradientSlot() {
    for (;;) {
      const auto decision = comm_.decide(kGradients);
      if (decision.reason == Reason::none) return *decision.slot;
    }
  }
  // Whether the next call of an allocated slot starts from zero residuals.
  bool isReset(Slot& slot) {
    const size_t before = fakeDevice().count("clear");
    EXPECT_TRUE(slot.refreshResiduals(fakeDeviceTable(), this, this, nullptr).ok());
    return fakeDevice().count("clear") > before;
  }

  CommStats stats_{CommLabel{"communicator", 0, 2, "", kReasonNames}};
  CommState comm_{test::fakeRealTable(), nullptr, 0, 2, stats_};
};

TEST_F(CommStateTest, OneSignatureIsOneSlot) {
  Slot& slot = gradientSlot();
  EXPECT_EQ(comm_.decide(kGradients).slot, &slot);
  Signature average = kGradients;
  average.op = OpClass::avg;
  Slot* other = nullptr;
  while (other == nullptr) other = comm_.decide(average).slot;
  EXPECT_NE(other, &slot);
  EXPECT_NE(other->index, slot.index);
  EXPECT_EQ(other->plan.factor, 0.5f);
}

TEST_F(CommStateTest, ATakenBackCallDoesNotCount) {
  EXPECT_EQ(comm_.decide(kGradients).reason, Reason::warmup);
  for (int i = 0; i < 10; ++i) {
    comm_.takeBack(kGradients);
    EXPECT_EQ(comm_.decide(kGradients).reason, Reason::warmup);
  }
  EXPECT_EQ(comm_.decide(kGradients).reason, Reason::none);
}

TEST_F(CommStateTest, NewCallsAndNewLayoutsResetResiduals) {
  Slot& slot = gradientSlot();
  Slot fed(slot.index, slot.name, slot.plan, 0.5f);  // the default codec keeps no residual
  fed.stats = slot.stats;
  ASSERT_TRUE(fed.allocate(fakeDeviceTable(), nullptr).ok());
  EXPECT_TRUE(isReset(fed));
  EXPECT_FALSE(isReset(fed));
  fed.dropResiduals();
  EXPECT_TRUE(isReset(fed));

  // The communicator drops its own slots' residuals in both cases, and in no other.
  ASSERT_TRUE(slot.allocate(fakeDeviceTable(), nullptr).ok());
  slot.calls = 1;
  slot.stats->residualResets = 0;
  const auto resets = [&] {
    EXPECT_TRUE(slot.refreshResiduals(fakeDeviceTable(), this, this, nullptr).ok());
    return slot.stats->residualResets.load();
  };
  EXPECT_EQ(resets(), 1u) << "the first use";
  comm_.decide(kGradients);
  EXPECT_EQ(resets(), 1u);
  comm_.decide(kLoss);
  EXPECT_EQ(resets(), 2u) << "a new signature";
  comm_.decide(kLoss);
  EXPECT_EQ(resets(), 2u);
  comm_.decide(kOrder);
  EXPECT_EQ(resets(), 3u);
  comm_.decide(kOrder);
  EXPECT_EQ(resets(), 4u) << "every integer broadcast";
}

TEST_F(CommStateTest, PassesAreCountedByReason) {
  comm_.countPass(Reason::small, 12);
  comm_.countPass(Reason::small, 30);
  EXPECT_EQ(stats_.passedCalls[static_cast<size_t>(Reason::small)].load(), 2u);
  EXPECT_EQ(stats_.passedBytes[static_cast<size_t>(Reason::small)].load(), 42u);
}

TEST_F(CommStateTest, TheFirstFailureStays) {
  EXPECT_EQ(comm_.health(), ncclSuccess);
  EXPECT_EQ(comm_.fail(errorf(Status::cudaError, "first")), ncclUnhandledCudaError);
  EXPECT_EQ(comm_.fail(errorf(Status::systemError, "second")), ncclUnhandledCudaError);
  EXPECT_EQ(comm_.health(), ncclUnhandledCudaError);
}

TEST(CommStateWithoutAgreement, PassesEverythingAndHoldsNothing) {
  fakeDevice().reset();
  CommStats stats{CommLabel{"communicator", 0, 2, "", kReasonNames}};
  CommState comm(test::fakeRealTable(), nullptr, 0, 2, stats);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(comm.decide(kGradients).reason, Reason::notAgreed);
  comm.finish();
  comm.abandon();
  EXPECT_TRUE(fakeDevice().calls.empty());
}

}  // namespace
}  // namespace cinch
