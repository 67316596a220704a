#include "net_plugin/ib/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace cinch::net::ib {
namespace {

TEST(SplitOver, GivesEachQueueItsPart) {
  EXPECT_EQ(splitOver(0, 2), (std::vector<Part>{{0, 0}, {0, 0}}));
  EXPECT_EQ(splitOver(1000, 1), (std::vector<Part>{{0, 1000}}));
  EXPECT_EQ(splitOver(1000, 2), (std::vector<Part>{{0, 512}, {512, 488}}));
  EXPECT_EQ(splitOver(100, 4), (std::vector<Part>{{0, 100}, {100, 0}, {100, 0}, {100, 0}}));
  EXPECT_EQ(splitOver(129, 2), (std::vector<Part>{{0, 128}, {128, 1}}));
}

TEST(SplitOver, CoversEveryMessageOnce) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t nBytes = random() >> (random() % 64);
    const size_t nQueues = 1 + random() % 16;
    uint64_t offset = 0;
    uint64_t longest = 0;
    for (const Part& part : splitOver(nBytes, nQueues)) {
      ASSERT_EQ(part.offset, offset);
      offset += part.nBytes;
      longest = std::max(longest, part.nBytes);
      ASSERT_TRUE(offset == nBytes || part.nBytes % kPartAlignment == 0);
    }
    ASSERT_EQ(offset, nBytes);
    ASSERT_LT(longest, nBytes / nQueues + 1 + kPartAlignment);
  }
}

}  // namespace
}  // namespace cinch::net::ib
