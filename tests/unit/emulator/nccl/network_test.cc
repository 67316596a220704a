// Which network a communicator gets, with the trivial plugins as candidates.
#include "emulator/nccl/network.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "emulator/nccl/debug.h"
#include "tests/support/unloading.h"

namespace cinch::emulator {
namespace {

bool isLoaded(int version) {
  const std::string file = "libnccl-net-trivial_v" + std::to_string(version) + ".so";
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

// The name of what is chosen, or the error.
std::string choose(Networks& networks, const std::string& wanted = "") {
  const Result<Network> network = networks.choose(wanted, 1, kNetNoTrafficClass);
  return network ? network.value().transport().name() : network.error().message;
}

class NetworkChoice : public testing::Test {
 protected:
  ~NetworkChoice() override {
    unsetenv("TRIVIAL_NET_FAULT");
    unsetenv("NCCL_NET");
  }
  static void breakPlugins(const char* how) { setenv("TRIVIAL_NET_FAULT", how, 1); }

  const std::string warningBefore_ = lastError();
};

constexpr char kNone[] = "Failed to initialize any NET plugin";

TEST_F(NetworkChoice, IsTheBuiltInOneWithoutPlugins) {
  Networks networks({}, 0);
  EXPECT_EQ(choose(networks), "Socket");
  EXPECT_EQ(choose(networks, "socket"), "Socket");
  EXPECT_EQ(choose(networks, "IB"), kNone);
}

TEST_F(NetworkChoice, FailsAsInvalidUsage) {
  Networks networks({}, 0);
  const Result<Network> network = networks.choose("Cinch", 1, kNetNoTrafficClass);
  ASSERT_FALSE(network.ok());
  EXPECT_EQ(network.error().status, Status::invalidUsage);
}

TEST_F(NetworkChoice, IsTheFirstPluginThatIsThere) {
  Networks networks({"missing", "trivial_v10", "trivial_v8"}, 0);
  EXPECT_EQ(choose(networks), "Trivial_v10");
  EXPECT_FALSE(isLoaded(8)) << "nobody had to look at it";
}

TEST_F(NetworkChoice, IgnoresTheCaseOfNames) {
  Networks networks({"trivial_v8", "trivial_v12"}, 0);
  EXPECT_EQ(choose(networks, "tRiViAl_V12"), "Trivial_v12");
}

TEST_F(NetworkChoice, RulesOutAllOtherPluginsOnceOneIsChosen) {
  Networks networks({"trivial_v8", "trivial_v12"}, 0);
  EXPECT_EQ(choose(networks, "Trivial_v12"), "Trivial_v12");
  EXPECT_EQ(choose(networks, "Trivial_v8"), kNone);
  EXPECT_EQ(choose(networks), "Trivial_v12");
  EXPECT_EQ(choose(networks, "Socket"), "Socket");
}

TEST_F(NetworkChoice, IsNoLibraryWithoutATable) {
  Networks networks({"libc.so.6"}, 0);
  EXPECT_EQ(choose(networks), "Socket");
}

TEST_F(NetworkChoice, PassesOverAPluginThatDoesNotStart) {
  for (const char* fault : {"init", "devices"}) {
    breakPlugins(fault);
    Networks networks({"trivial_v9", "trivial_v11"}, 0);
    EXPECT_EQ(choose(networks), "Socket") << fault;
    EXPECT_EQ(choose(networks, "Trivial_v11"), kNone) << fault;
    unsetenv("TRIVIAL_NET_FAULT");
    EXPECT_EQ(choose(networks), "Socket") << "it is not tried again";
  }
}

TEST_F(NetworkChoice, PassesOverADeviceThatItCannotServe) {
  breakPlugins("offload");
  Networks networks({"trivial_v12"}, 0);
  EXPECT_EQ(choose(networks), "Socket");
  EXPECT_STREQ(lastError(), "NET/Trivial_v12 : unknown device type 99");
  EXPECT_EQ(choose(networks, "Trivial_v12"), kNone);
}

TEST_F(NetworkChoice, UnloadsWithTheLastUseAndLoadsAnew) {
  for (const int version : {8, 9, 10, 11, 12}) {
    const std::string name = "trivial_v" + std::to_string(version);
    Networks networks({name}, 0);
    for (int round = 0; round < 2; ++round) {
      {
        Result<Network> first = networks.choose(name, 1, 0);
        ASSERT_TRUE(first.ok());
        EXPECT_EQ(strncasecmp(choose(networks).c_str(), name.c_str(), 20), 0);
        EXPECT_TRUE(isLoaded(version));
        const Network moved = std::move(first.value());
        EXPECT_TRUE(isLoaded(version));
      }
      EXPECT_TRUE(kLibrariesStay || !isLoaded(version)) << version;
    }
  }
  EXPECT_EQ(lastError(), warningBefore_);
}

TEST_F(NetworkChoice, KeepsWhatIsHeld) {
  Networks networks({"trivial_v12"}, 1);
  EXPECT_EQ(choose(networks), "Trivial_v12");
  EXPECT_TRUE(isLoaded(12));
  EXPECT_EQ(choose(networks), "Trivial_v12");
}

TEST_F(NetworkChoice, TakesTheNameFromTheEnvironmentFirst) {
  EXPECT_EQ(wantedNetwork(""), "");
  EXPECT_EQ(wantedNetwork("Configured"), "Configured");
  setenv("NCCL_NET", "Cinch", 1);
  EXPECT_EQ(wantedNetwork("Configured"), "Cinch");
}

}  // namespace
}  // namespace cinch::emulator
