#include "net_plugin/ib/gid.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace cinch::net::ib {
namespace {

Gid gidOf(const std::string& text) {
  Gid gid{};
  const std::string mapped = text.find(':') == std::string::npos ? "::ffff:" + text : text;
  EXPECT_EQ(inet_pton(AF_INET6, mapped.c_str(), gid.data()), 1) << text;
  return gid;
}

// What a port with one IPv4 address has on Linux.
std::vector<GidEntry> usualTable() {
  return {{0, gidOf("fe80::5054:ff:fe12:3456"), GidKind::roceV1},
          {1, gidOf("fe80::5054:ff:fe12:3456"), GidKind::roceV2},
          {2, gidOf("10.1.2.3"), GidKind::roceV1},
          {3, gidOf("10.1.2.3"), GidKind::roceV2}};
}

uint32_t chosen(const std::vector<GidEntry>& table, const GidWish& wish) {
  const Result<GidChoice> choice = chooseGid(table, wish);
  EXPECT_TRUE(choice.ok()) << choice.error().message;
  return choice ? choice.value().entry.index : ~0u;
}

std::string refusal(const std::vector<GidEntry>& table, const GidWish& wish) {
  const Result<GidChoice> choice = chooseGid(table, wish);
  if (choice) return "chosen: " + choice.value().why;
  EXPECT_EQ(choice.error().status, Status::invalidUsage);
  return choice.error().message;
}

TEST(ChooseGid, TakesTheIpv4AddressOfVersion2) {
  const Result<GidChoice> choice = chooseGid(usualTable(), {});
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice.value().entry.index, 3u);
  EXPECT_EQ(choice.value().why, "10.1.2.3, RoCE v2, index 3: the first IPv4 address of RoCE v2");
}

TEST(ChooseGid, DoesAsItIsAsked) {
  EXPECT_EQ(chosen(usualTable(), {.roceVersion = 1}), 2u);
  EXPECT_EQ(chosen(usualTable(), {.index = 0}), 0u);
  // Version and family do not matter to an index.
  EXPECT_EQ(chosen(usualTable(), {.index = 2, .family = AddressFamily::ipv6}), 2u);
}

TEST(ChooseGid, TakesLinkLocalAddressesLast) {
  std::vector<GidEntry> table = usualTable();
  EXPECT_EQ(chosen(table, {.family = AddressFamily::ipv6}), 1u);
  EXPECT_EQ(chosen(table, {.family = AddressFamily::any}), 3u);
  table.push_back({7, gidOf("2001:db8::1"), GidKind::roceV2});
  EXPECT_EQ(chosen(table, {.family = AddressFamily::ipv6}), 7u);
}

TEST(ChooseGid, KeepsToTheRange) {
  std::vector<GidEntry> table = usualTable();
  table.push_back({5, gidOf("192.168.7.9"), GidKind::roceV2});
  table.push_back({6, gidOf("2001:db8:1::1"), GidKind::roceV2});
  EXPECT_EQ(chosen(table, {.range = "192.168.0.0/16"}), 5u);
  EXPECT_EQ(chosen(table, {.range = "0.0.0.0/0"}), 3u);
  EXPECT_EQ(chosen(table, {.range = "10.1.2.3/32"}), 3u);
  EXPECT_EQ(chosen(table, {.family = AddressFamily::ipv6, .range = "2001:db8:1::/48"}), 6u);
  EXPECT_NE(refusal(table, {.range = "10.1.2.2/32"}).find("10.1.2.2/32"), std::string::npos);
}

TEST(ChooseGid, NamesARangeThatIsNone) {
  for (const char* range : {"10.1.0.0", "10.1.0.0/", "10.1.0.0/33", "10.1.0.0/-1", "10.1.0.0/8x",
                            "10.1/16", "/8", "2001:db8::/129", "mlx5_0"}) {
    EXPECT_NE(refusal(usualTable(), {.range = range}).find(range), std::string::npos) << range;
  }
}

TEST(ChooseGid, SaysWhatThereIsWhereNothingFits) {
  const std::string index = refusal(usualTable(), {.index = 9});
  EXPECT_NE(index.find("NCCL_IB_GID_INDEX=9"), std::string::npos) << index;
  EXPECT_NE(index.find("10.1.2.3, RoCE v2, index 3"), std::string::npos) << index;
  const std::vector<GidEntry> first = {usualTable()[0]};
  const std::string version = refusal(first, {});
  EXPECT_NE(version.find("fe80::5054:ff:fe12:3456, RoCE v1, index 0"), std::string::npos)
      << version;
  EXPECT_NE(refusal({}, {}).find("has its interface an address?"), std::string::npos);
}

TEST(ChooseGid, NeverTakesAnUnsetEntry) {
  const std::vector<GidEntry> table = {{0, Gid{}, GidKind::roceV2}};
  EXPECT_NE(refusal(table, {.family = AddressFamily::any}).find("no GID"), std::string::npos);
  EXPECT_NE(refusal(table, {.index = 0}).find("no GID"), std::string::npos);
}

// Whatever the table: what is chosen is in it and as wished, and where something is, it is chosen.
TEST(ChooseGid, ChoosesWhatFitsFromAnyTable) {
  std::mt19937 random(1);
  const Gid gids[] = {Gid{}, gidOf("fe80::1"), gidOf("10.0.0.1"), gidOf("2001:db8::1")};
  for (int round = 0; round < 2000; ++round) {
    std::vector<GidEntry> table;
    for (uint32_t index = 0; index < random() % 6; ++index)
      table.push_back(
          {index, gids[random() % 4], random() % 2 ? GidKind::roceV2 : GidKind::roceV1});
    const GidWish wish = {.family = static_cast<AddressFamily>(random() % 3),
                          .roceVersion = 1 + static_cast<int>(random() % 2)};
    const auto isWished = [&](const GidEntry& entry) {
      const bool isFamily = wish.family == AddressFamily::any ||
                            isIpv4(entry.gid) == (wish.family == AddressFamily::ipv4);
      return isFamily && entry.gid != Gid{} &&
             (entry.kind == GidKind::roceV1) == (wish.roceVersion == 1);
    };
    const Result<GidChoice> choice = chooseGid(table, wish);
    ASSERT_EQ(choice.ok(), std::any_of(table.begin(), table.end(), isWished));
    if (!choice) continue;
    const GidEntry& entry = choice.value().entry;
    EXPECT_TRUE(isWished(entry));
    EXPECT_EQ(table[entry.index].gid, entry.gid);
    const bool isLast = std::none_of(table.begin(), table.end(), [&](const GidEntry& other) {
      return isWished(other) && !isLinkLocal(other.gid);
    });
    EXPECT_EQ(isLinkLocal(entry.gid), isLast);
  }
}

}  // namespace
}  // namespace cinch::net::ib
