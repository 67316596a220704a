#include "tools/cinch/doctor/gather.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tools/cinch/doctor/child.h"

namespace cinch::doctor {
namespace {

namespace fs = std::filesystem;

// A folder in which files are planted; gone with the test.
class DoctorGather : public testing::Test {
 protected:
  DoctorGather() {
    std::string path = fs::temp_directory_path() / "doctor.XXXXXX";
    root_ = mkdtemp(path.data());
  }
  ~DoctorGather() override { fs::remove_all(root_); }

  std::string plant(const std::string& name, const std::string& content, mode_t mode = 0644) {
    const fs::path path = root_ + name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << content;
    chmod(path.c_str(), mode);
    return path;
  }

  std::string root_;
};

TEST_F(DoctorGather, NothingIsThere) {
  EXPECT_EQ(gatherDriver(root_, 13).version, "");
  EXPECT_TRUE(gatherNetwork(root_, {}).ports.empty());
  EXPECT_EQ(gatherLimits(root_, {}, false).availableMemoryBytes, 0);
}

TEST_F(DoctorGather, Driver) {
  plant(
      "/proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  575.57.08  Sat Jan 1\nGCC version: 12.2\n");
  EXPECT_EQ(gatherDriver(root_, 13).version, "575.57.08");
  plant("/proc/driver/nvidia/version", "NVRM version: none\n");
  EXPECT_EQ(gatherDriver(root_, 13).version, "");
}

TEST_F(DoctorGather, Ports) {
  const std::string port = "/sys/class/infiniband/mlx5_0/ports/1/";
  plant(port + "state", "4: ACTIVE\n");
  plant(port + "link_layer", "InfiniBand\n");
  plant(port + "rate", "400 Gb/sec (4X NDR)\n");
  fs::create_directories(root_ + "/sys/module/nvidia_peermem");
  const NetworkFacts facts = gatherNetwork(root_, {});
  ASSERT_EQ(facts.ports.size(), 1);
  EXPECT_EQ(facts.ports[0].name, "mlx5_0:1");
  EXPECT_EQ(facts.ports[0].state, "ACTIVE");
  EXPECT_EQ(facts.ports[0].rate, "400 Gb/sec (4X NDR)");
  EXPECT_TRUE(facts.hasPeerMemory);
}

TEST_F(DoctorGather, Memory) {
  plant("/proc/meminfo", "MemTotal:  100 kB\nMemFree: 5 kB\nMemAvailable:   20 kB\n");
  EXPECT_EQ(gatherLimits(root_, {}, false).availableMemoryBytes, 20 << 10);
  plant("/proc/meminfo", "MemAvailable: much\nMemTotal\n");
  EXPECT_EQ(gatherLimits(root_, {}, false).availableMemoryBytes, 0);
}

TEST_F(DoctorGather, Interfaces) {
  const NetworkFacts none = gatherNetwork(root_, {{"NCCL_SOCKET_IFNAME", "=no-such-name"}});
  for (const InterfaceFact& interface : none.interfaces) EXPECT_FALSE(interface.isSelected);
  EXPECT_EQ(none.choice, "");
}

TEST_F(DoctorGather, PluginByPath) {
  const std::string path = plant("/libnccl-net-x.so", "");
  const auto plugins = gatherPlugins({{"NCCL_NET_PLUGIN", path}});
  ASSERT_FALSE(plugins.empty());
  EXPECT_EQ(plugins[0].path, fs::canonical(path));
  EXPECT_EQ(gatherPlugins({{"NCCL_TUNER_PLUGIN", "no-such"}}).back().path, "");
}

TEST_F(DoctorGather, Programs) {
  EXPECT_NE(gatherProgram({root_ + "/none"}).fault, "");
  EXPECT_NE(gatherProgram({root_}).fault, "");
  EXPECT_NE(gatherProgram({"no-such-command-here"}).fault.find("not found"), std::string::npos);
  EXPECT_NE(gatherProgram({plant("/text", "words")}).fault.find("executable"), std::string::npos);
  EXPECT_NE(gatherProgram({plant("/odd", "words", 0755)}).fault, "");
  EXPECT_NE(gatherProgram({plant("/elf",
                                 "\x7f"
                                 "ELF",
                                 0755)})
                .fault,
            "");
  const ProgramFacts self = gatherProgram({"/proc/self/exe"});
  EXPECT_EQ(self.fault, "");
  EXPECT_FALSE(self.isStatic || self.isForeign || self.isSetuid);
  EXPECT_FALSE(self.libraries.empty());
}

TEST_F(DoctorGather, Scripts) {
  const ProgramFacts script = gatherProgram({plant("/s", "#!/bin/sh -e\ntrue\n", 0755)});
  EXPECT_EQ(script.fault, "");
  EXPECT_EQ(script.path, "/bin/sh");
  EXPECT_EQ(gatherProgram({plant("/e", "#!/usr/bin/env -S sh\n", 0755)}).fault, "");
  const ProgramFacts lost = gatherProgram({plant("/l", "#!/no/interpreter\n", 0755)});
  EXPECT_NE(lost.fault.find("interpreter"), std::string::npos);
  const std::string loop = root_ + "/loop";
  EXPECT_NE(gatherProgram({plant("/loop", "#!" + loop + "\n", 0755)}).fault, "");
  EXPECT_EQ(gatherProgram({plant("/nothing", "#!\n", 0755)}).path, root_ + "/nothing");
  const ProgramFacts python = gatherProgram({plant("/python3", "#!/bin/sh\n", 0755)});
  EXPECT_EQ(python.python, root_ + "/python3");
}

TEST(DoctorChild, StatusOutputCrashAndLimit) {
  const ChildOutcome spoke =
      runApart([] { return write(1, "word", 4) == 4 ? 3 : 4; }, std::chrono::seconds(20));
  EXPECT_TRUE(spoke.hasEnded);
  EXPECT_EQ(spoke.status, 3);
  EXPECT_EQ(spoke.output, "word");
  EXPECT_EQ(runApart(
                []() -> int {
                  raise(SIGKILL);
                  return 0;
                },
                std::chrono::seconds(20))
                .status,
            128 + SIGKILL);
  EXPECT_FALSE(runApart([] { return pause(); }, std::chrono::seconds(1)).hasEnded);
  EXPECT_EQ(runProgram({"/no/such/program"}, {}, std::chrono::seconds(20)).status, 127);
}

TEST(DoctorVariables, FirstCountsAndEmptyIsUnset) {
  const char* const entries[] = {"A_X=1", "A_X=2", "A_Y=", "B", "A_Z=k=v", nullptr};
  const Variables variables(entries);
  EXPECT_EQ(variables["A_X"], "1");
  EXPECT_EQ(variables["A_Z"], "k=v");
  EXPECT_EQ(variables["B"], "");
  EXPECT_EQ(variables.namesWith("A_"), (std::vector<std::string>{"A_X", "A_Z"}));
}

}  // namespace
}  // namespace cinch::doctor
