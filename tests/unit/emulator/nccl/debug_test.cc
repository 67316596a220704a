// What a plugin logs, by level and subsystem, each setting in a process of its own.
#include "emulator/nccl/debug.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

namespace cinch::emulator {
namespace {

constexpr unsigned long kAll = ~0ul;

void logAllLevels() {
  setDebugDevice(3);
  logPluginLine(NCCL_LOG_WARN, kAll, "some/file.cc", 17, "bad %d", 1);
  logPluginLine(NCCL_LOG_WARN, NCCL_LOG_NET, "some/file.cc", 18, "bad %d", 2);
  logPluginLine(NCCL_LOG_INFO, NCCL_LOG_INIT, "file.cc", 1, "started");
  logPluginLine(NCCL_LOG_INFO, NCCL_LOG_NET, "file.cc", 2, "connected");
  logPluginLine(NCCL_LOG_TRACE, kAll, "file.cc", 3, "moved");
}

// What a process logs under these settings, the start of lines removed; null: unset.
std::string logged(const char* level, const char* subsystems,
                   const std::function<void()>& log = logAllLevels) {
  char path[] = "/tmp/debug_test.XXXXXX";
  close(mkstemp(path));
  const pid_t child = fork();
  if (child == 0) {
    setenv("NCCL_DEBUG", level, 1);
    setenv("NCCL_DEBUG_FILE", path, 1);
    if (subsystems != nullptr) setenv("NCCL_DEBUG_SUBSYS", subsystems, 1);
    log();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::ifstream file(path);
  std::ostringstream text;
  for (std::string line; std::getline(file, line);) {
    const size_t start = line.find(" [3] ");
    text << (start == std::string::npos ? line : line.substr(start + 5)) << "\n";
  }
  std::filesystem::remove(path);
  return text.str();
}

TEST(PluginLog, ShowsWarningsWithTheirPlace) {
  EXPECT_EQ(logged("WARN", nullptr), "some/file.cc:17 NCCL WARN bad 1\n");
}

TEST(PluginLog, ShowsWhatBelongsToTheUsualSubsystems) {
  EXPECT_EQ(logged("INFO", nullptr),
            "some/file.cc:17 NCCL WARN bad 1\n"
            "NCCL INFO started\n");
}

TEST(PluginLog, ShowsTheSubsystemsThatAreAskedFor) {
  EXPECT_EQ(logged("info", "coll,net"),
            "some/file.cc:17 NCCL WARN bad 1\n"
            "some/file.cc:18 NCCL WARN bad 2\n"
            "NCCL INFO connected\n");
  EXPECT_EQ(logged("INFO", "^NET,COLL"),
            "some/file.cc:17 NCCL WARN bad 1\n"
            "NCCL INFO started\n");
  EXPECT_EQ(logged("INFO", "nonsense"), "");
}

TEST(PluginLog, ShowsTracesWhenTheyAreAskedFor) {
  EXPECT_EQ(logged("TRACE", "ALL"),
            "some/file.cc:17 NCCL WARN bad 1\n"
            "some/file.cc:18 NCCL WARN bad 2\n"
            "NCCL INFO started\n"
            "NCCL INFO connected\n"
            "NCCL TRACE moved\n");
}

TEST(PluginLog, CutsLongLines) {
  const std::string text = logged("INFO", "ALL", [] {
    setDebugDevice(3);
    logPluginLine(NCCL_LOG_WARN, kAll, std::string(5000, 'f').c_str(), 1, "%s",
                  std::string(5000, 't').c_str());
  });
  EXPECT_GT(text.size(), 1000u);
  EXPECT_LT(text.size(), 1400u);
}

// Also where the line itself is not shown.
TEST(PluginLog, RemembersTheLastWarning) {
  logged("VERSION", "INIT", [] {
    logPluginLine(NCCL_LOG_WARN, NCCL_LOG_NET, "file.cc", 1, "broken by %s", "somebody");
    logPluginLine(NCCL_LOG_INFO, kAll, "file.cc", 1, "not an error");
    if (std::string(lastError()) != "broken by somebody") _exit(1);
  });
}

}  // namespace
}  // namespace cinch::emulator
