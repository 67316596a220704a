#include "interpose/comm/bucket_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "tests/unit/interpose/support/ddp_program.h"
#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::ddpMessages;
using test::DdpMessages;
using test::fakeDeviceTable;

const StatedLayers kNothingStated;

CommResources resources() {
  CommResources made;
  made.device = &fakeDeviceTable();
  return made;
}

class BucketLayersTest : public testing::Test {
 protected:
  void SetUp() override { test::resetFakes(); }

  // One step of a program that reduces these buckets, in fp32.
  static void reduce(BucketLayers& layers, const std::vector<uint64_t>& counts) {
    for (const uint64_t count : counts)
      layers.follow({CallKind::allReduce, OpClass::sum, ncclFloat32, count});
  }
  // The order of new buckets, as all calls of a program are told.
  static void rebuild(BucketLayers& layers, const DdpMessages& model) {
    Program(layers).rebuild(model);
    for (int i = 0; i < 2; ++i)
      layers.follow({CallKind::broadcast, OpClass::none, ncclInt32, model.bucketOrder.size()});
  }
  static std::vector<GradientCall> periodOf(const DdpMessages& model) {
    std::vector<GradientCall> period;
    for (uint32_t i = 0; i < model.counts.size(); ++i)
      period.push_back({ncclFloat32, model.counts[i], i});
    return period;
  }
  static bool isOnlyOne(const DdpMessages& model, uint64_t count) {
    return std::count(model.counts.begin(), model.counts.end(), count) == 1;
  }

  using Program = test::DdpProgram<BucketLayers>;
  BucketLayers layers_{"communicator 1", resources(), 2, kNothingStated};
  const std::vector<GradientCall> kNoPeriod{};
};

TEST_F(BucketLayersTest, AreFoundByTheirPlace) {
  for (const char* name : test::kModels) {
    const DdpMessages model = ddpMessages(name);
    Program(layers_).sendAll(model);
    const auto period = periodOf(model);
    const auto truth = model.buckets();
    for (uint32_t slot = 0; slot < truth.size(); ++slot)
      EXPECT_EQ(layers_.of(period, model.counts[slot], slot), truth[slot]) << name << slot;
    EXPECT_EQ(layers_.of(period, model.counts[0] + 1, 0), BucketLayout()) << "of another bucket";
    EXPECT_EQ(layers_.of({}, model.counts[0], 0), BucketLayout()) << "no place any more";
  }
}

TEST_F(BucketLayersTest, ASmallBucketBelongsToItsModel) {
  const DdpMessages model = ddpMessages("resnet50");
  Program(layers_).sendAll(model);
  auto period = periodOf(model);
  period.back().slot.reset();
  period.push_back({ncclFloat32, 1, {}});  // a loss
  EXPECT_EQ(layers_.of(period, model.counts[0], 0), model.buckets()[0]);
}

TEST_F(BucketLayersTest, WithoutPlacesTheirCountMustDo) {
  for (const char* name : test::kModels) {
    const DdpMessages model = ddpMessages(name);
    reduce(layers_, {4711, 4712});  // the buckets of the first step are others
    Program(layers_).wrap(model);
    rebuild(layers_, model);
    for (int step = 0; step < 5; ++step) {
      reduce(layers_, model.counts);
      reduce(layers_, {1});
    }
    reduce(layers_, {model.counts.begin(), model.counts.end() - 1});
    for (size_t i = 0; i < model.counts.size(); ++i) {
      const BucketLayout layers = layers_.of(kNoPeriod, model.counts[i], {});
      if (isOnlyOne(model, model.counts[i])) {
        EXPECT_EQ(layers, model.buckets()[i]) << name << i;
      }
      EXPECT_TRUE(layers.empty() || layers == model.buckets()[i]) << name << i;
      // A period knows no more of a call without a place.
      EXPECT_EQ(layers_.of(periodOf(model), model.counts[i], {}), layers) << name << i;
    }
  }
}

TEST_F(BucketLayersTest, ABucketThatIsAlsoAnotherCallHasNone) {
  const DdpMessages model = ddpMessages("resnet50");
  Program(layers_).wrap(model);
  rebuild(layers_, model);
  for (int step = 0; step < 3; ++step) {
    reduce(layers_, {model.counts[0]});
    reduce(layers_, model.counts);
  }
  EXPECT_EQ(layers_.of(kNoPeriod, model.counts[0], {}), BucketLayout());
  EXPECT_EQ(layers_.of(kNoPeriod, model.counts[1], {}), model.buckets()[1]);
}

