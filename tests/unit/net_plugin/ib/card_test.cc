#include "net_plugin/ib/card.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace cinch::net::ib {
namespace {

using Bytes = std::vector<uint8_t>;

Card randomCard(std::mt19937_64& random) {
  Card card{.ringAddress = random(), .ports = {}, .queues = {}};
  for (size_t n = 1 + random() % kMaxPorts; n > 0; --n) {
    PortCard port = {.lid = static_cast<uint16_t>(random()),
                     .link = random() % 2 ? LinkKind::infiniband : LinkKind::ethernet,
                     .mtu = static_cast<uint8_t>(1 + random() % 5),
                     .ringKey = static_cast<uint32_t>(random())};
    for (uint8_t& byte : port.gid) byte = static_cast<uint8_t>(random());
    card.ports.push_back(port);
  }
  const size_t perPort = 1 + random() % (kMaxQueues / card.ports.size());
  for (size_t i = 0; i < perPort * card.ports.size(); ++i) {
    card.queues.push_back({static_cast<uint32_t>(random() % (1 << 24)),
                           static_cast<uint32_t>(random() % (1 << 24)),
                           static_cast<uint8_t>(i / perPort),
                           {}});
    if (random() % 2) continue;
    card.queues.back().ece = {1 + static_cast<uint32_t>(random() % 0xffff),
                              static_cast<uint32_t>(random())};
  }
  return card;
}

// One port on Ethernet, two queues.
Card smallCard() {
  Card card{.ringAddress = 0x1817161514131211, .ports = {{}}, .queues = {}};
  card.ports[0].mtu = 3;
  card.ports[0].ringKey = 0x24232221;
  card.queues = {{0x333231, 0x434241, 0, {0x64636261, 0x74737271}}, {0x535251, 0, 0, {}}};
  return card;
}

void expectRefused(const Bytes& bytes, const char* part) {
  const Result<Card> card = parseCard(bytes);
  ASSERT_FALSE(card.ok()) << part;
  EXPECT_NE(card.error().message.find(part), std::string::npos) << card.error().message;
}

TEST(Card, HasTheLayoutOfTheTable) {
  const Bytes bytes = encodeCard(smallCard());
  ASSERT_EQ(bytes.size(), 16u + 32 + 2 * 24);
  const Bytes head = {'C',  'n',  'I',  'B',  2,    0,    1,    2,
                      0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18};
  EXPECT_EQ(Bytes(bytes.begin(), bytes.begin() + 16), head);
  const Bytes portEnd = {0, 0, 2, 3, 0x21, 0x22, 0x23, 0x24, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(Bytes(bytes.begin() + 32, bytes.begin() + 48), portEnd);
  const Bytes queue = {0x31, 0x32, 0x33, 0, 0x41, 0x42, 0x43, 0,    0,    0,    0,    0,
                       0,    0,    0,    0, 0x61, 0x62, 0x63, 0x64, 0x71, 0x72, 0x73, 0x74};
  EXPECT_EQ(Bytes(bytes.begin() + 48, bytes.begin() + 72), queue);
}

TEST(Card, ComesBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const Card card = randomCard(random);
    const Bytes bytes = encodeCard(card);
    ASSERT_LE(bytes.size(), kMaxCardBytes);
    const Result<Card> got = parseCard(bytes);
    ASSERT_TRUE(got.ok()) << got.error().message;
    ASSERT_EQ(got.value(), card);
  }
}

TEST(Card, OfAnotherLengthIsRefused) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100; ++i) {
    const Bytes bytes = encodeCard(randomCard(random));
    for (size_t n = 0; n < bytes.size(); ++n)
      ASSERT_FALSE(parseCard(std::span(bytes).first(n)).ok()) << n;
    Bytes longer = bytes;
    longer.push_back(0);
    ASSERT_FALSE(parseCard(longer).ok());
  }
}

TEST(Card, OutOfTheLimitsIsRefused) {
  struct Change {
    size_t at;
    uint8_t value;
    const char* part;
  };
  const Change changes[] = {
      {0, 'c', "another form"},           {4, 1, "version 1"},
      {6, 0, "too many ports"},           {6, kMaxPorts + 1, "too many ports"},
      {6, 2, "another length"},           {7, 0, "too many queues"},
      {7, kMaxQueues + 1, "too many"},    {7, 3, "another length"},
      {16 + 18, 0, "an unknown link"},    {16 + 18, 3, "an unknown link"},
      {16 + 19, 0, "an unknown MTU"},     {16 + 19, 6, "an unknown MTU"},
      {16 + 31, 1, "zeros belong"},       {48 + 3, 1, "above 24 bits"},
      {48 + 7, 1, "above 24 bits"},       {48 + 8, 1, "that it does not have"},
      {48 + 8, 0xff, "it does not have"}, {48 + 15, 1, "zeros belong"},
      {72 + 20, 1, "of no vendor"},
  };
  for (const Change& change : changes) {
    Bytes bytes = encodeCard(smallCard());
    bytes[change.at] = change.value;
    expectRefused(bytes, change.part);
  }
}

// Whatever bytes come: nothing that is let through is out of the limits.
TEST(Card, OfDamagedBytesIsWithinTheLimits) {
  std::mt19937_64 random(3);
  size_t nTaken = 0;
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = encodeCard(randomCard(random));
    for (size_t n = 1 + random() % 3; n > 0; --n)
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    const Result<Card> card = parseCard(bytes);
    if (!card) continue;
    ++nTaken;
    ASSERT_EQ(encodeCard(card.value()), bytes);
    ASSERT_LE(card.value().ports.size(), kMaxPorts);
    ASSERT_LE(card.value().queues.size(), kMaxQueues);
    for (const QueueCard& queue : card.value().queues)
      ASSERT_LT(queue.port, card.value().ports.size());
  }
  EXPECT_GT(nTaken, 1000u);
}

TEST(Card, WithUnevenQueuesIsRefused) {
  Card card = smallCard();
  card.ports.push_back(card.ports[0]);
  expectRefused(encodeCard(card), "not alike at all ports");
  card.queues[1].port = 1;
  EXPECT_TRUE(parseCard(encodeCard(card)).ok());
  card.queues.push_back(card.queues[1]);
  expectRefused(encodeCard(card), "not alike at all ports");
}

TEST(CheckFit, WantsAsManyQueuesOverTheSameKindOfLink) {
  const Card ours = smallCard();
  EXPECT_TRUE(checkFit(ours, ours).ok());
  Card fewer = ours;
  fewer.queues.pop_back();
  const Result<void> number = checkFit(ours, fewer);
  ASSERT_FALSE(number.ok());
  EXPECT_NE(number.error().message.find("has 2 queues for a connection, its peer 1"),
            std::string::npos);
  EXPECT_NE(number.error().message.find("NCCL_IB_QPS_PER_CONNECTION"), std::string::npos);
  Card other = ours;
  other.ports[0].link = LinkKind::infiniband;
  const Result<void> link = checkFit(ours, other);
  ASSERT_FALSE(link.ok());
  EXPECT_NE(link.error().message.find("Ethernet (RoCE) and the one that it would talk to on "
                                      "InfiniBand"),
            std::string::npos);
}

}  // namespace
}  // namespace cinch::net::ib
