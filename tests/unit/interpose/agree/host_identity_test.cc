#include "interpose/agree/host_identity.h"

#include "common/host_name.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace cinch {
namespace {

TEST(HostIdentity, NameHasNoDomain) {
  EXPECT_FALSE(hostName().empty());
  EXPECT_EQ(hostName().find('.'), std::string::npos);
}

TEST(HostIdentity, IdFollowsNcclHostid) {
  unsetenv("NCCL_HOSTID");
  uint64_t own = hostId();
  EXPECT_EQ(hostId(), own);
  setenv("NCCL_HOSTID", "a", 1);
  uint64_t a = hostId();
  EXPECT_EQ(hostId(), a);
  setenv("NCCL_HOSTID", "b", 1);
  EXPECT_NE(hostId(), a);
  EXPECT_NE(a, own);
  setenv("NCCL_HOSTID", "", 1);
  EXPECT_EQ(hostId(), own);
  unsetenv("NCCL_HOSTID");
}

}  // namespace
}  // namespace cinch