TEST_F(BucketLayersTest, OtherCallsAreNotFollowed) {
  const DdpMessages model = ddpMessages("resnet50");
  Program(layers_).wrap(model);
  rebuild(layers_, model);
  for (const uint64_t count : model.counts) {
    layers_.follow({CallKind::allReduce, OpClass::sum, ncclInt32, 161});
    layers_.follow({CallKind::broadcast, OpClass::none, ncclInt64, 53});
    layers_.follow({CallKind::allGather, OpClass::none, ncclFloat32, 129});
    reduce(layers_, {count});
  }
  EXPECT_EQ(layers_.of(kNoPeriod, model.counts[1], {}), model.buckets()[1]);
}

TEST_F(BucketLayersTest, WithoutAnOrderTheRegistrationIsIt) {
  DdpMessages model = ddpMessages("gpt2");
  Program(layers_).wrap(model);
  // Two buckets: the last parameter alone, and all others.
  const uint64_t total = std::accumulate(model.counts.begin(), model.counts.end(), uint64_t{0});
  const BucketLayout last{model.parameters.back()};
  const uint64_t lastCount = model.parameters.back().count;
  std::vector<GradientCall> period{{ncclFloat32, lastCount, 0},
                                   {ncclFloat32, total - lastCount, 1}};
  EXPECT_EQ(layers_.of(period, lastCount, 0), last);
  EXPECT_EQ(layers_.of(period, total - lastCount, 1),
            BucketLayout(model.parameters.begin(), model.parameters.end() - 1));
  period[0].type = ncclBfloat16;
  EXPECT_EQ(layers_.of(period, lastCount, 0), BucketLayout()) << "types are not mixed in a bucket";
}

TEST_F(BucketLayersTest, WhatIsHeardLaterIsKnownLater) {
  const DdpMessages model = ddpMessages("gpt2");
  const auto period = periodOf(model);
  EXPECT_EQ(layers_.of(period, model.counts[0], 0), BucketLayout());
  test::fakeDevice().eventsPending = true;
  Program(layers_).sendAll(model);
  EXPECT_EQ(layers_.of(period, model.counts[0], 0), BucketLayout());
  test::fakeDevice().eventsPending = false;
  EXPECT_EQ(layers_.of(period, model.counts[0], 0), model.buckets()[0]);
  layers_.miss({CallKind::broadcast, OpClass::none, ncclInt32, 9});
  EXPECT_EQ(layers_.of(period, model.counts[0], 0), BucketLayout());
}

TEST_F(BucketLayersTest, WhatIsBesideTheBucketsOfDdpIsNoneOfThem) {
  const DdpMessages model = ddpMessages("gpt2");
  auto period = periodOf(model);
  EXPECT_EQ(layers_.claimOf(period, model.counts[0], 0), DdpClaim::nothing);
  Program(layers_).sendAll(model);
  EXPECT_EQ(layers_.claimOf(period, model.counts[0], 0), DdpClaim::isOwn);
  constexpr uint64_t kOther = 77777;
  const auto slot = static_cast<uint32_t>(period.size());
  period.push_back({ncclFloat32, kOther, slot});
  EXPECT_EQ(layers_.claimOf(period, kOther, slot), DdpClaim::isBeside);
  EXPECT_EQ(layers_.claimOf(period, model.counts[0], 0), DdpClaim::isOwn);
  EXPECT_EQ(layers_.claimOf({{ncclFloat32, kOther, 0}}, kOther, 0), DdpClaim::unclear);
}

