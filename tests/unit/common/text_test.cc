#include "common/text.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "common/text_file.h"

namespace cinch {
namespace {

TEST(Text, BlanksAroundItGo) {
  for (const char* text : {"a b", " a b", "a b\t", "\r\n a b \r\n"}) EXPECT_EQ(trim(text), "a b");
  for (const char* text : {"", " ", "\t \r\n"}) EXPECT_EQ(trim(text), "");
}

TEST(Text, PartsAreTakenOneByOne) {
  std::string_view text = " a , b;;c ";
  for (const char* part : {"a", "b", "", "c"}) EXPECT_EQ(takeUntil(text, ",;"), part);
  EXPECT_TRUE(text.empty());
  EXPECT_EQ(takeUntil(text, ",;"), "");
}

TEST(TextFile, IsReadWholeOrNotAtAll) {
  char path[] = "/tmp/cinch-text-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(readTextFile(path).value(), "");
  const std::string content("a\0b\n", 4);
  ASSERT_EQ(write(fd, content.data(), content.size()), 4);
  EXPECT_EQ(readTextFile(path).value(), content);
  ASSERT_EQ(ftruncate(fd, kMaxTextFileBytes), 0);
  EXPECT_EQ(readTextFile(path).value().size(), kMaxTextFileBytes);
  ASSERT_EQ(ftruncate(fd, kMaxTextFileBytes + 1), 0);
  EXPECT_NE(readTextFile(path).error().message.find("longer than"), std::string::npos);
  close(fd);
  unlink(path);
  for (const std::string& none : {std::string(path), std::string("/"), std::string("/dev/zero")})
    EXPECT_EQ(readTextFile(none).error().message, "there is no such file") << none;
}

}  // namespace
}  // namespace cinch
