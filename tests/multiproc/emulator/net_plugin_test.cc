// The emulator over net plugins: the trivial plugin of every version, which checks from its side
// that NCCL's protocol is kept.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/multiproc/emulator/collective_checks.h"
#include "tests/multiproc/emulator/support.h"
#include "tests/support/unloading.h"

namespace cinch::test {
namespace {

// Sets variables for the ranks of one test.
class Environment {
 public:
  using Variable = std::pair<std::string, std::string>;

  explicit Environment(std::vector<Variable> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }

 private:
  const std::vector<Variable> variables_;
};

std::string fileText(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool isLoaded(const std::string& plugin) {
  return fileText("/proc/self/maps").find("libnccl-net-" + plugin + ".so") != std::string::npos;
}

// The plugin warns of a caller that breaks the protocol, and whatever else goes wrong is a warning
// too.
void expectNoWarning() {
  EXPECT_STREQ(ncclGetLastError(nullptr), "");
}

void expectLastError(const std::string& part) {
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

// Element `rank` of what every rank sends becomes element `rank` of what this one receives.
void checkAlltoAll(const RankProcess& process, ncclComm_t comm) {
  constexpr size_t kCount = 70001;
  std::vector<int> sent(kCount * process.nRanks()), received(sent.size(), -1), wanted;
  for (int other = 0; other < process.nRanks(); ++other) {
    std::fill_n(sent.begin() + other * kCount, kCount, 100 * process.rank() + other);
    wanted.insert(wanted.end(), kCount, 100 * other + process.rank());
  }
  onStream([&](cudaStream_t stream) {
    return ncclAlltoAll(sent.data(), received.data(), kCount, ncclInt32, comm, stream);
  });
  EXPECT_EQ(received, wanted);
}

class NetPlugin : public testing::TestWithParam<int> {
 protected:
  std::string plugin() const { return "trivial_v" + std::to_string(GetParam()); }
  // The name of the network in another case than the plugin's own.
  Environment chosen() const {
    return Environment({{"NCCL_NET_PLUGIN", plugin()}, {"NCCL_NET", plugin()}});
  }
};

TEST_P(NetPlugin, CarriesAllCollectives) {
  const Environment environment = chosen();
  runRanks(4, [&](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    ASSERT_NE(comm, nullptr);
    EXPECT_TRUE(isLoaded(plugin()));
    for (const size_t count : {0, 1, 333, 65537, 199999}) {
      checkAll({ncclFloat32, ncclSum, count, 4}, process.rank(), comm);
    }
    checkAll({ncclBfloat16, ncclMax, 4099, 4}, process.rank(), comm);
    checkAlltoAll(process, comm);
    EXPECT_NCCL(ncclCommDestroy(comm));
    expectNoWarning();
  });
}

TEST_P(NetPlugin, IsUnloadedAndLoadedAnew) {
  const Environment environment = chosen();
  runRanks(2, [&](RankProcess& process) {
    for (int round = 0; round < 3; ++round) {
      const ncclComm_t comm = process.createCommunicator();
      EXPECT_TRUE(isLoaded(plugin()));
      EXPECT_EQ(sumOver(comm, process.rank() + round), 1 + 2 * round);
      EXPECT_NCCL(ncclCommDestroy(comm));
      EXPECT_TRUE(kLibrariesStay || !isLoaded(plugin()));
    }
    expectNoWarning();
  });
}

// One of two communicators ends, in either order; the other one goes on.
TEST_P(NetPlugin, StaysUntilTheLastCommunicatorEnds) {
  const Environment environment = chosen();
  runRanks(3, [&](RankProcess& process) {
    const ncclComm_t first = process.createCommunicator();
    ncclComm_t second = nullptr;
    EXPECT_NCCL(ncclCommSplit(first, 0, -process.rank(), &second, nullptr));
    EXPECT_EQ(sumOver(first, 1), 3);
    EXPECT_NCCL(ncclCommDestroy(first));
    EXPECT_TRUE(isLoaded(plugin()));
    EXPECT_EQ(sumOver(second, 2), 6);
    EXPECT_NCCL(ncclCommDestroy(second));
    EXPECT_TRUE(kLibrariesStay || !isLoaded(plugin()));
    expectNoWarning();
  });
}

// The peer does not call, so that sends and receives are outstanding.
TEST_P(NetPlugin, IsClosedWithRequestsInFlight) {
  const Environment environment = chosen();
  runRanks(2, [&](RankProcess& process) {
    const ncclComm_t comm = process.createCommunicator();
    EXPECT_EQ(sumOver(comm, 1), 2);
    std::vector<float> values(4 << 20, 1);
    Stream stream;
    if (process.rank() == 0) {
      EXPECT_NCCL(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum,
                                comm, stream));
      EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    }
    if (process.rank() == 1) process.barrier();
    EXPECT_NCCL(ncclCommAbort(comm));
    if (process.rank() == 0) process.barrier();
    stream.wait();
    EXPECT_TRUE(kLibrariesStay || !isLoaded(plugin()));
    expectNoWarning();
  });
}

TEST_P(NetPlugin, ReportsAPeerThatIsKilled) {
  const Environment environment = chosen();
  runRanks(3,
           [&](RankProcess& process) {
             const ncclComm_t comm = process.createCommunicator();
             EXPECT_EQ(sumOver(comm, 1), 3);
             process.barrier();
             if (process.rank() == 0) process.kill(1);
             if (process.rank() == 1) pause();
             int value = 1;
             EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr));
             ncclResult_t state = ncclSuccess;
             while (state == ncclSuccess) {
               EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
               std::this_thread::yield();
             }
             EXPECT_EQ(state, ncclRemoteError);
             expectLastError("that process exited or the network failed");
             EXPECT_NCCL(ncclCommAbort(comm));
             EXPECT_TRUE(kLibrariesStay || !isLoaded(plugin()));
           },
           {.expectedToDie = 1});
}

// Where a plugin cannot be used, the built-in network is, and only the log says so.
TEST_P(NetPlugin, IsReplacedWhereItFails) {
  char folder[] = "/tmp/net_plugin_test.XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  for (const char* fault : {"init", "devices"}) {
    const Environment environment({{"NCCL_NET_PLUGIN", plugin()},
                                   {"TRIVIAL_NET_FAULT", fault},
                                   {"NCCL_DEBUG", "INFO"},
                                   {"NCCL_DEBUG_FILE", std::string(folder) + "/%p"}});
    runRanks(2, [&](RankProcess& process) {
      const ncclComm_t comm = process.createCommunicator();
      EXPECT_EQ(sumOver(comm, 1 + process.rank()), 3);
      EXPECT_NCCL(ncclCommDestroy(comm));
      expectNoWarning();
      const std::string log = fileText(std::string(folder) + "/" + std::to_string(getpid()));
      EXPECT_NE(log.find("Failed to initialize NET plugin Trivial"), std::string::npos) << log;
      EXPECT_NE(log.find("Using network Socket"), std::string::npos) << log;
    });
  }
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Versions, NetPlugin, testing::Range(8, 13));