TEST_F(BucketLayersTest, WhereTheyAreFromIsSaidOnce) {
  const DdpMessages model = ddpMessages("gpt2");
  testing::internal::CaptureStdout();
  layers_.of(periodOf(model), model.counts[0], 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  Program(layers_).sendAll(model);
  const std::string n = std::to_string(model.counts.size());
  testing::internal::CaptureStdout();
  for (uint32_t slot = 0; slot < 3; ++slot) layers_.of(periodOf(model), model.counts[slot], slot);
  const std::string log = testing::internal::GetCapturedStdout();
  const std::string line = "communicator 1: the layers of " + n + " of " + n +
                           " buckets are known from what PyTorch DDP has sent\n";
  EXPECT_NE(log.find("NCCL INFO CINCH/POLICY " + line), std::string::npos) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

class StatedLayersTest : public BucketLayersTest {
 protected:
  static StatedLayers stated(const std::string& text) {
    const std::string path = testing::TempDir() + "cinch_layers_" +
                             testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ofstream(path) << text;
    testing::internal::CaptureStdout();
    StatedLayers layers = readStatedLayers(path);
    log_ = testing::internal::GetCapturedStdout();
    std::remove(path.c_str());
    return layers;
  }
  static inline std::string log_;
};

TEST_F(StatedLayersTest, WithoutAFileNothingIsStated) {
  EXPECT_FALSE(readStatedLayers("").areStated);
  EXPECT_FALSE(processStatedLayers().areStated);
}

TEST_F(StatedLayersTest, StandAboveWhatWasHeard) {
  const DdpMessages model = ddpMessages("resnet50");
  const uint64_t count = model.counts[0];
  const StatedLayers said = stated("0,10,1\n0," + std::to_string(count - 10) + ",2\n1,20\n");
  EXPECT_EQ(log_, "");
  BucketLayers layers("communicator 1", resources(), 2, said);
  Program(layers).sendAll(model);
  EXPECT_EQ(test::fakeDevice().count("copy"), 0u) << "there is no need to listen";
  const BucketLayout expected{{10, 1}, {count - 10, 2}};
  EXPECT_EQ(layers.of(kNoPeriod, count, {}), expected);
  EXPECT_EQ(layers.of(kNoPeriod, model.counts[1], {}), BucketLayout());
  const std::vector<GradientCall> period{{ncclFloat32, 20, 0}, {ncclFloat32, count, 1}};
  EXPECT_EQ(layers.of(period, count, 1), expected);
  EXPECT_EQ(layers.of(periodOf(model), count, 0), BucketLayout());
}

TEST_F(StatedLayersTest, BucketsOfOneSizeNeedAPlace) {
  const StatedLayers said = stated("0,10,1\n0,20,2\n1,30,2\n2,5,1\n");
  BucketLayers layers("communicator 1", resources(), 2, said);
  EXPECT_EQ(layers.of(kNoPeriod, 30, {}), BucketLayout());
  const std::vector<GradientCall> period{
      {ncclFloat32, 30, 0}, {ncclFloat32, 30, 1}, {ncclFloat32, 5, {}}};
  EXPECT_EQ(layers.of(period, 30, 0), (BucketLayout{{10, 1}, {20, 2}}));
  EXPECT_EQ(layers.of(period, 30, 1), (BucketLayout{{30, 2}}));
}

TEST_F(StatedLayersTest, ABadFileIsNamedAndLeavesNothing) {
  const StatedLayers said = stated("0,10,1\n\n0,many,1\n");
  EXPECT_TRUE(said.areStated);
  EXPECT_TRUE(said.buckets.empty());
  EXPECT_NE(log_.find("CINCH_LAYERS"), std::string::npos) << log_;
  EXPECT_NE(log_.find("line 3: 'many' should be"), std::string::npos) << log_;
  BucketLayers layers("communicator 1", resources(), 2, said);
  EXPECT_EQ(layers.of(kNoPeriod, 10, {}), BucketLayout());
  const DdpMessages model = ddpMessages("gpt2");
  Program(layers).sendAll(model);
  EXPECT_EQ(layers.of(periodOf(model), model.counts[0], 0), BucketLayout());
}

TEST_F(StatedLayersTest, SoIsAMissingOrEndlessOne) {
  for (const char* path : {"/nonexistent/layers.csv", "/", "/dev/zero"}) {
    testing::internal::CaptureStdout();
    const StatedLayers said = readStatedLayers(path);
    const std::string log = testing::internal::GetCapturedStdout();
    EXPECT_TRUE(said.areStated);
    EXPECT_TRUE(said.buckets.empty());
    EXPECT_NE(log.find(path), std::string::npos) << log;
  }
  stated(std::string(9 << 20, '\n'));
  EXPECT_NE(log_.find("longer than"), std::string::npos) << log_;
}

}  // namespace
}  // namespace cinch
