#include "net_plugin/ib/control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace cinch::net::ib {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kMaxReasonBytes = 400;

template <class Array>
void fill(Array& bytes, std::mt19937_64& random) {
  for (auto& byte : bytes) byte = static_cast<uint8_t>(random());
}

ControlMessage randomMessage(std::mt19937_64& random) {
  switch (random() % 3) {
    case 0: {
      LaneLost lost{static_cast<uint8_t>(random()), std::string(random() % 401, ' ')};
      for (char& c : lost.why) c = static_cast<char>(' ' + random() % 95);
      return lost;
    }
    case 1: {
      Standing standing;
      standing.isClosing = random() % 2 != 0;
      standing.nextGroup = random() >> (random() % 64);
      fill(standing.parts, random);
      fill(standing.complete, random);
      return standing;
    }
    default: {
      Confirmed confirmed;
      fill(confirmed.parts, random);
      return confirmed;
    }
  }
}

void expectRefused(std::span<const uint8_t> bytes) {
  const Result<ControlMessage> message = parseControl(bytes);
  ASSERT_FALSE(message.ok()) << "kind " << (bytes.empty() ? -1 : bytes[0]) << " of "
                             << bytes.size();
  EXPECT_EQ(message.error().status, Status::remoteError);
  EXPECT_NE(message.error().message.find("no message of this protocol"), std::string::npos);
}

TEST(Control, HasTheLayoutOfItsDescription) {
  EXPECT_EQ(encodeControl(LaneLost{3, "down"}), (Bytes{1, 3, 'd', 'o', 'w', 'n'}));
  Standing standing;
  standing.isClosing = true;
  standing.nextGroup = 0x0807060504030201;
  standing.parts.front() = 0xa1;
  standing.parts.back() = 0xa2;
  standing.setComplete(0);
  standing.setComplete(255);
  const Bytes bytes = encodeControl(standing);
  ASSERT_EQ(bytes.size(), 2u + 8 + 256 + 32);
  EXPECT_EQ(Bytes(bytes.begin(), bytes.begin() + 11), (Bytes{2, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0xa1}));
  EXPECT_EQ(bytes[2 + 8 + 255], 0xa2);
  EXPECT_EQ(bytes[2 + 8 + 256], 0x01);
  EXPECT_EQ(bytes.back(), 0x80);
  Confirmed confirmed;
  confirmed.parts.back() = 0xa3;
  const Bytes last = encodeControl(confirmed);
  ASSERT_EQ(last.size(), 2u + 256);
  EXPECT_EQ(last[0], 3);
  EXPECT_EQ(last.back(), 0xa3);
}

TEST(Control, ComesBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const ControlMessage message = randomMessage(random);
    const Bytes bytes = encodeControl(message);
    ASSERT_LE(bytes.size(), kMaxControlBytes);
    const Result<ControlMessage> got = parseControl(bytes);
    ASSERT_TRUE(got.ok()) << got.error().message;
    ASSERT_EQ(got.value(), message);
  }
}

TEST(Control, OfAnotherLengthIsRefused) {
  for (const ControlMessage& message : {ControlMessage(Standing{}), ControlMessage(Confirmed{})}) {
    const Bytes bytes = encodeControl(message);
    Bytes longest = bytes;
    longest.resize(kMaxControlBytes + 1);
    for (size_t n = 0; n <= longest.size(); ++n) {
      if (n != bytes.size()) expectRefused(std::span(longest).first(n));
    }
  }
}

// The reason is the rest of the message; a kind alone is none.
TEST(Control, WithALongReasonIsRefusedAndItsWriterCutsIt) {
  Bytes bytes(kMaxControlBytes + 1, 'x');
  bytes[0] = 1;
  for (size_t n = 0; n <= bytes.size(); ++n) {
    const Result<ControlMessage> message = parseControl(std::span(bytes).first(n));
    ASSERT_EQ(message.ok(), n >= 2 && n <= 2 + kMaxReasonBytes) << n;
    if (message) {
      ASSERT_EQ(std::get<LaneLost>(message.value()).why, std::string(n - 2, 'x'));
    }
  }
  for (const size_t n : {kMaxReasonBytes, kMaxReasonBytes + 1, size_t{100000}}) {
    const auto got = parseControl(encodeControl(LaneLost{0, std::string(n, 'y')}));
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(std::get<LaneLost>(got.value()).why, std::string(kMaxReasonBytes, 'y'));
  }
}

// What a peer says goes into this side's log, and may not pretend to be lines of it.
TEST(Control, ShowsNothingUnprintable) {
  for (int c = 0; c < 256; ++c) {
    const Bytes bytes = {1, 0, 'a', static_cast<uint8_t>(c), 'b'};
    const Result<ControlMessage> got = parseControl(bytes);
    ASSERT_TRUE(got.ok()) << c;
    const bool isPrintable = c >= 0x20 && c < 0x7f;
    const std::string shown = {'a', isPrintable ? static_cast<char>(c) : '?', 'b'};
    EXPECT_EQ(std::get<LaneLost>(got.value()).why, shown) << c;
  }
}

TEST(Control, OfAnotherKindOrWithOtherFlagsIsRefused) {
  for (const ControlMessage& message : {ControlMessage(LaneLost{0, "why"}),
                                        ControlMessage(Standing{}), ControlMessage(Confirmed{})}) {
    Bytes bytes = encodeControl(message);
    for (int kind = 0; kind < 256; ++kind) {
      if (kind == bytes[0] || kind == 1) continue;
      Bytes other = bytes;
      other[0] = static_cast<uint8_t>(kind);
      expectRefused(other);
    }
    const int mostFlag = bytes[0] == 1 ? 255 : bytes[0] == 2 ? 1 : 0;
    for (int flag = mostFlag + 1; flag < 256; ++flag) {
      bytes[1] = static_cast<uint8_t>(flag);
      expectRefused(bytes);
    }
  }
}

// Whatever bytes come: what is let through says what it said, but for what cannot be shown.
TEST(Control, OfAnyBytesIsRefusedOrComesBack) {
  std::mt19937_64 random(3);
  const size_t lengths[] = {258, 298, 2, 402};
  size_t nTaken[4] = {};
  for (int i = 0; i < 100000; ++i) {
    Bytes bytes(random() % 2 ? lengths[random() % 4] : random() % 450);
    fill(bytes, random);
    if (bytes.size() >= 2 && random() % 8 != 0) {
      bytes[0] = static_cast<uint8_t>(random() % 5);
      bytes[1] = static_cast<uint8_t>(random() % 3);
    }
    const Result<ControlMessage> message = parseControl(bytes);
    if (!message) continue;
    ++nTaken[bytes[0] & 3];
    Bytes shown = bytes;
    if (bytes[0] == 1) {
      std::replace_if(
          shown.begin() + 2, shown.end(), [](uint8_t c) { return c < ' ' || c > '~'; }, '?');
    }
    ASSERT_EQ(encodeControl(message.value()), shown);
  }
  for (int kind = 1; kind <= 3; ++kind) EXPECT_GT(nTaken[kind], 500u) << kind;
}

TEST(Standing, HasABitForEachPlace) {
  for (size_t place = 0; place < kPlaces; ++place) {
    Standing standing;
    standing.setComplete(place);
    for (size_t other = 0; other < kPlaces; ++other) {
      ASSERT_EQ(standing.isComplete(other), other == place) << place;
    }
  }
}

}  // namespace
}  // namespace cinch::net::ib
