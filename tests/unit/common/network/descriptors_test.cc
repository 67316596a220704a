#include "common/network/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

namespace cinch {
namespace {

// Limits are the process's, and what an administrator allows cannot be had back.
class DescriptorsDeathTest : public ::testing::Test {
 protected:
  // Ends the process with 0 where it is as expected.
  [[noreturn]] static void judge(rlim_t soft, rlim_t hard, size_t nOpen, bool areSpare,
                                 const char* cause, size_t nMore = 0) {
    const rlimit wanted{soft, hard};
    if (setrlimit(RLIMIT_NOFILE, &wanted) != 0) _exit(77);
    while (nOpen-- > 0) dup(0);
    const auto found = haveSpareDescriptors(nMore);
    const bool isExpected = found.ok() == areSpare &&
                            (areSpare || found.error().message.find(cause) != std::string::npos);
    _exit(isExpected ? 0 : 1);
  }
};

TEST_F(DescriptorsDeathTest, MustBePlenty) {
  const ::testing::ExitedWithCode good(0);
  EXPECT_EXIT(judge(1024, 1024, 0, true, ""), good, "");
  EXPECT_EXIT(judge(1023, 1023, 0, false, "ulimit -n 1024"), good, "");
  EXPECT_EXIT(judge(230, 230, 0, false, "may open 230"), good, "");
  EXPECT_EXIT(judge(1024, 1024, 520, false, "half of the 1024"), good, "");
  EXPECT_EXIT(judge(1024, 1024, 1024, false, "half of the 1024"), good, "");
}

TEST_F(DescriptorsDeathTest, MustBePlentyForWhatIsToCome) {
  const ::testing::ExitedWithCode good(0);
  EXPECT_EXIT(judge(1024, 1024, 0, true, "", 400), good, "");
  EXPECT_EXIT(judge(1024, 1024, 0, false, "some 600 more", 600), good, "");
  EXPECT_EXIT(judge(1024, 2048, 0, true, "", 600), good, "");
  EXPECT_EXIT(judge(1024, 1024, 520, false, "half of the 1024", 600), good, "");
}

TEST_F(DescriptorsDeathTest, AreWhatAnAdministratorAllows) {
  const ::testing::ExitedWithCode good(0);
  EXPECT_EXIT(judge(230, 2048, 0, true, ""), good, "");
  EXPECT_EXIT(judge(1024, 2048, 600, true, ""), good, "");
  EXPECT_EXIT(judge(1024, 2048, 1200, false, "half of the 2048"), good, "");
}

}  // namespace
}  // namespace cinch
