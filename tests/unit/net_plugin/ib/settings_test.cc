#include "net_plugin/ib/settings.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "net_plugin/ib/slots.h"

namespace cinch::net::ib {
namespace {

std::map<std::string, std::string> environment;

const char* variable(const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : found->second.c_str();
}

Result<Settings> readWith(const std::string& name, const std::string& value) {
  environment = {{name, value}};
  return readSettings(variable);
}

void expectRefused(const std::string& name, const std::string& value, const std::string& allowed) {
  const Result<Settings> settings = readWith(name, value);
  ASSERT_FALSE(settings.ok()) << name << "=" << value;
  EXPECT_EQ(settings.error().status, Status::invalidUsage);
  EXPECT_EQ(settings.error().message, name + "=" + value + " " + allowed);
}

// A variable of numbers, and where its number goes.
struct Number {
  const char* name;
  long least;
  long most;
  long unset;
  std::function<long(const Settings&)> get;
};

const Number kNumbers[] = {
    {"NCCL_IB_GID_INDEX", 0, 255, -1,
     [](const Settings& it) { return it.gid.index ? long{*it.gid.index} : -1; }},
    {"NCCL_IB_ROCE_VERSION_NUM", 1, 2, 2, [](const Settings& it) { return it.gid.roceVersion; }},
    {"NCCL_IB_DISABLE", 0, 1, 0, [](const Settings& it) { return it.isDisabled; }},
    {"NCCL_GDR_FLUSH_DISABLE", 0, 1, 0, [](const Settings& it) { return !it.flushes; }},
    {"NCCL_IB_SPLIT_DATA_ON_QPS", 0, 1, 0, [](const Settings& it) { return it.splits; }},
    {"NCCL_IB_TIMEOUT", 0, 31, 20, [](const Settings& it) { return it.timeout; }},
    {"NCCL_IB_RETRY_CNT", 0, 7, 7, [](const Settings& it) { return it.retries; }},
    {"NCCL_IB_PKEY", 0, 65535, 0, [](const Settings& it) { return it.partition; }},
    {"NCCL_IB_SL", 0, 15, -1,
     [](const Settings& it) { return it.serviceLevel ? long{*it.serviceLevel} : -1; }},
    {"NCCL_IB_TC", 0, 255, -1,
     [](const Settings& it) { return it.trafficClass ? long{*it.trafficClass} : -1; }},
    {"NCCL_IB_ECE_ENABLE", 0, 1, 1, [](const Settings& it) { return it.ece; }},
};

TEST(ReadSettings, TakesEveryNumberWithinItsBounds) {
  for (const Number& number : kNumbers) {
    SCOPED_TRACE(number.name);
    for (long value = number.least; value <= number.most; ++value) {
      const Result<Settings> settings = readWith(number.name, std::to_string(value));
      ASSERT_TRUE(settings.ok()) << settings.error().message;
      ASSERT_EQ(number.get(settings.value()), value);
      char hex[16];
      snprintf(hex, sizeof hex, "0x%lx", value);
      ASSERT_EQ(number.get(readWith(number.name, hex).value()), value);
    }
    EXPECT_EQ(number.get(readWith(number.name, "  1\t").value()), 1);
  }
}

TEST(ReadSettings, RefusesWhatIsBeyondThemAndSaysWhatIsNot) {
  for (const Number& number : kNumbers) {
    const std::string allowed = "is not a number from " + std::to_string(number.least) + " to " +
                                std::to_string(number.most);
    expectRefused(number.name, std::to_string(number.most + 1), allowed);
    expectRefused(number.name, number.unset < 0 ? "-2" : std::to_string(number.least - 1), allowed);
    for (const char* text : {"x", "1x", "1 2", "0x", "0xg", "1.5", "+1", " ", "-", "256000",
                             "18446744073709551617", "-99999999999999999999", "\xff"}) {
      expectRefused(number.name, text, allowed);
    }
  }
}

TEST(ReadSettings, HasDefaultsForWhatIsUnsetOrEmpty) {
  for (const Number& number : kNumbers) {
    environment.clear();
    EXPECT_EQ(number.get(readSettings(variable).value()), number.unset) << number.name;
    EXPECT_EQ(number.get(readWith(number.name, "").value()), number.unset) << number.name;
  }
  environment.clear();
  const Settings settings = readSettings(variable).value();
  EXPECT_EQ(settings.devices, "");
  EXPECT_EQ(settings.gid.range, "");
  EXPECT_EQ(settings.gid.family, AddressFamily::ipv4);
  EXPECT_TRUE(settings.relaxedOrdering);
}

TEST(ReadSettings, HasAsManyQueuesAsThereArePartsAtMost) {
  constexpr const char* kName = "NCCL_IB_QPS_PER_CONNECTION";
  for (size_t n = 0; n <= 128; ++n) {
    EXPECT_EQ(readWith(kName, std::to_string(n)).value().nQueues,
              std::clamp(n, size_t{1}, size_t{kMaxParts}));
  }
  for (const char* text : {"129", "-1", "x"}) {
    expectRefused(kName, text, "is not a number from 0 to 128");
  }
}

// NCCL's default, which scripts set explicitly.
TEST(ReadSettings, ChoosesForMinusOne) {
  EXPECT_EQ(readWith("NCCL_IB_SL", "-1").value().serviceLevel, std::nullopt);
  EXPECT_EQ(readWith("NCCL_IB_TC", "-1").value().trafficClass, std::nullopt);
  EXPECT_EQ(readWith("NCCL_IB_GID_INDEX", "-1").value().gid.index, std::nullopt);
  EXPECT_EQ(readWith("NCCL_IB_GID_INDEX", "0").value().gid.index, 0u);
}

TEST(ReadSettings, KnowsTheTwoFamilies) {
  constexpr const char* kName = "NCCL_IB_ADDR_FAMILY";
  EXPECT_EQ(readWith(kName, "AF_INET").value().gid.family, AddressFamily::ipv4);
  EXPECT_EQ(readWith(kName, "AF_INET6").value().gid.family, AddressFamily::ipv6);
  EXPECT_EQ(readWith(kName, "").value().gid.family, AddressFamily::ipv4);
  for (const char* text : {"af_inet", "AF_INET4", "AF_INET66", "AF_INET ", "4"}) {
    expectRefused(kName, text, "is neither AF_INET nor AF_INET6");
  }
}

TEST(ReadSettings, OrdersRelaxedUnlessItIsForbidden) {
  constexpr const char* kName = "NCCL_IB_PCI_RELAXED_ORDERING";
  EXPECT_FALSE(readWith(kName, "0").value().relaxedOrdering);
  EXPECT_TRUE(readWith(kName, "1").value().relaxedOrdering);
  EXPECT_TRUE(readWith(kName, "2").value().relaxedOrdering);
  expectRefused(kName, "3", "is not a number from 0 to 2");
}

TEST(ReadSettings, TakesListsAsTheyAre) {
  EXPECT_EQ(readWith("NCCL_IB_HCA", "^=mlx5_0:1,mlx5_1").value().devices, "^=mlx5_0:1,mlx5_1");
  EXPECT_EQ(readWith("NCCL_IB_ADDR_RANGE", "10.0.0.0/8").value().gid.range, "10.0.0.0/8");
}

struct Meant {
  const char* list;
  const char* device;
  int port;
  bool isMeant;
};

TEST(IsMeant, ReadsTheListAsNcclDoes) {
  const Meant cases[] = {
      {"", "mlx5_0", 1, true},
      {"  ", "mlx5_0", 1, true},
      {"^", "mlx5_0", 1, true},
      {"=", "mlx5_0", 1, true},
      {"^=", "mlx5_0", 1, true},
      // The beginning of a name is enough.
      {"mlx5", "mlx5_3", 2, true},
      {"mlx5_1", "mlx5_1", 1, true},
      {"mlx5_1", "mlx5_10", 1, true},
      {"mlx5_10", "mlx5_1", 1, false},
      {"mlx5_1", "bnxt_re0", 1, false},
      {"mlx5_0,bnxt", "bnxt_re0", 1, true},
      // Unless the name is to be the whole one.
      {"=mlx5_1", "mlx5_1", 2, true},
      {"=mlx5_1", "mlx5_10", 1, false},
      {"=mlx5", "mlx5_0", 1, false},
      {"=mlx5_10,mlx5_1", "mlx5_1", 1, true},
      // Ports.
      {"mlx5_1:1", "mlx5_1", 1, true},
      {"mlx5_1:1", "mlx5_1", 2, false},
      {"mlx5_1:2,mlx5_1:1", "mlx5_1", 1, true},
      {"mlx5:2", "mlx5_7", 2, true},
      {"=mlx5_1:2", "mlx5_1", 1, false},
      {"mlx5_1:12", "mlx5_1", 1, false},
      {"mlx5_1:x", "mlx5_1", 1, false},
      // All but these.
      {"^mlx5_1", "mlx5_1", 1, false},
      {"^mlx5_1", "mlx5_10", 1, false},
      {"^mlx5_1", "mlx5_2", 1, true},
      {"^=mlx5_1", "mlx5_10", 1, true},
      {"^=mlx5_1", "mlx5_1", 1, false},
      {"^mlx5_1:2", "mlx5_1", 1, true},
      {"^mlx5_1:2", "mlx5_1", 2, false},
      {"^mlx5_0,mlx5_1", "mlx5_1", 1, false},
      // What is empty means nothing, and blanks count for nothing.
      {",,mlx5_1,", "mlx5_1", 1, true},
      {",", "mlx5_1", 1, false},
      {"^,", "mlx5_1", 1, true},
      {":1", "mlx5_1", 1, false},
      {"mlx5_0, mlx5_1 : 1", "mlx5_1", 1, true},
  };
  for (const Meant& it : cases) {
    EXPECT_EQ(isMeant(it.list, it.device, it.port), it.isMeant)
        << "\"" << it.list << "\" for " << it.device << ":" << it.port;
  }
}

}  // namespace
}  // namespace cinch::net::ib
