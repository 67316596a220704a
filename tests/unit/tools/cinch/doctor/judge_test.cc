#include "tools/cinch/doctor/judge.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cinch::doctor {
namespace {

const Check* worst(const Checks& checks, const std::string& name) {
  const Check* found = nullptr;
  for (const Check& check : checks) {
    if (check.name == name && (found == nullptr || check.verdict > found->verdict)) found = &check;
  }
  return found;
}

// The check has the verdict, and a fix with the word exactly where there is something to fix.
void expect(const Checks& checks, const std::string& name, Verdict verdict,
            const std::string& word = "") {
  const Check* check = worst(checks, name);
  ASSERT_NE(check, nullptr) << name;
  EXPECT_EQ(nameOf(check->verdict), nameOf(verdict)) << check->found;
  EXPECT_NE(check->fix.find(word), std::string::npos) << check->fix;
  const bool needsFix = verdict == Verdict::warn || verdict == Verdict::fail;
  EXPECT_EQ(check->fix.empty(), !needsFix) << check->fix;
}

SettingFacts settingsOf(std::initializer_list<std::pair<const std::string, std::string>> values) {
  SettingFacts facts;
  facts.variables = Variables(values);
  std::vector<std::string> texts;
  for (const auto& [name, value] : values) texts.push_back(name + "=" + value);
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  pointers.push_back(nullptr);
  const ParamSet set = readParams(pointers.data());
  facts.params = set.params;
  facts.warnings = set.warnings;
  return facts;
}

void expectConflict(std::initializer_list<std::pair<const std::string, std::string>> values,
                    Verdict verdict, const std::string& word = "",
                    const NetworkFacts& network = {}) {
  expect(judgeConflicts(settingsOf(values), network), "conflicts", verdict, word);
}

TEST(DoctorSettings, NamesWhatTheTableRefuses) {
  expect(judgeSettings(settingsOf({{"CINCH_CODEC", "q4"}})), "settings", Verdict::pass);
  const Checks unknown = judgeSettings(settingsOf({{"CINCH_CODEK", "q4"}}));
  expect(unknown, "settings", Verdict::fail, "config");
  EXPECT_NE(unknown[0].found.find("CINCH_CODEC"), std::string::npos);
  expect(judgeSettings(settingsOf({{"CINCH_CODEC", "q17"}})), "settings", Verdict::fail);
}

TEST(DoctorSettings, FilesHaveChecksOfTheirOwn) {
  SettingFacts facts = settingsOf({});
  facts.files = {{"key", "CINCH_NET_KEY_FILE=/k", "others can read it", "chmod 600"},
                 {"rules", "CINCH_RULES=q4", "", "not needed"}};
  expect(judgeSettings(facts), "key", Verdict::fail, "chmod");
  expect(judgeSettings(facts), "rules", Verdict::pass);
}

TEST(DoctorConflicts, Verbs) {
  NetworkFacts down, up;
  down.ports = {{"mlx5_0:1", "DOWN", "InfiniBand", ""}};
  up.ports = {{"mlx5_0:1", "ACTIVE", "InfiniBand", ""}};
  const std::pair<const std::string, std::string> plugin = {"NCCL_NET_PLUGIN", "cinch"};
  expectConflict({plugin, {"CINCH_NET", "verbs"}}, Verdict::fail, "socket");
  expectConflict({plugin, {"CINCH_NET", "verbs"}}, Verdict::fail, "port", down);
  expectConflict({plugin, {"CINCH_NET", "verbs"}}, Verdict::pass, "", up);
  expectConflict({plugin, {"CINCH_NET", "verbs"}, {"NCCL_IB_DISABLE", "1"}}, Verdict::fail, "unset",
                 up);
  expectConflict({plugin, {"CINCH_NET", "socket"}, {"NCCL_IB_DISABLE", "1"}}, Verdict::pass);
}

TEST(DoctorConflicts, NetPlugin) {
  expectConflict({{"CINCH_NET_FLOWS", "2"}}, Verdict::warn, "--net");
  expectConflict({{"CINCH_NET_FLOWS", "2"}, {"NCCL_NET_PLUGIN", "ofi"}}, Verdict::fail, "cinch");
  expectConflict({{"CINCH_NET_FLOWS", "2"}, {"NCCL_NET_PLUGIN", "cinch"}}, Verdict::pass);
  expectConflict({{"NCCL_NET_PLUGIN", "ofi"}}, Verdict::pass);
  expectConflict({{"NCCL_NET_PLUGIN", "cinch"}, {"NCCL_NET", "IB"}}, Verdict::fail, "NCCL_NET");
  expectConflict({{"NCCL_NET", "Cinch"}}, Verdict::fail, "NCCL_NET_PLUGIN=cinch");
  expectConflict({{"NCCL_NET", "cinch"}, {"NCCL_NET_PLUGIN", "/x/libnccl-net-cinch.so"}},
                 Verdict::pass);
}

TEST(DoctorConflicts, ModeAndChoices) {
  expectConflict({{"CINCH_MODE", "off"}, {"CINCH_CODEC", "q4"}}, Verdict::warn, "CINCH_MODE");
  expectConflict({{"CINCH_MODE", "off"}}, Verdict::pass);
  expectConflict({{"NCCL_ALGO", "Tree"}}, Verdict::warn, "ring");
  expectConflict({{"NCCL_ALGO", "Tree,RING"}}, Verdict::pass);
  expectConflict({{"NCCL_ALGO", "^NVLS"}}, Verdict::pass);
  expectConflict({{"NCCL_PROTO", "LL"}}, Verdict::pass);
  expectConflict({{"NCCL_PROTO", "LL"}, {"NCCL_TUNER_PLUGIN", "cinch"}}, Verdict::warn, "unset");
}

TEST(DoctorConflicts, Preloads) {
  SettingFacts facts = settingsOf({});
  facts.preloads = {{"libcinch.so", true, true, true}, {"libjemalloc.so", true, false, false}};
  expect(judgeConflicts(facts, {}), "conflicts", Verdict::pass);
  facts.preloads.push_back({"libother.so", true, false, true});
  expect(judgeConflicts(facts, {}), "conflicts", Verdict::warn, "LD_PRELOAD");
  facts.preloads.back() = {"libgone.so", false, false, false};
  expect(judgeConflicts(facts, {}), "conflicts", Verdict::warn, "LD_PRELOAD");
}

TEST(DoctorLibraries, MissingAndBroken) {
  const auto verdict = [](const char* name, const char* path, const char* fault,
                          const char* driver) {
    DriverFacts facts;
    facts.version = driver;
    return judgeLibraries({{name, path, fault}}, facts).front().verdict;
  };
  EXPECT_EQ(verdict("libcinch.so", "/l/libcinch.so", "", ""), Verdict::pass);
  EXPECT_EQ(verdict("libcinch.so", "/l/libcinch.so", "crashes", ""), Verdict::fail);
  EXPECT_EQ(verdict("libcinch.so", "", "", ""), Verdict::fail);
  EXPECT_EQ(verdict("libcinch-codec-cuda.so", "", "", ""), Verdict::warn);
  EXPECT_EQ(verdict("libcinch-codec-cuda.so", "", "", "580.1"), Verdict::fail);
  EXPECT_EQ(verdict("libcinch-codec-host.so", "", "", "580.1"), Verdict::warn);
  EXPECT_EQ(verdict("libnccl-net-cinch.so", "", "", ""), Verdict::warn);
}

TEST(DoctorNccl, Versions) {
  DriverFacts none, gpu;
  gpu.version = "580.1";
  expect(judgeNccl({}, none), "nccl", Verdict::warn, "install");
  expect(judgeNccl({}, gpu), "nccl", Verdict::fail, "install");
  expect(judgeNccl({{"/n", "2.28.9"}, {"/o", "2.1.2"}}, gpu), "nccl", Verdict::pass);
  expect(judgeNccl({{"/n", "2.17.1"}}, gpu), "nccl", Verdict::fail, "2.18");
  expect(judgeNccl({{"/n", "2.18.1"}}, gpu), "nccl", Verdict::pass);
  expect(judgeNccl({{"/n", "2.32.3"}}, gpu), "nccl", Verdict::pass);
  expect(judgeNccl({{"/n", "2.33.0"}}, gpu), "nccl", Verdict::warn, "observe");
  expect(judgeNccl({{"/n", ""}}, gpu), "nccl", Verdict::warn, "NCCL_DEBUG");
}

TEST(DoctorDriver, VersionAgainstTheCodec) {
  const auto with = [](const char* version, int cudaMajor, bool hasLibcuda = true) {
    DriverFacts facts;
    facts.version = version;
    facts.cudaMajor = cudaMajor;
    facts.hasLibcuda = hasLibcuda;
    return judgeDriver(facts);
  };
  expect(with("", 13), "driver", Verdict::warn, "install");
  expect(with("575.57.08", 13), "driver", Verdict::fail, "580");
  expect(with("580.65.06", 13), "driver", Verdict::pass);
  expect(with("520.1", 12), "driver", Verdict::fail, "525");
  expect(with("525.60.13", 12), "driver", Verdict::pass);
  expect(with("580.65.06", 13, false), "driver", Verdict::fail, "--gpus");
  expect(with("470.1", 0), "driver", Verdict::pass);
}

TEST(DoctorDriver, Gpus) {
  DriverFacts facts;
  expect(judgeDriver(facts), "gpus", Verdict::skip);
  facts.hasNvml = true;
  expect(judgeDriver(facts), "gpus", Verdict::fail, "nvidia-smi");
  facts.gpus = {{"H200", 18}, {"L4", 0}};
  const Checks checks = judgeDriver(facts);
  expect(checks, "gpus", Verdict::pass);
  EXPECT_NE(worst(checks, "gpus")->found.find("H200 (18 NVLinks), L4 (PCIe)"), std::string::npos);
}

TEST(DoctorNetwork, Interfaces) {
  NetworkFacts facts;
  expect(judgeNetwork(facts), "interfaces", Verdict::fail, "ip link");
  facts.interfaces = {{"lo", "127.0.0.1", true, false}, {"eth0", "10.0.0.1", false, false, 1000}};
  facts.list = "ib";
  expect(judgeNetwork(facts), "interfaces", Verdict::fail, "lo, eth0");
  facts.interfaces[0].isSelected = true;
  expect(judgeNetwork(facts), "interfaces", Verdict::warn, "NCCL_SOCKET_IFNAME");
  facts.interfaces[1].isSelected = true;
  expect(judgeNetwork(facts), "interfaces", Verdict::pass);
}

TEST(DoctorNetwork, PortsAndGpuDirect) {
  NetworkFacts facts;
  expect(judgeNetwork(facts), "verbs", Verdict::skip);
  expect(judgeNetwork(facts), "gpu-direct", Verdict::skip);
  facts.ports = {{"mlx5_0:1", "DOWN", "Ethernet", "40 Gb/sec"}};
  expect(judgeNetwork(facts), "verbs", Verdict::warn, "ibv_devinfo");
  expect(judgeNetwork(facts), "gpu-direct", Verdict::warn, "nvidia_peermem");
  facts.ports.push_back({"mlx5_1:1", "ACTIVE", "Ethernet", "40 Gb/sec"});
  facts.hasDmabuf = true;
  expect(judgeNetwork(facts), "verbs", Verdict::pass);
  expect(judgeNetwork(facts), "gpu-direct", Verdict::pass);
}

LimitFacts plenty() {
  LimitFacts facts;
  facts.descriptors = facts.hardDescriptors = 1024;
  facts.lockedBytes = 8 << 20;
  facts.sharedMemoryBytes = facts.availableMemoryBytes = uint64_t{8} << 30;
  return facts;
}

TEST(DoctorLimits, Descriptors) {
  LimitFacts facts = plenty();
  expect(judgeLimits(facts), "descriptors", Verdict::pass);
  facts.nFlows = 16;
  expect(judgeLimits(facts), "descriptors", Verdict::warn, "hard");
  facts.descriptors = 64;
  expect(judgeLimits(facts), "descriptors", Verdict::fail, "ulimit -n 1024");
  facts.descriptors = facts.hardDescriptors = kUnlimited;
  expect(judgeLimits(facts), "descriptors", Verdict::pass);
}

TEST(DoctorLimits, Memory) {
  LimitFacts facts = plenty();
  expect(judgeLimits(facts), "locked-memory", Verdict::pass);
  facts.hasVerbs = true;
  expect(judgeLimits(facts), "locked-memory", Verdict::warn, "ulimit -l");
  facts.lockedBytes = kUnlimited;
  expect(judgeLimits(facts), "locked-memory", Verdict::pass);
  expect(judgeLimits(facts), "shared-memory", Verdict::pass);
  facts.sharedMemoryBytes = 1 << 20;
  expect(judgeLimits(facts), "shared-memory", Verdict::warn, "shm");
  facts.availableMemoryBytes = 1 << 20;
  expect(judgeLimits(facts), "memory", Verdict::warn);
  facts.availableMemoryBytes = 0;
  expect(judgeLimits(facts), "memory", Verdict::skip);
}

TEST(DoctorPlugins, NamedAndNot) {
  expect(judgePlugins({}), "plugins", Verdict::pass);
  expect(judgePlugins({{"NCCL_NET_PLUGIN", "", "/l/libnccl-net.so"}}), "plugins", Verdict::warn,
         "none");
  expect(judgePlugins({{"NCCL_NET_PLUGIN", "ofi", ""}}), "plugins", Verdict::fail, "correct");
  expect(judgePlugins({{"NCCL_NET_PLUGIN", "cinch", "", true}}), "plugins", Verdict::fail,
         "LD_LIBRARY_PATH");
  expect(judgePlugins({{"NCCL_NET_PLUGIN", "none", ""}}), "plugins", Verdict::pass);
}

TEST(DoctorExchange, EveryOutcome) {
  ExchangeFacts facts;
  expect(judgeExchange(facts), "exchange", Verdict::skip);
  facts.hasEmulator = true;
  expect(judgeExchange(facts), "exchange", Verdict::fail, "firewall");
  facts.hasEnded = true;
  expect(judgeExchange(facts), "exchange", Verdict::fail, "libraries");
  facts.isCompressed = true;
  expect(judgeExchange(facts), "exchange", Verdict::pass);
  facts.status = 3;
  expect(judgeExchange(facts), "exchange", Verdict::fail, "bench");
}

TEST(DoctorProgram, EveryReason) {
  ProgramFacts facts;
  expect(judgeProgram(facts), "program", Verdict::skip);
  facts.command = facts.path = "/p";
  expect(judgeProgram(facts), "program", Verdict::pass);
  facts.hiddenIn = "/l/libtorch.so";
  expect(judgeProgram(facts), "program", Verdict::fail, "libnccl.so.2");
  facts.isStatic = true;
  expect(judgeProgram(facts), "program", Verdict::fail, "dynamically");
  facts.content.isProgram = true;
  facts.content.version = "2.28.9";
  expect(judgeProgram(facts), "program", Verdict::fail, "libnccl.so.2");
  facts.isSetuid = true;
  expect(judgeProgram(facts), "program", Verdict::fail, "ug-s");
  facts.isForeign = true;
  expect(judgeProgram(facts), "program", Verdict::fail, "machine");
  facts.fault = "/p is not there";
  expect(judgeProgram(facts), "program", Verdict::fail, "PATH");
}

TEST(DoctorView, JsonAndText) {
  const Checks checks = {{"a", Verdict::pass, "x", ""}, {"b", Verdict::fail, "y\n\"z\xff", "do"}};
  const auto json = nlohmann::json::parse(viewJson(checks));
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["checks"][1]["verdict"], "fail");
  EXPECT_EQ(json["checks"][1]["fix"], "do");
  const std::string text = viewText(checks);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_NE(text.find("1 passed, 0 warnings, 1 failed, 0 skipped"), std::string::npos);
  EXPECT_TRUE(hasFailed(checks));
  EXPECT_FALSE(hasFailed({{"a", Verdict::warn, "x", "y"}}));
}

}  // namespace
}  // namespace cinch::doctor
