#include "common/replace_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/text_file.h"

namespace cinch {
namespace {

TEST(ReplaceFile, LeavesOneWholeFile) {
  const std::string folder = testing::TempDir() + "replace_file_test";
  std::filesystem::create_directories(folder);
  for (const char* content : {"long content\n", "short\n"}) {
    ASSERT_TRUE(replaceFile(folder + "/file", content).ok());
    EXPECT_EQ(readTextFile(folder + "/file").value(), content);
  }
  const std::filesystem::directory_iterator files(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  std::filesystem::remove_all(folder);
}

TEST(ReplaceFile, SaysWhy) {
  const auto written = replaceFile("/nowhere/file", "x");
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.error().message.find("/nowhere/file"), std::string::npos);
  EXPECT_NE(written.error().message.find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace cinch
