#include "emulator/nccl/address.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>

namespace cinch::emulator {
namespace {

TEST(InterfaceRule, IsAListOfPrefixes) {
  EXPECT_TRUE(interfaceMatches("eth", "eth0"));
  EXPECT_TRUE(interfaceMatches("ib,eth", "eth1"));
  EXPECT_TRUE(interfaceMatches("ib,eth", "ib0"));
  EXPECT_FALSE(interfaceMatches("eth1", "eth0"));
  EXPECT_FALSE(interfaceMatches("th", "eth0"));
}

TEST(InterfaceRule, CanBeExactOrExclude) {
  EXPECT_TRUE(interfaceMatches("=eth1", "eth1"));
  EXPECT_FALSE(interfaceMatches("=eth1", "eth10"));
  EXPECT_FALSE(interfaceMatches("^docker,lo", "lo"));
  EXPECT_FALSE(interfaceMatches("^docker", "docker0"));
  EXPECT_TRUE(interfaceMatches("^docker", "eth0"));
  EXPECT_TRUE(interfaceMatches("^=eth1", "eth10"));
  EXPECT_FALSE(interfaceMatches("^=eth1", "eth1"));
}

class InterfaceChoice : public testing::Test {
 protected:
  void TearDown() override { setenv("NCCL_SOCKET_IFNAME", "lo", 1); }
};

TEST_F(InterfaceChoice, FollowsTheEnvironment) {
  setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
  const auto chosen = chooseInterface();
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen.value().name, "lo");
  EXPECT_EQ(addressText(chosen.value().address), "127.0.0.1<0>");
}

TEST_F(InterfaceChoice, NamesTheRuleThatNothingMatches) {
  setenv("NCCL_SOCKET_IFNAME", "nonesuch", 1);
  const auto chosen = chooseInterface();
  ASSERT_FALSE(chosen.ok());
  EXPECT_NE(chosen.error().message.find("nonesuch"), std::string::npos);
}

TEST_F(InterfaceChoice, TakesLoopbackOnlyWhereThereIsNothingElse) {
  unsetenv("NCCL_SOCKET_IFNAME");
  const auto any = chooseInterface();
  setenv("NCCL_SOCKET_IFNAME", "^lo", 1);
  const auto other = chooseInterface();
  ASSERT_TRUE(any.ok());
  EXPECT_EQ(any.value().name == "lo", !other.ok());
}

TEST(Address, IsParsedFromText) {
  const auto v4 = parseAddress("127.0.0.1:4711");
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(addressText(v4.value()), "127.0.0.1<4711>");
  const auto v6 = parseAddress("[::1]:80");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(addressText(v6.value()), "::1<80>");
  for (const char* bad :
       {"", ":", "127.0.0.1", ":80", "127.0.0.1:port", "no such host:1", "[]:1"}) {
    EXPECT_FALSE(parseAddress(bad).ok()) << bad;
  }
}

Address loopback() {
  return parseAddress("127.0.0.1:0").value();
}

TEST(Connection, ReachesAListener) {
  Address address = loopback();
  const auto listener = listenOn(address);
  ASSERT_TRUE(listener.ok());
  EXPECT_NE(address.port, 0);
  EXPECT_FALSE(acceptWaiting(listener.value().get()).isOpen()) << "must not block";
  const auto client = connectTo(address, Clock::now() + std::chrono::seconds(10), Refusal::isFinal);
  ASSERT_TRUE(client.ok());
  pollfd target{listener.value().get(), POLLIN, 0};
  ASSERT_EQ(poll(&target, 1, -1), 1);
  const Descriptor server = acceptWaiting(listener.value().get());
  ASSERT_TRUE(server.isOpen());
  EXPECT_EQ(addressText(peerAddress(client.value().get())), addressText(address));
}

Address deadAddress() {
  Address address = loopback();
  EXPECT_TRUE(listenOn(address).ok());  // closed again at once
  return address;
}

TEST(Connection, IsRefusedAtOnceWhereNobodyListens) {
  const auto client =
      connectTo(deadAddress(), Clock::now() + std::chrono::hours(1), Refusal::isFinal);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().status, Status::remoteError);
}

TEST(Connection, IsTriedUntilTheDeadlineWhereTheListenerMayCome) {
  const auto client = connectTo(deadAddress(), Clock::now(), Refusal::isRetried);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().status, Status::remoteError);
}

}  // namespace
}  // namespace cinch::emulator