TEST(NetPluginChoice, FailsWhereTheWantedNetworkIsMissing) {
  const Environment environment({{"NCCL_NET_PLUGIN", "trivial_v12"}, {"NCCL_NET", "Cinch"}});
  runRanks(2, [](RankProcess& process) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, process.exchangeId(), process.rank()), ncclInvalidUsage);
    EXPECT_EQ(comm, nullptr);
    expectLastError("Failed to initialize any NET plugin");
    process.barrier();
  });
}

TEST(NetPluginChoice, FailsWhereTheWantedNetworkDoesNotStart) {
  const Environment environment({{"NCCL_NET_PLUGIN", "trivial_v12"},
                                 {"NCCL_NET", "Trivial_v12"},
                                 {"TRIVIAL_NET_FAULT", "devices"}});
  runRanks(1, [](RankProcess& process) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 1, process.exchangeId(), 0), ncclInvalidUsage);
    expectLastError("Failed to initialize any NET plugin");
  });
}

TEST(NetPluginChoice, FailsWhereTheLimitsMakeNoSense) {
  const Environment environment(
      {{"NCCL_NET_PLUGIN", "trivial_v12"}, {"TRIVIAL_NET_FAULT", "limit"}});
  runRanks(2, [](RankProcess& process) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, process.exchangeId(), process.rank()), ncclInternalError);
    expectLastError("maxP2pBytes");
    EXPECT_TRUE(kLibrariesStay || !isLoaded("trivial_v12"));
    process.barrier();
  });
}

// The configuration asks for a network by name; the environment has the last word.
TEST(NetPluginChoice, FollowsTheConfiguration) {
  if (kLibrariesStay) GTEST_SKIP() << "whether a network is used shows in what is loaded";
  const Environment environment({Environment::Variable("NCCL_NET_PLUGIN", "trivial_v12")});
  runRanks(2, [](RankProcess& process) {
    const auto usesPlugin = [&](const char* wanted) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.netName = wanted;
      ncclComm_t comm = nullptr;
      EXPECT_NCCL(ncclCommInitRankConfig(&comm, 2, process.exchangeId(), process.rank(), &config));
      EXPECT_EQ(sumOver(comm, 1), 2);
      const bool plugin = isLoaded("trivial_v12");
      EXPECT_NCCL(ncclCommDestroy(comm));
      return plugin && !isLoaded("trivial_v12");  // unloaded by the communicator that used it
    };
    EXPECT_TRUE(usesPlugin("TRIVIAL_V12"));
    EXPECT_FALSE(usesPlugin("socket"));
    EXPECT_TRUE(usesPlugin(nullptr));
    setenv("NCCL_NET", "Socket", 1);
    EXPECT_FALSE(usesPlugin("Trivial_v12"));
    expectNoWarning();
  });
}

TEST(NetPluginChoice, KeepsAPluginThatIsHeld) {
  const Environment environment(
      {{"NCCL_NET_PLUGIN", "trivial_v11"}, {"NCCL_NET_PLUGIN_REF_COUNT", "1"}});
  runRanks(2, [](RankProcess& process) {
    for (int round = 0; round < 2; ++round) {
      const ncclComm_t comm = process.createCommunicator();
      EXPECT_EQ(sumOver(comm, 1), 2);
      EXPECT_NCCL(ncclCommDestroy(comm));
      EXPECT_TRUE(isLoaded("trivial_v11"));
    }
    expectNoWarning();
  });
}

}  // namespace
}  // namespace cinch::test
