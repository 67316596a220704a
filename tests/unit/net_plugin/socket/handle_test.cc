#include "net_plugin/socket/handle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace cinch::net {
namespace {

Endpoint randomEndpoint(std::mt19937& random) {
  Endpoint endpoint;
  endpoint.address.family = random() % 2 == 0 ? Family::ipv4 : Family::ipv6;
  const size_t length = endpoint.address.family == Family::ipv4 ? 4 : 16;
  for (size_t i = 0; i < length; ++i) endpoint.address.bytes[i] = static_cast<uint8_t>(random());
  endpoint.port = static_cast<uint16_t>(1 + random() % 65535);
  return endpoint;
}

Invitation randomInvitation(std::mt19937& random, size_t nEndpoints) {
  Invitation invitation;
  for (uint8_t& byte : invitation.process) byte = static_cast<uint8_t>(random());
  for (uint8_t& byte : invitation.token) byte = static_cast<uint8_t>(random());
  invitation.transport = random() % 2 == 0 ? Transport::sockets : Transport::verbs;
  while (invitation.endpoints.size() < nEndpoints) {
    invitation.endpoints.push_back(randomEndpoint(random));
  }
  return invitation;
}

Handle randomHandle(std::mt19937& random) {
  Handle handle;
  for (std::byte& byte : handle) byte = static_cast<std::byte>(random());
  return handle;
}

Handle packed(const Invitation& invitation) {
  Handle handle;
  handle.fill(std::byte{0xee});
  packInvitation(invitation, handle);
  return handle;
}

// Whatever a handle's bytes are: nothing comes of them, or an invitation that one can follow.
void expectHarmless(const Handle& handle) {
  const auto invitation = unpackInvitation(handle);
  if (!invitation) return;
  ASSERT_GE(invitation->endpoints.size(), 1u);
  ASSERT_LE(invitation->endpoints.size(), kMaxEndpoints);
  for (const Endpoint& endpoint : invitation->endpoints) {
    sockaddr_storage address;
    ASSERT_GT(toSockaddr(endpoint, &address), 0u);
    ASSERT_NE(endpoint.port, 0);
  }
  ASSERT_EQ(unpackInvitation(packed(*invitation)), *invitation);
}

TEST(Handle, BringsBackWhatWasPacked) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const Invitation invitation = randomInvitation(random, 1 + i % kMaxEndpoints);
    EXPECT_EQ(unpackInvitation(packed(invitation)), invitation);
  }
}

TEST(Handle, TellsInvitationsApart) {
  std::mt19937 random(2);
  const Invitation invitation = randomInvitation(random, kMaxEndpoints);
  std::vector<Invitation> others(7, invitation);
  others[0].process[0] ^= 1;
  others[1].process[15] ^= 0x80;
  others[2].token[0] ^= 1;
  others[3].endpoints.back().port ^= 1;
  others[4].endpoints.back().address.bytes[0] ^= 1;
  others[5].endpoints.pop_back();
  const bool isVerbs = invitation.transport == Transport::verbs;
  others[6].transport = isVerbs ? Transport::sockets : Transport::verbs;
  for (const Invitation& other : others) {
    EXPECT_NE(packed(other), packed(invitation));
    EXPECT_EQ(unpackInvitation(packed(other)), other);
  }
}

TEST(Handle, IsTheSameBytesWhateverWasThere) {
  std::mt19937 random(3);
  const Invitation invitation = randomInvitation(random, 1);
  Handle handle = randomHandle(random);
  packInvitation(invitation, handle);
  EXPECT_EQ(handle, packed(invitation)) << "what lay there leaks to the other host";
}

TEST(Handle, TakesNoMoreEndpointsThanFit) {
  std::mt19937 random(4);
  Invitation invitation = randomInvitation(random, kMaxEndpoints + 3);
  const auto got = unpackInvitation(packed(invitation));
  invitation.endpoints.resize(kMaxEndpoints);
  EXPECT_EQ(got, invitation);
}

TEST(Handle, WithoutAWayToConnectIsRefused) {
  std::mt19937 random(5);
  EXPECT_FALSE(unpackInvitation(packed(randomInvitation(random, 0))));
  for (size_t bad = 0; bad < kMaxEndpoints; ++bad) {
    Invitation noPort = randomInvitation(random, kMaxEndpoints);
    noPort.endpoints[bad].port = 0;
    EXPECT_FALSE(unpackInvitation(packed(noPort)));
    Invitation noFamily = randomInvitation(random, kMaxEndpoints);
    noFamily.endpoints[bad].address.family = Family::none;
    EXPECT_FALSE(unpackInvitation(packed(noFamily)));
  }
}

