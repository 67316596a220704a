#include "net_plugin/ib/stream.h"

#include "verbs_hosts.h"

namespace cinch::net::ib {
namespace {

// The last word of a receiver that has closed is that all is there. It counts, though the sender's
// device fails in the same moment and nobody is left to be told.
TEST(Stream, HearsThatAllIsThereThoughItsDeviceIsLostAfter) {
  size_t nInDoubt = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    VerbsHosts hosts({.devicesPerHost = 1, .provider = {.seed = seed, .nDevices = 4}});
    ASSERT_TRUE(hosts.connect());
    Traffic traffic(hosts, {.seed = seed, .nGroups = 10, .maxGroup = 1});
    while (traffic.nReceived() < 10 && traffic.visit()) {
    }
    nInDoubt += !traffic.isComplete();
    hosts.receiver.reset();
    hosts.provider.killDevice(0);
    while (traffic.sendError().empty() && !traffic.isComplete()) traffic.visitSender();
    EXPECT_TRUE(traffic.isComplete()) << "seed " << seed << ": " << traffic.sendError();
  }
  EXPECT_GT(nInDoubt, 5u);
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
