#include "net_plugin/log.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

namespace cinch::net {
namespace {

struct Line {
  LogLevel level;
  std::string function;
  int line;
  std::string text;
};

std::vector<Line> lines;
std::atomic<int> nLines{0};

void keep(LogLevel level, const char* function, int line, const char* text) {
  lines.push_back({level, function, line, text});
  errno = EDOM;
}

void count(LogLevel, const char*, int, const char*) {
  ++nLines;
}

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    lines.clear();
    setLogSink(keep);
  }
  void TearDown() override { setLogSink(nullptr); }
};

TEST_F(LogTest, GoesNowhereWithoutASink) {
  setLogSink(nullptr);
  CINCH_NET_WARN("nobody listens to %d", 1);
  setLogSink(keep);
  CINCH_NET_WARN("now somebody does");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].text, "CINCH/NET now somebody does");
}

TEST_F(LogTest, SaysWhoWroteAndHowBadItIs) {
  CINCH_NET_WARN("a %s", "warning");
  CINCH_NET_INFO("for %d", 7);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].level, LogLevel::warn);
  EXPECT_EQ(lines[0].function, "TestBody");
  EXPECT_EQ(lines[0].line + 1, lines[1].line);
  EXPECT_EQ(lines[0].text, "CINCH/NET a warning");
  EXPECT_EQ(lines[1].level, LogLevel::info);
  EXPECT_EQ(lines[1].text, "CINCH/NET for 7");
}

TEST_F(LogTest, KeepsErrno) {
  errno = ENOENT;
  CINCH_NET_WARN("the sink sets errno");
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(LogTest, CutsWhatIsTooLong) {
  const std::string longText(5000, 'x');
  CINCH_NET_WARN("%s", longText.c_str());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_LE(lines[0].text.size(), 1024u);
  EXPECT_GE(lines[0].text.size(), 1000u);
  EXPECT_EQ(lines[0].text.substr(0, 12), "CINCH/NET xx");
}

TEST_F(LogTest, LimitsWhatComesWithoutEnd) {
  LineLimit limit(LogLevel::warn, "dropped letters");
  for (int i = 0; i < 1000; ++i) {
    if (limit.admits()) CINCH_NET_WARN("letter %d is dropped", i);
  }
  ASSERT_EQ(lines.size(), 21u);
  EXPECT_EQ(lines[19].text, "CINCH/NET letter 19 is dropped");
  EXPECT_EQ(lines[20].level, LogLevel::warn);
  EXPECT_EQ(lines[20].text,
            "CINCH/NET further dropped letters are only counted in the report (CINCH_STATS)");
  EXPECT_TRUE(LineLimit(LogLevel::info, "others").admits()) << "each sort has a limit of its own";
}

TEST_F(LogTest, TakesLinesOfManyThreadsWhileTheSinkChanges) {
  constexpr int kThreads = 4, kLines = 2000;
  nLines = 0;
  setLogSink(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < kLines; ++j) CINCH_NET_INFO("line %d", j);
    });
  }
  for (int i = 0; i < 100; ++i) setLogSink(count);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(nLines, kThreads * kLines);
}

}  // namespace
}  // namespace cinch::net