// Where the byte is: the transport of an invitation that is otherwise the same.
size_t transportByte(Invitation invitation) {
  invitation.transport = Transport::sockets;
  const Handle sockets = packed(invitation);
  invitation.transport = Transport::verbs;
  const Handle verbs = packed(invitation);
  return std::mismatch(sockets.begin(), sockets.end(), verbs.begin()).first - sockets.begin();
}

TEST(Handle, OfAnUnknownTransportIsRefused) {
  std::mt19937 random(10);
  const Invitation invitation = randomInvitation(random, 2);
  const size_t at = transportByte(invitation);
  ASSERT_LT(at, kHandleBytes);
  Handle handle = packed(invitation);
  for (int value = 0; value < 256; ++value) {
    handle[at] = static_cast<std::byte>(value);
    EXPECT_EQ(unpackInvitation(handle).has_value(), value < 2) << value;
  }
}

TEST(Handle, OfTheOtherTransportIsAnErrorThatSaysWhatToDo) {
  Invitation invitation;
  Endpoint endpoint;
  endpoint.address.family = Family::ipv4;
  endpoint.address.bytes = {192, 0, 2, 7};
  endpoint.port = 5;
  invitation.endpoints.push_back(endpoint);
  EXPECT_TRUE(checkTransport(invitation, Transport::sockets));
  const auto byVerbs = checkTransport(invitation, Transport::verbs);
  ASSERT_FALSE(byVerbs);
  EXPECT_EQ(byVerbs.error().status, Status::invalidUsage);
  EXPECT_EQ(byVerbs.error().message,
            "the peer at 192.0.2.7 listens over sockets, this process sends over InfiniBand verbs: "
            "set CINCH_NET=socket or CINCH_NET=verbs alike on all ranks");
  invitation.transport = Transport::verbs;
  EXPECT_TRUE(checkTransport(invitation, Transport::verbs));
  const auto bySockets = checkTransport(invitation, Transport::sockets);
  ASSERT_FALSE(bySockets);
  EXPECT_EQ(bySockets.error().status, Status::invalidUsage);
  EXPECT_EQ(bySockets.error().message,
            "the peer at 192.0.2.7 listens over InfiniBand verbs, this process sends over sockets: "
            "set CINCH_NET=socket or CINCH_NET=verbs alike on all ranks");
}

TEST(Handle, OfOtherBytesIsRefused) {
  EXPECT_FALSE(unpackInvitation(Handle{}));
  std::mt19937 random(6);
  for (int i = 0; i < 20000; ++i) {
    EXPECT_FALSE(unpackInvitation(randomHandle(random)));
  }
}

TEST(Handle, OfDamagedBytesIsHarmless) {
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 50000; ++i) {
    Handle handle = packed(randomInvitation(random, 1 + i % kMaxEndpoints));
    for (uint32_t n = 1 + random() % 8; n > 0; --n) {
      handle[random() % handle.size()] = static_cast<std::byte>(random());
    }
    expectHarmless(handle);
    refused += !unpackInvitation(handle);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 49000);
}

TEST(Handle, WithEveryCountAndFamilyIsHarmless) {
  std::mt19937 random(8);
  for (size_t at = 0; at < kHandleBytes; ++at) {
    for (int value = 0; value < 256; ++value) {
      Handle handle = packed(randomInvitation(random, kMaxEndpoints));
      // Behind the last endpoint, what looks like one more.
      std::fill(handle.end() - 15, handle.end(), static_cast<std::byte>(Family::ipv4));
      handle[at] = static_cast<std::byte>(value);
      expectHarmless(handle);
    }
  }
}

TEST(Handle, KeepsTheConnectingSidesWord) {
  std::mt19937 random(9);
  for (size_t nEndpoints = 1; nEndpoints <= kMaxEndpoints; ++nEndpoints) {
    const Invitation invitation = randomInvitation(random, nEndpoints);
    Handle handle = packed(invitation);
    EXPECT_EQ(handleState(handle), nullptr);
    int state = 0;
    setHandleState(handle, &state);
    EXPECT_EQ(handleState(handle), &state);
    EXPECT_EQ(unpackInvitation(handle), invitation) << "the word lies on the invitation";
    setHandleState(handle, nullptr);
    EXPECT_EQ(handle, packed(invitation));
  }
}

}  // namespace
}  // namespace cinch::net
