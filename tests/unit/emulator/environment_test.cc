#include "emulator/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace cinch::emulator {
namespace {

// Null: the variable is not set.
int devicesWith(const char* devices, const char* localWorldSize) {
  const auto set = [](const char* name, const char* value) {
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  };
  set("CINCH_EMULATOR_DEVICES", devices);
  set("LOCAL_WORLD_SIZE", localWorldSize);
  return emulator::devices();
}

TEST(Devices, areOneWhereNothingIsSet) {
  EXPECT_EQ(devicesWith(nullptr, nullptr), 1);
  EXPECT_EQ(devicesWith("", ""), 1);
}

TEST(Devices, areAsManyAsTheSettingSays) {
  EXPECT_EQ(devicesWith("1", "4"), 1);
  EXPECT_EQ(devicesWith("8", nullptr), 8);
  EXPECT_EQ(devicesWith("64", nullptr), kMaxDevices);
}

TEST(Devices, areAsManyAsRanksOnTheHost) {
  EXPECT_EQ(devicesWith(nullptr, "4"), 4);
  EXPECT_EQ(devicesWith("", "4"), 4);
}

TEST(Devices, fallBackWhereTheSettingIsNoSuchNumber) {
  for (const char* text : {"0", "-1", "65", "two", "4x", " 4", "+4", "4.0", "0x4", "99999999999"}) {
    EXPECT_EQ(devicesWith(text, "3"), 3) << text;
    EXPECT_EQ(devicesWith(text, text), 1) << text;
  }
}

TEST(LinksSetting, hasTwoNames) {
  const auto linksWith = [](const char* text) {
    setenv("CINCH_EMULATOR_LINKS", text, 1);
    return links();
  };
  EXPECT_EQ(linksWith("pcie"), Links::pcie);
  EXPECT_EQ(linksWith("nvlink"), Links::nvlink);
  EXPECT_EQ(linksWith("NVLINK"), Links::unknown);
  unsetenv("CINCH_EMULATOR_LINKS");
  EXPECT_EQ(links(), Links::unknown);
}

TEST(Capability, isOneNumberForMajorAndMinor) {
  const auto capabilityWith = [](const char* text) {
    setenv("CINCH_EMULATOR_CAPABILITY", text, 1);
    return capability();
  };
  EXPECT_EQ(capabilityWith("7.0"), 70);
  EXPECT_EQ(capabilityWith("12.1"), 121);
  for (const char* text : {"", "9", "9.", ".9", "9.10", "-7.0", "7.-1", "7.0x", "0.5", "seven"})
    EXPECT_EQ(capabilityWith(text), 90) << text;
  unsetenv("CINCH_EMULATOR_CAPABILITY");
  EXPECT_EQ(capability(), 90);
}

}  // namespace
}  // namespace cinch::emulator
