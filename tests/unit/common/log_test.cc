#include "common/log.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace cinch {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> linesOf(std::istream& stream) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Runs the probe with `settings` ("NCCL_DEBUG=INFO ...") and returns the lines that it printed.
std::vector<std::string> probe(const std::string& settings, const std::string& what) {
  const std::string command =
      "env -u NCCL_DEBUG -u NCCL_DEBUG_FILE " + settings + " '" LOG_PROBE "' " + what;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string output;
  char chunk[4096];
  while (const size_t n = fread(chunk, 1, sizeof chunk, pipe)) output.append(chunk, n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  std::istringstream stream(output);
  return linesOf(stream);
}

class TemporaryFolder {
 public:
  TemporaryFolder() { EXPECT_NE(mkdtemp(path_), nullptr); }
  ~TemporaryFolder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return std::string(path_) + "/" + name; }

 private:
  char path_[32] = "/tmp/cinch-log-XXXXXX";
};

TEST(Log, LineLooksLikeNcclsOwn) {
  const std::vector<std::string> lines = probe("NCCL_DEBUG=INFO", "each");
  ASSERT_EQ(lines.size(), 2u);
  const std::string head = R"([^ :]+:\d+:\d+ \[-\] NCCL )";
  EXPECT_TRUE(std::regex_match(lines[0], std::regex(head + "WARN CINCH/INIT a warning of 1")))
      << lines[0];
  EXPECT_TRUE(std::regex_match(lines[1], std::regex(head + "INFO CINCH/POLICY an info")))
      << lines[1];
}

TEST(Log, NcclDebugSetsTheLevelButWarningsAlwaysCome) {
  EXPECT_EQ(probe("", "each").size(), 1u);
  EXPECT_EQ(probe("NCCL_DEBUG=", "each").size(), 1u);
  EXPECT_EQ(probe("NCCL_DEBUG=VERSION", "each").size(), 1u);
  EXPECT_EQ(probe("NCCL_DEBUG=nonsense", "each").size(), 1u);
  EXPECT_EQ(probe("NCCL_DEBUG=WARN", "each").size(), 1u);
  EXPECT_EQ(probe("NCCL_DEBUG=info", "each").size(), 2u);
  EXPECT_EQ(probe("NCCL_DEBUG=TRACE", "each").size(), 3u);
}

TEST(Log, LinesOfManyThreadsStayWhole) {
  const std::regex pattern(R"([^ ]+ \[-\] NCCL INFO CINCH/TEST thread (\d) line (\d+)\.)");
  std::set<std::string> seen;
  for (const std::string& line : probe("NCCL_DEBUG=INFO", "threads")) {
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, pattern)) << line;
    EXPECT_TRUE(seen.insert(match[1].str() + "/" + match[2].str()).second) << line;
  }
  EXPECT_EQ(seen.size(), 8u * 500u);
}

TEST(Log, WarningsEndWithANote) {
  const std::vector<std::string> lines = probe("", "warnings");
  ASSERT_EQ(lines.size(), 1001u);
  EXPECT_NE(lines[999].find("number 999."), std::string::npos) << lines[999];
  EXPECT_NE(lines[1000].find("further warnings are not shown"), std::string::npos) << lines[1000];
}

TEST(Log, LongTextIsCutAndStaysOneLine) {
  const std::vector<std::string> lines = probe("", "long");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].size(), 2047u);
  EXPECT_NE(lines[0].find("first second xxx"), std::string::npos);
}

TEST(Log, FileIsBesideNcclsOwn) {
  const TemporaryFolder folder;
  const std::string settings = "NCCL_DEBUG=WARN NCCL_DEBUG_FILE=" + folder / "log.%p";
  EXPECT_TRUE(probe(settings, "each").empty());
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder / "")) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_TRUE(std::regex_match(files[0].filename().string(), std::regex(R"(log\.\d+\.cinch)")))
      << files[0];
  std::ifstream file(files[0]);
  EXPECT_EQ(linesOf(file).size(), 1u);
}

TEST(Log, FileIsAppendedTo) {
  const TemporaryFolder folder;
  const std::string settings = "NCCL_DEBUG=INFO NCCL_DEBUG_FILE=" + folder / "log";
  EXPECT_TRUE(probe(settings, "each").empty());
  EXPECT_TRUE(probe(settings, "each").empty());
  std::ifstream file(folder / "log.cinch");
  EXPECT_EQ(linesOf(file).size(), 4u);
}

TEST(Log, FileIsLeftAloneUnlessDebuggingWasAskedFor) {
  const TemporaryFolder folder;
  EXPECT_EQ(probe("NCCL_DEBUG_FILE=" + folder / "log", "each").size(), 1u);
  EXPECT_TRUE(fs::is_empty(folder / ""));
}

TEST(Log, StandardStreamsAndUnusableFilesWork) {
  EXPECT_EQ(probe("NCCL_DEBUG=WARN NCCL_DEBUG_FILE=/dev/stdout", "each").size(), 1u);
  EXPECT_EQ(probe("NCCL_DEBUG=WARN NCCL_DEBUG_FILE=/dev/stderr", "each 2>&1").size(), 1u);
  EXPECT_EQ(probe("NCCL_DEBUG=WARN NCCL_DEBUG_FILE=/no/such/folder/x", "each").size(), 1u);
}

TEST(Log, KeepsErrno) {
  errno = ENOTTY;
  logLine(LogLevel::warn, "TEST", "%s", "a line for the test");
  EXPECT_EQ(errno, ENOTTY);
}

// CTest sets NCCL_DEBUG=WARN for this program.
TEST(Log, ArgumentsOfLinesThatAreNotWrittenAreNotEvaluated) {
  if (logEnabled(LogLevel::info)) GTEST_SKIP() << "NCCL_DEBUG asks for more than warnings";
  int evaluated = 0;
  CINCH_INFO("TEST", "%d", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  EXPECT_TRUE(logEnabled(LogLevel::warn));
  EXPECT_FALSE(logEnabled(LogLevel::none));
}

}  // namespace
}  // namespace cinch
