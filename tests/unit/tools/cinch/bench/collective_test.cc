#include "tools/cinch/bench/collective.h"

#include <gtest/gtest.h>

namespace cinch::bench {
namespace {

TEST(ParseSize, TakesSuffixes) {
  EXPECT_EQ(parseSize("8"), 8u);
  EXPECT_EQ(parseSize("64K"), 65536u);
  EXPECT_EQ(parseSize("64k"), 65536u);
  EXPECT_EQ(parseSize("1.5M"), 1572864u);
  EXPECT_EQ(parseSize("2G"), uint64_t{2} << 30);
  EXPECT_EQ(parseSize("1T"), uint64_t{1} << 40);
  EXPECT_EQ(parseSize("0"), 0u);
}

TEST(ParseSize, RefusesTheRest) {
  for (const char* text :
       {"", "K", "-8", "8X", "8KB", "8 K", "0.3", "nan", "inf", "9999999T", "1e99"})
    EXPECT_FALSE(parseSize(text).has_value()) << text;
}

TEST(Sweep, MultipliesOrAdds) {
  using Sizes = std::vector<uint64_t>;
  EXPECT_EQ((Sweep{8, 64, 0, 2}.sizes()), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ((Sweep{10, 40, 15, 1}.sizes()), (Sizes{10, 25, 40}));
  EXPECT_EQ((Sweep{8, 8, 0, 1}.sizes()), (Sizes{8}));
  EXPECT_EQ((Sweep{2, 5, 0, 1.1}.sizes()), (Sizes{2, 3, 4, 5}));
  EXPECT_TRUE((Sweep{9, 8, 1, 1}.sizes().empty()));
}

TEST(Shape, AllReduce) {
  const Shape shape = shapeOf(CallKind::allReduce, 1000, 4, 4);
  EXPECT_EQ(shape.count, 250u);
  EXPECT_EQ(shape.sendCount(), 250u);
  EXPECT_EQ(shape.receiveCount(), 250u);
  EXPECT_EQ(shape.bytes(), 1000u);
  EXPECT_EQ(shape.inPlaceOffset(3), 0u);
  EXPECT_DOUBLE_EQ(shape.ringBytes(), 1500);
}

TEST(Shape, ShardsBeginAtSixteenBytes) {
  const Shape scatter = shapeOf(CallKind::reduceScatter, 1000, 4, 4);
  EXPECT_EQ(scatter.count, 60u);
  EXPECT_EQ(scatter.sendCount(), 240u);
  EXPECT_EQ(scatter.receiveCount(), 60u);
  EXPECT_EQ(scatter.bytes(), 960u);
  EXPECT_EQ(scatter.inPlaceOffset(2), 120u);
  const Shape gather = shapeOf(CallKind::allGather, 1000, 2, 4);
  EXPECT_EQ(gather.count, 120u);
  EXPECT_EQ(gather.sendCount(), 120u);
  EXPECT_EQ(gather.receiveCount(), 480u);
  EXPECT_DOUBLE_EQ(gather.ringBytes(), 720);
  EXPECT_EQ(shapeOf(CallKind::allGather, 8, 4, 4).bytes(), 0u);
}

TEST(Bandwidth, FollowsFromTheTime) {
  const Bandwidth all = bandwidthOf(shapeOf(CallKind::allReduce, 1 << 20, 4, 4), 1048.576);
  EXPECT_DOUBLE_EQ(all.algorithm, 1);
  EXPECT_DOUBLE_EQ(all.bus, 1.5);
  const Bandwidth gather = bandwidthOf(shapeOf(CallKind::allGather, 1 << 20, 4, 4), 1048.576);
  EXPECT_DOUBLE_EQ(gather.algorithm, 1);
  EXPECT_DOUBLE_EQ(gather.bus, 0.75);
  EXPECT_EQ(bandwidthOf(shapeOf(CallKind::allReduce, 8, 4, 4), 0).bus, 0);
}

TEST(Names, AreThoseOfNcclTests) {
  EXPECT_EQ(findCollective("all_gather")->kind, CallKind::allGather);
  EXPECT_EQ(findCollective("broadcast"), nullptr);
  EXPECT_EQ(findOperation("avg")->id, ncclAvg);
  EXPECT_EQ(operationsNamed("all").size(), 5u);
  EXPECT_EQ(operationsNamed("sum").size(), 1u);
  EXPECT_TRUE(operationsNamed("plus").empty());
  EXPECT_EQ(typesNamed("all").size(), 10u);
  EXPECT_EQ(typesNamed("half").front().id, ncclFloat16);
  EXPECT_TRUE(typesNamed("fp32").empty());
}

}  // namespace
}  // namespace cinch::bench
