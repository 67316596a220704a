#include "net_plugin/ib/stream.h"

#include "verbs_hosts.h"

namespace cinch::net::ib {
namespace {

// A message of which the receiving side has all, while its sender may never be told by its device.
struct InDoubt {
  explicit InDoubt(uint64_t seed)
      : hosts({.devicesPerHost = 1, .provider = {.seed = seed, .nDevices = 4}}) {
    EXPECT_TRUE(hosts.connect());
    source = hosts.sender->registerMemory(from.data(), from.size(), MemoryKind::host).value();
    void* sink = hosts.receiver->registerMemory(to.data(), to.size(), MemoryKind::host).value();
    const Buffer buffer = {to.data(), to.size(), 0, sink};
    receiving = hosts.receiver->receive({&buffer, 1}).value();
    while (sending == nullptr) {
      sending = hosts.sender->send(from.data(), from.size(), 0, source).value();
    }
  }

  // False where it was lost on its way.
  bool arrives() {
    size_t nBytes = 0;
    for (int i = 0; i < 300; ++i) {
      const Result<bool> isDone = receiving->test(&nBytes);
      if (!isDone || isDone.value()) return isDone.ok();
    }
    return false;
  }

  VerbsHosts hosts;
  std::array<uint8_t, 100> from{};
  std::array<uint8_t, 100> to{};
  void* source = nullptr;
  Request* receiving = nullptr;
  Request* sending = nullptr;
};

// The last word of a receiver that closes is that all is there. It counts, though the sender's
// device fails and nobody is left to be told of that.
TEST(Stream, HearsThatAllIsThereThoughItsDeviceIsLost) {
  size_t nArrived = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    InDoubt run(seed);
    run.hosts.provider.setFaults(0, .3, 0);
    if (!run.arrives()) continue;
    ++nArrived;
    run.hosts.receiver.reset();
    size_t nBytes = 0;
    Result<bool> isDone = false;
    while (isDone && !isDone.value()) isDone = run.sending->test(&nBytes);
    ASSERT_TRUE(isDone.ok()) << "seed " << seed << ": " << isDone.error().message;
    EXPECT_EQ(nBytes, 100u);
  }
  EXPECT_GT(nArrived, 10u);
}

// Tokens are for the connection that gave them.
TEST(Stream, TakesBackOnlyWhatItKnows) {
  VerbsHosts hosts;
  ASSERT_TRUE(hosts.connect());
  std::vector<uint8_t> memory(100);
  void* token = hosts.sender->registerMemory(memory.data(), 100, MemoryKind::host).value();
  EXPECT_FALSE(hosts.receiver->deregisterMemory(token).ok());
  EXPECT_TRUE(hosts.sender->deregisterMemory(token).ok());
  const Result<void> again = hosts.sender->deregisterMemory(token);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().message, "memory that was not registered here");
}

TEST(Region, HoldsWhatIsWithinIt) {
  const Region region{.begin = 1000, .end = 1100, .parts = {}};
  const auto holds = [&](uintptr_t address, size_t n) {
    return region.holds(reinterpret_cast<void*>(address), n);
  };
  EXPECT_TRUE(holds(1000, 100));
  EXPECT_TRUE(holds(1099, 1));
  EXPECT_TRUE(holds(1100, 0));
  EXPECT_FALSE(holds(1000, 101));
  EXPECT_FALSE(holds(999, 1));
  EXPECT_FALSE(holds(1099, 2));
  EXPECT_FALSE(holds(1101, 0));
  EXPECT_FALSE(holds(1050, SIZE_MAX));
  EXPECT_FALSE(holds(UINTPTR_MAX, 1));
}

}  // namespace
}  // namespace cinch::net::ib
