#include "interpose/comm/plan_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <thread>
#include <vector>

#include "common/text.h"
#include "common/text_file.h"
#include "interpose/policy/recorded_plan.h"

namespace cinch {
namespace {

constexpr int kThreads = 4, kLines = 200;

class PlanFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  PlanFile& file() const { return *new PlanFile(path_); }
  std::string content() const { return readTextFile(path_).value(); }

  // "# WRITER NUMBER", as long as lines may be.
  static std::string line(int writer, int number) {
    return "# " + std::to_string(writer) + " " + std::to_string(number) + " " +
           std::string(static_cast<size_t>(number) + 1, '.') + "\n";
  }
  static void addAll(PlanFile& file, int writer) {
    for (int i = 0; i < kLines; ++i) file.add(line(writer, i));
  }

  const std::string folder_ = testing::TempDir() + "plan_file_" + std::to_string(getpid());
  const std::string path_ = folder_ + "/plan";
};

TEST_F(PlanFileTest, LinesComeAfterTheHeader) {
  PlanFile& first = file();
  first.flush();
  EXPECT_FALSE(std::filesystem::exists(path_)) << "there was nothing to write";
  first.add("# a\n");
  first.add("# b\n");
  first.flush();
  EXPECT_EQ(content(), planHeader() + "# a\n# b\n");
  PlanFile& second = file();
  second.add("# c\n");
  second.flush();
  EXPECT_EQ(content(), planHeader() + "# a\n# b\n# c\n");
}

TEST_F(PlanFileTest, LinesOfManyWritersAreWholeAndInTheirOrder) {
  PlanFile& shared = file();
  PlanFile& own = file();
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kThreads; ++writer)
    threads.emplace_back([&, writer] { addAll(writer % 2 == 0 ? shared : own, writer); });
  for (std::thread& thread : threads) thread.join();
  shared.flush();
  own.flush();
  const std::string text = content();
  ASSERT_TRUE(parseRecordedPlan(text).ok());
  std::map<int, int> next;
  int nLines = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string found(takeUntil(rest, "\n"));
    int writer = 0, number = 0;
    if (sscanf(found.c_str(), "# %d %d", &writer, &number) != 2) continue;
    EXPECT_EQ(number, next[writer]++);
    EXPECT_EQ(found + "\n", line(writer, number));
    ++nLines;
  }
  EXPECT_EQ(nLines, kThreads * kLines);
}

TEST_F(PlanFileTest, AForkNeitherWritesNorWaits) {
  PlanFile& parents = file();
  parents.add("# parent\n");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto begin = std::chrono::steady_clock::now();
    parents.add("# child\n");
    parents.flush();
    _exit(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  parents.flush();
  EXPECT_EQ(content(), planHeader() + "# parent\n");
}

// Opening a pipe would wait for its reader, and writing to one for its reading.
TEST_F(PlanFileTest, NothingThatIsNotAFileIsWaitedFor) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  PlanFile& unread = file();
  testing::internal::CaptureStdout();
  unread.add("# a\n");
  unread.flush();
  EXPECT_NE(testing::internal::GetCapturedStdout().find("is not written from here on"),
            std::string::npos);
  const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  PlanFile& read = file();
  testing::internal::CaptureStdout();
  for (int i = 0; i < kLines; ++i) read.add(line(0, i));
  read.flush();
  EXPECT_NE(testing::internal::GetCapturedStdout().find("it is not a regular file"),
            std::string::npos);
  close(reader);
}

TEST_F(PlanFileTest, WhatCannotBeWrittenIsNamedOnce) {
  std::filesystem::remove_all(folder_);
  PlanFile& nowhere = file();
  testing::internal::CaptureStdout();
  nowhere.add("# a\n");
  nowhere.flush();
  nowhere.add("# b\n");
  nowhere.flush();
  const std::string log = testing::internal::GetCapturedStdout();
  const size_t first = log.find(path_ + " is not written from here on: No such file");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("is not written", first + path_.size() + 10), std::string::npos) << log;
}

TEST_F(PlanFileTest, NothingIsAddedThatCouldNotBeReadAgain) {
  PlanFile& full = file();
  full.add("#" + std::string(kMaxTextFileBytes - planHeader().size() - 2, '.') + "\n");
  full.flush();
  EXPECT_EQ(std::filesystem::file_size(path_), kMaxTextFileBytes);
  full.add("# a\n");
  full.flush();
  EXPECT_EQ(std::filesystem::file_size(path_), kMaxTextFileBytes);
  EXPECT_TRUE(parseRecordedPlan(content()).ok());
}

}  // namespace
}  // namespace cinch
