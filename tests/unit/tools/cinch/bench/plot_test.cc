#include "tools/cinch/bench/plot.h"

#include <gtest/gtest.h>

namespace cinch::bench {
namespace {

Row rowOf(uint64_t count) {
  Row row{{CallKind::allReduce, 2, 4, count}, "float", "sum", {}, {}};
  row.outOfPlace.bandwidth.bus = 2.5;
  row.outOfPlace.ratio = 4;
  return row;
}

TEST(Plot, HasARowForEachSize) {
  const std::string script = plotScript({}, {rowOf(256), rowOf(0)}, 8, "it's.png");
  EXPECT_NE(script.find("set terminal pngcairo"), std::string::npos);
  EXPECT_NE(script.find("set output 'it''s.png'"), std::string::npos);
  EXPECT_NE(script.find("$data << END\n1024 2.5 0 4 0 0\nEND\n"), std::string::npos) << script;
  EXPECT_NE(script.find("bound of a 8 Gbit/s link"), std::string::npos);
}

TEST(Plot, WithoutLinkHasNoBoundOfOne) {
  const std::string script = plotScript({}, {rowOf(256)}, 0, "x.svg");
  EXPECT_NE(script.find("set terminal svg"), std::string::npos);
  EXPECT_EQ(script.find("Gbit/s"), std::string::npos);
}

}  // namespace
}  // namespace cinch::bench
