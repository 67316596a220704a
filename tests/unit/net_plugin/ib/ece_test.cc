// What two ends of a queue agree on beyond the standard (ECE).
#include <algorithm>

#include "verbs_hosts.h"

namespace cinch::net::ib {
namespace {

using Options = std::vector<uint32_t>;

HostOptions withEce() {
  HostOptions options{.nQueues = 2};
  options.provider.ece = {{0, 0b1110}, {1, 0b1100}, {2, 0b0111}, {3, 0b0101}};
  return options;
}

// At both devices of the connecting side, then at those of the accepting one.
std::vector<Options> agreed(const HostOptions& options) {
  VerbsHosts hosts(options);
  EXPECT_TRUE(hosts.connect());
  Traffic traffic(hosts, {.nGroups = 5});
  traffic.run();
  EXPECT_TRUE(traffic.isComplete()) << traffic.sendError() << traffic.receiveError();
  std::vector<Options> all;
  for (int device = 0; device < 4; ++device) all.push_back(hosts.provider.eceOf(device));
  return all;
}

const Options kNothing = {0, 0};

TEST(Ece, IsWhatBothEndsCanDo) {
  const Options first = {0b0110, 0b0110}, second = {0b0100, 0b0100};
  EXPECT_EQ(agreed(withEce()), (std::vector<Options>{first, second, first, second}));
}

TEST(Ece, IsNothingWhereOneEndHasNone) {
  for (const int device : {0, 2}) {
    HostOptions options = withEce();
    options.provider.ece.erase(device);
    const Options second = {0b0100, 0b0100};
    EXPECT_EQ(agreed(options), (std::vector<Options>{kNothing, second, kNothing, second}));
  }
}

TEST(Ece, IsNothingWhereOneEndDoesWithout) {
  for (const char* devices : {"fake0", "fake2"}) {
    HostOptions options = withEce();
    options.change = [&](Settings& it) { it.ece = !it.devices.starts_with(devices); };
    EXPECT_EQ(agreed(options), std::vector<Options>(4, kNothing));
  }
}

TEST(Ece, IsNothingInAnOldLibrary) {
  HostOptions options = withEce();
  options.provider.isOld = true;
  EXPECT_EQ(agreed(options), std::vector<Options>(4, kNothing));
}

TEST(Ece, OfAnotherVendorMeansSomethingElse) {
  HostOptions options = withEce();
  options.provider.eceStranger = 2;
  const Options second = {0b0100, 0b0100};
  EXPECT_EQ(agreed(options), (std::vector<Options>{kNothing, second, kNothing, second}));
}

TEST(Ece, IsNotForTheQueueOfFlushes) {
  HostOptions options = withEce();
  options.memory = FakeMemory::byDmabuf;
  Options accepting = agreed(options)[2];
  std::sort(accepting.begin(), accepting.end());
  EXPECT_EQ(accepting, (Options{0, 0b0110, 0b0110}));
}

TEST(Ece, ThatCannotBeSetSaysHowToDoWithout) {
  HostOptions options = withEce();
  options.provider.eceError = EIO;
  VerbsHosts hosts(options);
  Handle handle{};
  const auto listener = hosts.receiving.devices.front()->listen(handle);
  ASSERT_TRUE(listener.ok());
  std::string why;
  for (int i = 0; i < 10 && why.empty(); ++i) {
    ASSERT_TRUE(hosts.sending.devices.front()->connect(handle, -1).ok());
    const auto accepted = listener.value()->accept();
    if (!accepted) why = accepted.error().message;
  }
  EXPECT_NE(why.find("fake2:1: a queue pair cannot do what its peer offers (ECE of vendor 0x15b3, "
                     "options 0xe)"),
            std::string::npos)
      << why;
  EXPECT_NE(why.find("NCCL_IB_ECE_ENABLE=0"), std::string::npos) << why;
}

}  // namespace
}  // namespace cinch::net::ib
