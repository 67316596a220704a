#include "interpose/comm/registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/interpose/support/fake_real.h"

namespace cinch {
namespace {

ncclComm_t handle(uintptr_t value) {
  return reinterpret_cast<ncclComm_t>(value);
}

std::shared_ptr<CommState> makeState(ncclComm_t comm, CommStats& stats) {
  return std::make_shared<CommState>(test::fakeRealTable(), comm, 0, 2, stats);
}

TEST(Registry, FindsWhatWasAddedUntilItIsTaken) {
  CommStats stats{CommLabel{"communicator", 0, 2, "", {}}};
  Registry& registry = Registry::instance();
  const auto state = makeState(handle(0x10), stats);
  EXPECT_EQ(registry.find(handle(0x10)), nullptr);
  registry.add(state);
  EXPECT_EQ(registry.find(handle(0x10)), state);
  EXPECT_EQ(registry.find(handle(0x20)), nullptr);
  EXPECT_EQ(registry.take(handle(0x10)), state);
  EXPECT_EQ(registry.find(handle(0x10)), nullptr);
  EXPECT_EQ(registry.take(handle(0x10)), nullptr);
}

TEST(Registry, AReusedHandleIsANewCommunicator) {
  CommStats stats{CommLabel{"communicator", 0, 2, "", {}}};
  Registry& registry = Registry::instance();
  registry.add(makeState(handle(0x30), stats));
  const auto second = makeState(handle(0x30), stats);
  registry.add(second);
  EXPECT_EQ(registry.take(handle(0x30)), second);
}

TEST(Registry, ACallKeepsTheStateThatAnotherThreadTakes) {
  CommStats stats{CommLabel{"communicator", 0, 2, "", {}}};
  Registry& registry = Registry::instance();
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!over.load())
        if (const auto state = registry.find(handle(0x40)); state && state->nRanks != 2) ++wrong;
    });
  for (int i = 0; i < 500; ++i) {
    registry.add(makeState(handle(0x40), stats));
    registry.take(handle(0x40));
  }
  over.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace cinch
