#include "common/network/ip_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <random>

namespace cinch {
namespace {

IpAddress parse(const char* text) {
  sockaddr_in v4 = {};
  sockaddr_in6 v6 = {};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
    return fromSockaddr(reinterpret_cast<sockaddr*>(&v4)).address;
  }
  EXPECT_EQ(inet_pton(AF_INET6, text, &v6.sin6_addr), 1) << text;
  return fromSockaddr(reinterpret_cast<sockaddr*>(&v6)).address;
}

TEST(IpAddress, TextIsTheUsualForm) {
  EXPECT_EQ(parse("10.0.0.7").text(), "10.0.0.7");
  EXPECT_EQ(parse("fd00::2").text(), "fd00::2");
  EXPECT_EQ((Endpoint{parse("10.0.0.7"), 4000}.text()), "10.0.0.7:4000");
  EXPECT_EQ((Endpoint{parse("fd00::2"), 4000}.text()), "[fd00::2]:4000");
  EXPECT_EQ(IpAddress{}.text(), "no address");
}

TEST(IpAddress, Ipv4InsideIpv6IsIpv4) {
  EXPECT_EQ(parse("::ffff:10.0.0.7"), parse("10.0.0.7"));
  EXPECT_NE(parse("::10.0.0.7"), parse("10.0.0.7"));
}

TEST(IpAddress, KnowsLoopbackAndLinkLocal) {
  for (const char* text : {"127.0.0.1", "127.8.9.1", "::1"}) {
    EXPECT_TRUE(parse(text).isLoopback()) << text;
  }
  for (const char* text : {"128.0.0.1", "::2", "fd00::1", "0.0.0.1"}) {
    EXPECT_FALSE(parse(text).isLoopback()) << text;
  }
  for (const char* text : {"169.254.3.4", "fe80::1", "febf::1"}) {
    EXPECT_TRUE(parse(text).isLinkLocal()) << text;
  }
  for (const char* text : {"169.253.3.4", "fec0::1", "fd00::1"}) {
    EXPECT_FALSE(parse(text).isLinkLocal()) << text;
  }
}

TEST(IpAddress, SurvivesTheKernelsForm) {
  std::mt19937 random(6);
  for (int i = 0; i < 1000; ++i) {
    Endpoint endpoint;
    bool v6 = random() & 1;
    endpoint.address.family = v6 ? Family::ipv6 : Family::ipv4;
    endpoint.port = static_cast<uint16_t>(random());
    for (size_t at = 0; at < (v6 ? 16 : 4); ++at) {
      endpoint.address.bytes[at] = static_cast<uint8_t>(random());
    }
    sockaddr_storage storage;
    ASSERT_GT(toSockaddr(endpoint, &storage), 0u);
    ASSERT_EQ(fromSockaddr(reinterpret_cast<sockaddr*>(&storage)), endpoint);
  }
}

TEST(IpAddress, OtherFamiliesAreNone) {
  sockaddr_storage storage = {};
  storage.ss_family = AF_UNIX;
  EXPECT_EQ(fromSockaddr(reinterpret_cast<sockaddr*>(&storage)), Endpoint{});
  EXPECT_EQ(toSockaddr(Endpoint{}, &storage), 0u);
}

}  // namespace
}  // namespace cinch
