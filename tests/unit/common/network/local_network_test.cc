#include "common/network/local_network.h"

#include <gtest/gtest.h>

#include "common/network/socket.h"
#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

TEST(InterfaceList, FollowsNcclsRule) {
  EXPECT_TRUE(matchesInterfaceList("", "eth0"));
  EXPECT_TRUE(matchesInterfaceList("eth", "eth0"));
  EXPECT_FALSE(matchesInterfaceList("eth1", "eth0"));
  EXPECT_TRUE(matchesInterfaceList("ib,eth", "eth0"));
  EXPECT_TRUE(matchesInterfaceList("ib,,eth,", "eth0"));
  EXPECT_FALSE(matchesInterfaceList("ib,,", "eth0"));
  EXPECT_TRUE(matchesInterfaceList("=eth0", "eth0"));
  EXPECT_FALSE(matchesInterfaceList("=eth", "eth0"));
  EXPECT_TRUE(matchesInterfaceList("=lo,eth0", "eth0"));
  EXPECT_FALSE(matchesInterfaceList("^eth", "eth0"));
  EXPECT_TRUE(matchesInterfaceList("^docker,lo", "eth0"));
  EXPECT_FALSE(matchesInterfaceList("^docker,lo", "lo"));
  EXPECT_TRUE(matchesInterfaceList("^=eth", "eth0"));
  EXPECT_FALSE(matchesInterfaceList("^=eth,eth0", "eth0"));
  EXPECT_TRUE(matchesInterfaceList("^", "eth0"));
}

const IpAddress kLoop = loopback();
const IpAddress kEth = ipv4(10, 0, 0, 1);
const IpAddress kDocker = ipv4(172, 17, 0, 1);
const IpAddress kIb = ipv4(192, 168, 1, 1);

IpAddress ethIpv6() {
  IpAddress address;
  address.family = Family::ipv6;
  address.bytes = {0xfd, 0, 1};
  return address;
}

std::vector<Interface> typicalHost() {
  return {{"lo", kLoop, true},
          {"docker0", kDocker, false},
          {"eth0", kEth, false},
          {"eth0", ethIpv6(), false},
          {"ib0", kIb, false}};
}

IpAddress chosen(const std::vector<Interface>& interfaces, const char* list, const char* family) {
  auto address = chooseAddress(interfaces, list, family);
  EXPECT_TRUE(address.ok());
  return address.ok() ? address.value() : IpAddress{};
}

TEST(ChooseAddress, PrefersWhatReachesOtherHosts) {
  std::vector<Interface> host = typicalHost();
  EXPECT_EQ(chosen(host, "", ""), kIb);
  host.pop_back();
  EXPECT_EQ(chosen(host, "", ""), kEth);
  host.erase(host.begin() + 2, host.end());
  EXPECT_EQ(chosen(host, "", ""), kDocker);
  host.pop_back();
  EXPECT_EQ(chosen(host, "", ""), kLoop);
}

TEST(ChooseAddress, ObeysTheUser) {
  EXPECT_EQ(chosen(typicalHost(), "lo", ""), kLoop);
  EXPECT_EQ(chosen(typicalHost(), "=eth0", ""), kEth);
  EXPECT_EQ(chosen(typicalHost(), "^ib,lo,docker", ""), kEth);
  EXPECT_EQ(chosen(typicalHost(), "", "AF_INET6"), ethIpv6());
  EXPECT_EQ(chosen(typicalHost(), "eth", "AF_INET"), kEth);
}

TEST(ChooseAddress, SaysWhatDidNotFit) {
  auto address = chooseAddress(typicalHost(), "wlan", "AF_INET");
  ASSERT_FALSE(address.ok());
  EXPECT_NE(address.error().message.find("NCCL_SOCKET_IFNAME='wlan'"), std::string::npos);
  EXPECT_FALSE(chooseAddress({}, "", "").ok());
}

TEST(ListInterfaces, HasLoopbackAndNothingLinkLocal) {
  std::vector<Interface> all = listInterfaces();
  bool hasLoopback = false;
  for (const Interface& interface : all) {
    EXPECT_FALSE(interface.address.isLinkLocal()) << interface.name;
    EXPECT_EQ(interface.loopback, interface.address.isLoopback()) << interface.name;
    hasLoopback = hasLoopback || interface.address == loopback();
  }
  EXPECT_TRUE(hasLoopback);
}

TEST(ConnectedPeers, SeesTcpConnectionsButNotLoopback) {
  // The host's own address that is not loopback, where there is one.
  for (const Interface& interface : listInterfaces()) {
    auto listener = listenOn(interface.address);
    ASSERT_TRUE(listener.ok());
    auto connected =
        connectTo(localEndpoint(listener.value()), deadlineIn(std::chrono::seconds(5)));
    ASSERT_TRUE(connected.ok()) << connected.error().message;
    std::vector<IpAddress> peers = connectedPeers(100);
    bool seen = std::find(peers.begin(), peers.end(), interface.address) != peers.end();
    EXPECT_EQ(seen, !interface.loopback) << interface.name;
    EXPECT_TRUE(connectedPeers(0).empty());
  }
}

}  // namespace
}  // namespace cinch
