#include "examples/lm/interface_counters.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace lm {
namespace {

class InterfaceCountersTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "counters" + std::to_string(getpid());
    std::ofstream(path_)
        << "Inter-|   Receive                            |  Transmit\n"
           " face |bytes packets errs drop fifo frame compressed multicast|bytes ...\n"
           "    lo:   12  1 0 0 0 0 0 0   13  1 0 0 0 0 0 0\n"
           "  eth0: 18446744073709551615 9 1 2 3 4 5 6 4294967296 7 0 0 0 0 0 0\n"
           " eth01:111 1 0 0 0 0 0 0 222 1 0 0 0 0 0 0\n"
           "  torn: 1 2\n";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_;
};

TEST_F(InterfaceCountersTest, ReadsBothDirections) {
  EXPECT_EQ(readInterfaceCounters("lo", path_).received, 12u);
  EXPECT_EQ(readInterfaceCounters("lo", path_).sent, 13u);
  EXPECT_EQ(readInterfaceCounters("eth0", path_).received, UINT64_MAX);
  EXPECT_EQ(readInterfaceCounters("eth0", path_).sent, 1ull << 32);
  EXPECT_EQ(readInterfaceCounters("eth01", path_).sent, 222u);
}

TEST_F(InterfaceCountersTest, UnknownInterfacesAreNamed) {
  for (const char* name : {"eth", "eth00", "torn", "face |bytes", ""}) {
    try {
      readInterfaceCounters(name, path_);
      ADD_FAILURE() << "found " << name;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
    }
  }
}

TEST(InterfaceCounters, KernelCountsTheLoopback) {
  // Others may be using it meanwhile: what it receives is what was sent a moment ago.
  const uint64_t before = readInterfaceCounters("lo").sent;
  const uint64_t received = readInterfaceCounters("lo").received;
  EXPECT_LE(before, received);
  EXPECT_LE(received, readInterfaceCounters("lo").sent);
}

}  // namespace
}  // namespace lm
