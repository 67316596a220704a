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

std::shared_ptr<CommState> makeState(ncclComm_t comm) {
  return std::make_shared<CommState>(test::fakeRealTable(), comm, 0, 2, Joining::passing("test"));
}

TEST(Registry, FindsWhatWasAddedUntilItIsTaken) {
  Registry& registry = Registry::instance();
  const auto state = makeState(handle(0x10));
  EXPECT_EQ(registry.find(handle(0x10)), nullptr);
  registry.add(state);
  EXPECT_EQ(registry.find(handle(0x10)), state);
  EXPECT_EQ(registry.find(handle(0x20)), nullptr);
  EXPECT_EQ(registry.take(handle(0x10)), state);
  EXPECT_EQ(registry.find(handle(0x10)), nullptr);
  EXPECT_EQ(registry.take(handle(0x10)), nullptr);
}

TEST(Registry, AReusedHandleIsANewCommunicator) {
  Registry& registry = Registry::instance();
  const auto first = makeState(handle(0x30));
  registry.add(first);
  first->fail(errorf(Status::systemError, "the first"));
  registry.take(handle(0x30));
  registry.add(makeState(handle(0x30)));
  EXPECT_NE(registry.find(handle(0x30)), first);
  EXPECT_EQ(registry.find(handle(0x30))->health(), ncclSuccess);
  registry.take(handle(0x30));
}

TEST(Registry, AHandleThatWasNeverTakenIsReplaced) {
  Registry& registry = Registry::instance();
  std::weak_ptr<CommState> first;
  {
    const auto state = makeState(handle(0x50));
    first = state;
    registry.add(state);
  }
  const auto second = makeState(handle(0x50));
  registry.add(second);
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(registry.take(handle(0x50)), second);
}

TEST(Registry, ACallKeepsTheStateThatAnotherThreadTakes) {
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
    registry.add(makeState(handle(0x40)));
    registry.take(handle(0x40));
  }
  over.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace cinch
