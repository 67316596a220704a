#include "net_plugin/ib/region_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace cinch::net::ib {
namespace {

constexpr size_t kPage = 4096;

void* at(uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

// Remembers what is registered; no memory is touched.
struct FakeDevice {
  struct Range {
    uintptr_t begin;
    uintptr_t end;
  };
  std::map<ibv_mr*, Range> regions;
  std::vector<std::unique_ptr<ibv_mr>> all;
  bool isFull = false;

  RegionCache cache() {
    return RegionCache(
        [this](void* data, size_t nBytes) -> Result<ibv_mr*> {
          if (isFull) return errorf(Status::systemError, "no more memory may be locked");
          all.push_back(std::make_unique<ibv_mr>());
          const auto begin = reinterpret_cast<uintptr_t>(data);
          regions[all.back().get()] = {begin, begin + nBytes};
          return all.back().get();
        },
        [this](ibv_mr* region) -> Result<void> {
          EXPECT_EQ(regions.erase(region), 1u);
          return {};
        },
        kPage);
  }
};

TEST(RegionCache, RegistersWholePages) {
  FakeDevice device;
  RegionCache cache = device.cache();
  ibv_mr* region = cache.acquire(at(3 * kPage + 5), kPage).value();
  EXPECT_EQ(device.regions.at(region).begin, 3 * kPage);
  EXPECT_EQ(device.regions.at(region).end, 5 * kPage);
  EXPECT_TRUE(cache.release(region).ok());
  EXPECT_TRUE(device.regions.empty());
}

TEST(RegionCache, KnowsWhatItHasUntilAllHaveReleasedIt) {
  FakeDevice device;
  RegionCache cache = device.cache();
  ibv_mr* whole = cache.acquire(at(8 * kPage), 4 * kPage).value();
  EXPECT_EQ(cache.acquire(at(9 * kPage + 1), 17).value(), whole);
  EXPECT_EQ(cache.acquire(at(12 * kPage - 1), 1).value(), whole);
  EXPECT_NE(cache.acquire(at(12 * kPage - 1), 2).value(), whole);
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_TRUE(cache.release(whole).ok());
  EXPECT_TRUE(cache.release(whole).ok());
  EXPECT_EQ(device.regions.count(whole), 1u);
  EXPECT_TRUE(cache.release(whole).ok());
  EXPECT_EQ(device.regions.count(whole), 0u);
  EXPECT_FALSE(cache.release(whole).ok());
}

TEST(RegionCache, TakesNoBytesForAPage) {
  FakeDevice device;
  RegionCache cache = device.cache();
  ibv_mr* region = cache.acquire(at(2 * kPage), 0).value();
  EXPECT_EQ(device.regions.at(region).begin, 2 * kPage);
  EXPECT_EQ(device.regions.at(region).end, 3 * kPage);
}

TEST(RegionCache, RefusesWhatIsNoMemory) {
  FakeDevice device;
  RegionCache cache = device.cache();
  EXPECT_FALSE(cache.acquire(at(kPage), SIZE_MAX).ok());
  EXPECT_FALSE(cache.acquire(at(UINTPTR_MAX - 1), 1).ok());
  EXPECT_FALSE(cache.release(nullptr).ok());
  EXPECT_EQ(cache.size(), 0u);
}

TEST(RegionCache, KeepsNothingOfWhatFailed) {
  FakeDevice device;
  RegionCache cache = device.cache();
  device.isFull = true;
  const Result<ibv_mr*> region = cache.acquire(at(kPage), 1);
  ASSERT_FALSE(region.ok());
  EXPECT_EQ(region.error().message, "no more memory may be locked");
  EXPECT_EQ(cache.size(), 0u);
  device.isFull = false;
  EXPECT_TRUE(cache.acquire(at(kPage), 1).ok());
}

// What is acquired is always held by a registered region, and nothing is left behind.
TEST(RegionCache, HoldsWhatManyThreadsUse) {
  FakeDevice device;
  RegionCache cache = device.cache();
  const auto use = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<ibv_mr*> held;
    for (int i = 0; i < 2000; ++i) {
      if (held.size() < 20 && random() % 2) {
        const Result<ibv_mr*> region =
            cache.acquire(at((1 + random() % 30) * kPage), random() % (5 * kPage));
        ASSERT_TRUE(region.ok());
        held.push_back(region.value());
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        ASSERT_TRUE(cache.release(held.back()).ok());
        held.pop_back();
      }
    }
    for (ibv_mr* region : held) ASSERT_TRUE(cache.release(region).ok());
  };
  std::thread other(use, 1);
  use(2);
  other.join();
  EXPECT_TRUE(device.regions.empty());
  EXPECT_EQ(cache.size(), 0u);
}

}  // namespace
}  // namespace cinch::net::ib
