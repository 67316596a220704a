#include "interpose/policy/model_size.h"

#include <gtest/gtest.h>

#include "interpose/policy/evidence.h"

namespace cinch {
namespace {

constexpr uint64_t kParameters = 1 << 20;

class Model {
 public:
  Model& broadcast(uint64_t count, ncclDataType_t type = ncclFloat32, bool isNew = true) {
    return note({CallKind::broadcast, OpClass::none, type, count}, isNew);
  }
  Model& gather(uint64_t count) {
    return note({CallKind::allGather, OpClass::none, ncclFloat32, count});
  }
  Model& reduce() { return note({CallKind::allReduce, OpClass::sum, ncclFloat32, kParameters}); }
  uint64_t parametersFor(uint64_t reduced, bool areShards = false) const {
    return size.parametersFor(reduced, areShards);
  }

  ModelSize size;

 private:
  Model& note(const Signature& signature, bool isNew = true) {
    size.note(signature, signature.count > 1000, isNew);
    return *this;
  }
};

TEST(ModelSize, IsWhatIsBroadcastBeforeTheFirstReduction) {
  Model model;
  model.broadcast(kParameters).broadcast(10).broadcast(kParameters, ncclInt64);
  EXPECT_EQ(model.parametersFor(kParameters), kParameters + 10) << "small tensors, too";
  EXPECT_FALSE(model.size.hasReduced());
  model.reduce();
  EXPECT_TRUE(model.size.hasReduced());
  model.broadcast(kParameters, ncclFloat32, false);
  EXPECT_EQ(model.parametersFor(kParameters), kParameters + 10) << "buffers of each step";
}

TEST(ModelSize, IsWithoutSmallTensorsWhereOnlyTheLargeOnesAreReduced) {
  Model model;
  for (int i = 0; i < 100; ++i) model.broadcast(kParameters / 100).broadcast(500);
  const uint64_t large = kParameters / 100 * 100, all = large + 50'000;
  ASSERT_FALSE(isModel(large, all)) << "nearly 5 % are small";
  EXPECT_EQ(model.parametersFor(large), large);
  EXPECT_EQ(model.parametersFor(all), all) << "in one buffer";
  EXPECT_EQ(model.parametersFor(large / 2), all) << "no model";
  EXPECT_EQ(model.parametersFor(large, true), all) << "shards hold all of it";
  model.reduce().broadcast(2000);
  EXPECT_EQ(model.parametersFor(2000), 2000u) << "another model";
}

TEST(ModelSize, AnotherModelCountsAnew) {
  Model model;
  model.broadcast(kParameters).gather(5000).reduce().broadcast(2000).broadcast(3000);
  EXPECT_EQ(model.parametersFor(5000), 5000u);
  EXPECT_EQ(model.size.gathered(), 0u);
  EXPECT_FALSE(model.size.hasReduced());
  model.reduce().broadcast(10);
  EXPECT_EQ(model.parametersFor(5000), 5000u) << "a flag of an evaluation is no model";
  EXPECT_TRUE(model.size.hasReduced());
}

TEST(ModelSize, WhatIsReducedSaysOfWhichTypeBytesAre) {
  Model model;
  model.broadcast(4 * kParameters, ncclUint8);
  EXPECT_EQ(model.parametersFor(kParameters), kParameters);
  EXPECT_EQ(model.parametersFor(2 * kParameters), 2 * kParameters);
  EXPECT_EQ(model.parametersFor(3 * kParameters), 0u);
  EXPECT_EQ(model.parametersFor(kParameters, true), 0u) << "shards are not all of it";
  model.broadcast(kParameters).reduce();
  EXPECT_EQ(model.parametersFor(2 * kParameters), 2 * kParameters) << "with values beside them";
  EXPECT_EQ(model.parametersFor(kParameters), kParameters);
}

TEST(ModelSize, BytesThatAreBroadcastInEachStepAreNoParameters) {
  Model model;
  model.broadcast(4 * kParameters, ncclUint8).reduce();
  model.broadcast(500, ncclUint8, false).broadcast(5000, ncclUint8);
  EXPECT_EQ(model.parametersFor(kParameters), kParameters);
  model.broadcast(4 * kParameters, ncclUint8, false);
  EXPECT_EQ(model.parametersFor(kParameters), 0u) << "images";
}

TEST(ModelSize, GathersBeforeTheFirstReductionAreOfShards) {
  Model model;
  model.gather(5000).gather(100).gather(7000).reduce().gather(9000);
  EXPECT_EQ(model.size.gathered(), 12000u) << "large ones";
}

}  // namespace
}  // namespace cinch
