#include "interpose/comm/residual_path.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

namespace cinch {
namespace {

constexpr ResidualOwner kPathOwner{8, 3};

// The launcher's variables are the test's own.
class ResidualPathTest : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name :
         {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
      unsetenv(name);
  }
};

TEST_F(ResidualPathTest, NamesRankSizeAndNumber) {
  EXPECT_EQ(ResidualPath("/dir", kPathOwner).text(), "/dir/rank3of8.comm0.cinch");
  EXPECT_EQ(ResidualPath("/100%%", {2, 0}).text(), "/100%/rank0of2.comm0.cinch");
}

TEST_F(ResidualPathTest, NumbersThoseThatLiveAtOnce) {
  const ResidualPath first("/dir", kPathOwner);
  auto second = std::make_unique<ResidualPath>("/dir", kPathOwner);
  const ResidualPath third("/dir", kPathOwner);
  EXPECT_EQ(second->text(), "/dir/rank3of8.comm1.cinch");
  EXPECT_EQ(third.text(), "/dir/rank3of8.comm2.cinch");
  second.reset();
  EXPECT_EQ(ResidualPath("/dir", kPathOwner).text(), "/dir/rank3of8.comm1.cinch");
  for (const ResidualOwner& other : {ResidualOwner{8, 2}, ResidualOwner{9, 3}})
    EXPECT_NE(ResidualPath("/dir", other).text().find(".comm0."), std::string::npos)
        << "others are numbered by themselves";
}

TEST_F(ResidualPathTest, NamesTheProcessWhereTheLauncherNumbersIt) {
  setenv("SLURM_PROCID", "17", 1);
  EXPECT_EQ(ResidualPath("/dir", kPathOwner).text(), "/dir/process17.rank3of8.comm0.cinch");
  setenv("RANK", "5", 1);
  EXPECT_EQ(ResidualPath("/dir", kPathOwner).text(), "/dir/process5.rank3of8.comm0.cinch");
  for (const char* value : {"", "../up", "-1", "1/2", "12345678901"}) {
    setenv("RANK", value, 1);
    EXPECT_EQ(ResidualPath("/dir", kPathOwner).text(), "/dir/process17.rank3of8.comm0.cinch")
        << value;
  }
}

}  // namespace
}  // namespace cinch
