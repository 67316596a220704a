#include "interpose/agree/agreement_wire.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "common/byte_order.h"
#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

constexpr size_t kHeaderBytes = 16;

MessageReader readerOf(const Bytes& bytes, uint32_t limit = kMaxServerBytes) {
  MessageReader reader;
  reader.setLimit(limit);
  reader.append(bytes.data(), bytes.size());
  return reader;
}

// The one message in `bytes`.
template <class T>
T decoded(const Bytes& bytes) {
  MessageReader reader = readerOf(bytes);
  auto message = reader.next();
  EXPECT_TRUE(message.ok()) << message.error().message;
  if (!message.ok() || !message.value()) return {};
  EXPECT_TRUE(std::holds_alternative<T>(message.value()->message));
  EXPECT_FALSE(reader.next().value());
  return std::get<T>(message.value()->message);
}

Hello linkedHello() {
  Hello hello = makeHello(3, 8);
  hello.links = Links::nvlink;
  hello.device = 0xd1d2d3d4;
  hello.communicator = "process5.comm1";
  hello.server = {ipv4(10, 0, 0, 9), 4001};
  return hello;
}

Message sample(size_t type) {
  switch (type) {
    case 0:
      return HelloMessage{0xabcdef, linkedHello(), 0x123456, {1, 2}, {3, 4}};
    case 1:
      return Initialised{{ipv4(10, 0, 0, 1)}, {ipv4(10, 0, 0, 2), ipv4(10, 0, 0, 3)}};
    case 2:
      return Vote{7, true, {8, 9}};
    case 3:
      return Acknowledged{};
    case 4:
      return Rejected{"because"};
    case 5:
      return Verdict{true, "", {1, 2, 3}, Links::pcie, "comm0", {ipv4(10, 0, 0, 4), 4000}};
    case 6:
      return Figures{12, {1, kNoFigure, 3}};
    case 7:
      return Proposal{11, kNoOrdinal, {1, 2, 3, 0, 255}};
    case 8:
      return Prepare{15, 16, true};
    case 9:
      return Prepared{17, Prepared::Answer::busy, 1ull << 40, 18};
    case 10:
      return Commit{19, 20, {{21, {4, 5}}, {22, {}}}};
    case 11:
      return Withdraw{21, kNoOrdinal};
    case 12:
      return Leave{};
    case 13:
      return Retraction{23};
    case 14:
      return Missed{24};
    case 15:
      return Trail{64, 32, {1, 2, ~0ull}};
    case 16:
      return Difference{25, 26, 27, 28};
    default:
      return Inquiry{{0xabcdef, linkedHello(), 0, {1, 2}, {3, 4}}, 29};
  }
}
constexpr size_t kTypes = std::variant_size_v<Message>;

TEST(AgreementWire, HelloComesBack) {
  HelloMessage sent{0x1122334455667788, linkedHello(), 0x99aabbccddeeff00, {5, 6}, {7, 8}};
  sent.hello.refusal = "non-blocking communicator";
  HelloMessage got = decoded<HelloMessage>(encodeMessage(sent));
  EXPECT_EQ(got.nonce, sent.nonce);
  EXPECT_EQ(got.parent, sent.parent);
  EXPECT_TRUE(got.number == sent.number && got.proof == sent.proof);
  EXPECT_EQ(got.hello.rank, 3);
  EXPECT_EQ(got.hello.nRanks, 8);
  EXPECT_EQ(got.hello.version, kAgreementVersion);
  EXPECT_EQ(got.hello.settingsHash, sent.hello.settingsHash);
  EXPECT_EQ(got.hello.hostId, sent.hello.hostId);
  EXPECT_EQ(got.hello.settings, sent.hello.settings);
  EXPECT_EQ(got.hello.host, sent.hello.host);
  EXPECT_EQ(got.hello.refusal, sent.hello.refusal);
  EXPECT_EQ(got.hello.links, Links::nvlink);
  EXPECT_EQ(got.hello.device, sent.hello.device);
  EXPECT_EQ(got.hello.communicator, "process5.comm1");
  EXPECT_EQ(got.hello.server, sent.hello.server);
}

TEST(AgreementWire, AnInquiryComesBack) {
  const Inquiry got = decoded<Inquiry>(encodeMessage(sample(kTypes - 1)));
  EXPECT_EQ(got.round, 29u);
  EXPECT_EQ(got.from.nonce, 0xabcdefu);
  EXPECT_EQ(got.from.hello.rank, 3);
  EXPECT_TRUE(got.from.number == (Random{1, 2}) && got.from.proof == (Proof{3, 4}));
}

TEST(AgreementWire, AFrameKeepsItsChannel) {
  for (const Channel channel : {Channel{0}, kFirstChannel, Channel{0xfedcba98}}) {
    MessageReader reader = readerOf(encodeMessage(Leave{}, channel));
    EXPECT_EQ(reader.next().value()->channel, channel);
  }
}

TEST(AgreementWire, AServerKeepsTheScopeOfItsAddress) {
  HelloMessage sent{1, linkedHello()};
  sent.hello.server.address = {Family::ipv6, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1}, 7};
  const Endpoint got = decoded<HelloMessage>(encodeMessage(sent)).hello.server;
  EXPECT_EQ(got, sent.hello.server);
  EXPECT_EQ(got.address.scope, 7u);
}

TEST(AgreementWire, TheOthersComeBack) {
  Initialised report = decoded<Initialised>(encodeMessage(sample(1)));
  EXPECT_EQ(report.own, std::get<Initialised>(sample(1)).own);
  EXPECT_EQ(report.peers, std::get<Initialised>(sample(1)).peers);
  Vote vote = decoded<Vote>(encodeMessage(Vote{~0ull, true}));
  EXPECT_TRUE(vote.topic == ~0ull && vote.yes);
  EXPECT_EQ(decoded<Vote>(encodeMessage(sample(2))).bytes, Bytes({8, 9}));
  EXPECT_EQ(decoded<Rejected>(encodeMessage(sample(4))).reason, "because");
  EXPECT_EQ(decoded<Acknowledged>(encodeMessage(Acknowledged{{9, 10}})).proof, Proof({9, 10}));
  Verdict verdict = decoded<Verdict>(encodeMessage(Verdict{false, "rank 2 ...", {}}));
  EXPECT_TRUE(!verdict.compress && verdict.reason == "rank 2 ..." && verdict.hostIds.empty());
  verdict = decoded<Verdict>(encodeMessage(sample(5)));
  EXPECT_EQ(verdict.hostIds, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(verdict.links, Links::pcie);
  EXPECT_EQ(verdict.communicator, "comm0");
  EXPECT_EQ(verdict.server.text(), "10.0.0.4:4000");
  Figures figures = decoded<Figures>(encodeMessage(sample(6)));
  EXPECT_EQ(figures.topic, 12u);
  EXPECT_EQ(figures.values, (std::vector<uint64_t>{1, kNoFigure, 3}));
}

TEST(AgreementWire, WhatDecidesComesBack) {
  const auto proposal = decoded<Proposal>(encodeMessage(sample(7)));
  EXPECT_TRUE(proposal.topic == 11 && proposal.ordinal == kNoOrdinal);
  EXPECT_EQ(proposal.bytes, Bytes({1, 2, 3, 0, 255}));
  const auto prepare = decoded<Prepare>(encodeMessage(sample(8)));
  EXPECT_TRUE(prepare.round == 15 && prepare.ordinal == 16 && prepare.insists);
  const auto prepared = decoded<Prepared>(encodeMessage(sample(9)));
  EXPECT_TRUE(prepared.round == 17 && prepared.answer == Prepared::Answer::busy);
  EXPECT_TRUE(prepared.claimed == 1ull << 40 && prepared.lead == 18);
  const auto commit = decoded<Commit>(encodeMessage(sample(10)));
  EXPECT_TRUE(commit.round == 19 && commit.ordinal == 20);
  EXPECT_EQ(commit.decisions, (std::vector<Decision>{{21, {4, 5}}, {22, {}}}));
  const auto withdraw = decoded<Withdraw>(encodeMessage(sample(11)));
  EXPECT_TRUE(withdraw.round == 21 && withdraw.openBelow == kNoOrdinal);
  EXPECT_EQ(decoded<Retraction>(encodeMessage(sample(13))).topic, 23u);
  EXPECT_EQ(decoded<Missed>(encodeMessage(sample(14))).topic, 24u);
  const auto trail = decoded<Trail>(encodeMessage(sample(15)));
  EXPECT_TRUE(trail.first == 64 && trail.stride == 32);
  EXPECT_EQ(trail.hashes, (std::vector<uint64_t>{1, 2, ~0ull}));
  const auto difference = decoded<Difference>(encodeMessage(sample(16)));
  EXPECT_TRUE(difference.alike == 25 && difference.differs == 26);
  EXPECT_TRUE(difference.rank == 27 && difference.other == 28);
}

// Sums of them would begin again at 0.
TEST(AgreementWire, NumbersOfCallsAreBounded) {
  for (const Message& message :
       {Message(Proposal{1, kNoOrdinal - 1, {}}),
        Message(Prepared{1, Prepared::Answer::claimed, kNoOrdinal, 0}),
        Message(Prepared{1, Prepared::Answer::claimed, 0, 1ull << 33}),
        Message(Trail{kNoOrdinal, 1, {1}}), Message(Trail{1, 1ull << 33, {1}})}) {
    EXPECT_FALSE(readerOf(encodeMessage(message)).next().ok()) << message.index();
  }
}

TEST(AgreementWire, TheLargestMessagesFitTheirLimits) {
  HelloMessage hello{1, makeHello(0, kMaxRanks)};
  Hello& own = hello.hello;
  for (std::string* text : {&own.settings, &own.host, &own.refusal, &own.communicator}) {
    *text = std::string(100000, 'x');
  }
  EXPECT_TRUE(readerOf(encodeMessage(hello), kMaxHelloBytes).next().ok());
  Initialised report;
  report.own.assign(5000, ipv4(1, 2, 3, 4));
  report.peers = report.own;
  EXPECT_TRUE(readerOf(encodeMessage(report), kMaxRankBytes).next().ok());
  EXPECT_EQ(decoded<Initialised>(encodeMessage(report)).peers.size(), kMaxAddresses);
  const Bytes many(100000, 7);
  for (const Message& message : {Message(Vote{1, true, many}), Message(Proposal{1, 2, many})})
    EXPECT_TRUE(readerOf(encodeMessage(message), kMaxRankBytes).next().ok());
  EXPECT_EQ(decoded<Proposal>(encodeMessage(Proposal{1, 2, many})).bytes.size(), kMaxDecided);
  const Bytes pooled = encodeMessage(Figures{1, std::vector<uint64_t>(1000, 7)});
  EXPECT_EQ(decoded<Figures>(pooled).values.size(), kMaxFigures);
  Verdict verdict{true, std::string(100000, 'x'), std::vector<uint64_t>(kMaxRanks, 5)};
  EXPECT_EQ(decoded<Verdict>(encodeMessage(verdict)).hostIds.size(), size_t{kMaxRanks});
}

TEST(AgreementWire, TextsBecomePrintable) {
  HelloMessage sent{1, makeHello(0, 2)};
  sent.hello.host = "evil\n\x1b[31mhost\xff";
  EXPECT_EQ(decoded<HelloMessage>(encodeMessage(sent)).hello.host, "evil??[31mhost?");
}

TEST(AgreementWire, MessagesMayArriveInAnyPieces) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    Bytes stream;
    std::vector<size_t> types;
    for (int i = 0; i < 20; ++i) {
      types.push_back(random() % kTypes);
      Bytes frame = encodeMessage(sample(types.back()));
      stream.insert(stream.end(), frame.begin(), frame.end());
    }
    MessageReader reader = readerOf({});
    std::vector<size_t> got;
    for (size_t at = 0; at < stream.size();) {
      size_t n = std::min<size_t>(1 + random() % 60, stream.size() - at);
      reader.append(stream.data() + at, n);
      at += n;
      for (;;) {
        auto message = reader.next();
        ASSERT_TRUE(message.ok());
        if (!message.value()) break;
        got.push_back(message.value()->message.index());
      }
    }
    ASSERT_EQ(got, types);
  }
}

TEST(AgreementWire, StrangersAreRecognisedByTheirFirstByte) {
  for (const char* text : {"GET / HTTP/1.1\r\n", "\x16\x03\x01", "SSH-2.0", "CAGX"}) {
    Bytes bytes(text, text + strlen(text));
    EXPECT_FALSE(readerOf(bytes).next().ok()) << text;
  }
  EXPECT_TRUE(readerOf({'C', 'A'}).next().ok());
  EXPECT_FALSE(readerOf({'G'}).next().ok());
}

TEST(AgreementWire, LongPayloadsAreRefusedFromTheHeaderAlone) {
  Bytes frame = encodeMessage(sample(0));
  EXPECT_TRUE(readerOf(frame, static_cast<uint32_t>(frame.size() - kHeaderBytes)).next().ok());
  frame.resize(kHeaderBytes);
  EXPECT_FALSE(readerOf(frame, 50).next().ok());
  for (uint8_t type : {0, 8, 255}) {
    Bytes bad = encodeMessage(sample(3));
    bad[4] = type;
    EXPECT_FALSE(readerOf(bad).next().ok()) << int{type};
  }
}

// Each shorter payload under an honest length is malformed: no field has a default.
TEST(AgreementWire, TruncatedPayloadsAreRefused) {
  for (size_t type = 0; type < kTypes; ++type) {
    Bytes frame = encodeMessage(sample(type));
    for (size_t n = 0; n + kHeaderBytes < frame.size(); ++n) {
      Bytes cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(kHeaderBytes + n));
      cut[8] = static_cast<uint8_t>(n);
      cut[9] = static_cast<uint8_t>(n >> 8);
      EXPECT_FALSE(readerOf(cut).next().ok()) << "type " << type << " cut to " << n;
    }
  }
}

TEST(AgreementWire, TrailingBytesAreForLaterVersionsOnly) {
  for (size_t type = 0; type < kTypes; ++type) {
    Bytes frame = encodeMessage(sample(type));
    frame.push_back(0);
    frame[8]++;
    EXPECT_FALSE(readerOf(frame).next().ok()) << type;
  }
  HelloMessage later{1, makeHello(0, 2)};
  later.hello.version = kAgreementVersion + 1;
  Bytes frame = encodeMessage(later);
  frame.push_back(0);
  frame[8]++;
  EXPECT_EQ(decoded<HelloMessage>(frame).hello.version, kAgreementVersion + 1);
}

// A frame but for its last bytes.
Bytes without(Bytes frame, size_t nBytes) {
  frame.resize(frame.size() - nBytes);
  storeLittle(static_cast<uint32_t>(frame.size() - kHeaderBytes), &frame[8]);
  return frame;
}
// The proof of a key; where it serves, and that; the links, the device, and a name that is empty.
constexpr size_t kKeyBytes = sizeof(Random) + sizeof(Proof);
constexpr size_t kServerBytes = kKeyBytes + 1 + 16 + sizeof(uint32_t) + sizeof(uint16_t);
constexpr size_t kDeviceBytes = sizeof(uint8_t) + sizeof(uint64_t) + sizeof(uint32_t);

Hello unnamedHello() {
  Hello hello = linkedHello();
  hello.communicator.clear();
  return hello;
}

TEST(AgreementWire, AHelloOfVersionFourSaysNothingOfLinks) {
  HelloMessage fourth{7, unnamedHello(), 0x123456};
  fourth.hello.version = 4;
  const Bytes frame = encodeMessage(fourth);
  EXPECT_FALSE(readerOf(frame).next().ok()) << "it ends before the links";
  const HelloMessage got = decoded<HelloMessage>(without(frame, kDeviceBytes + kServerBytes));
  EXPECT_EQ(got.parent, 0x123456u);
  EXPECT_EQ(got.hello.links, Links::unknown);
  EXPECT_EQ(got.hello.settings, fourth.hello.settings);
}

TEST(AgreementWire, LinksOfAKindToComeAreUnknown) {
  Bytes frame = encodeMessage(HelloMessage{7, unnamedHello(), 0x123456});
  frame[frame.size() - kDeviceBytes - kServerBytes] = 3;
  EXPECT_EQ(decoded<HelloMessage>(frame).hello.links, Links::unknown);
}

// It goes to ranks of all versions.
TEST(AgreementWire, ANoSaysNothingOfLinks) {
  const Bytes plain = encodeMessage(Verdict{false, "why", {}});
  EXPECT_EQ(encodeMessage(Verdict{false, "why", {}, Links::nvlink, "comm0"}), plain);
  EXPECT_EQ(plain.size(), kHeaderBytes + 1 + 4 + 3 + 4);
}

// Version 1 ended a hello with its settings, and is still understood well enough to be named.
TEST(AgreementWire, AHelloOfVersionOneHasNoParent) {
  HelloMessage first{7, makeHello(1, 2), 0x123456};
  first.hello.version = 1;
  Bytes frame = encodeMessage(first);
  EXPECT_FALSE(readerOf(frame).next().ok()) << "it ends before the parent";
  frame = without(frame, sizeof(uint64_t) + kDeviceBytes + kServerBytes);
  HelloMessage got = decoded<HelloMessage>(frame);
  EXPECT_EQ(got.parent, kNoParent);
  EXPECT_EQ(got.hello.rank, 1);
  EXPECT_EQ(got.hello.version, 1u);
  EXPECT_EQ(got.hello.settings, first.hello.settings);
}

TEST(AgreementWire, NoncesOfChildrenDiffer) {
  std::set<uint64_t> seen;
  size_t made = 0;
  for (uint64_t parent : {uint64_t{1}, uint64_t{2}, uint64_t{0xfedcba9876543210}, ~uint64_t{0}}) {
    EXPECT_TRUE(seen.insert(parent).second);
    made++;
    for (uint64_t ordinal = 0; ordinal < 200; ++ordinal) {
      for (int64_t part = -100; part < 300; ++part, ++made) {
        seen.insert(childNonce(parent, ordinal, part));
      }
    }
  }
  EXPECT_EQ(seen.size(), made);
  EXPECT_EQ(childNonce(5, 6, 7), childNonce(5, 6, 7));
}

// TEST_FUZZ_INPUTS says otherwise.
int fuzzInputs(int usually) {
  const char* const given = getenv("TEST_FUZZ_INPUTS");
  return given == nullptr ? usually : atoi(given);
}

// Under the address sanitizer this shows that nothing is read or allocated out of bounds.
TEST(AgreementWire, DamagedFramesNeverDoHarm) {
  std::mt19937 random(12);
  size_t accepted = 0;
  size_t refused = 0;
  for (int round = fuzzInputs(60000); round > 0; --round) {
    Bytes frame = encodeMessage(sample(random() % kTypes));
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips) {
      size_t at = random() % 4 == 0 ? random() % kHeaderBytes : random() % frame.size();
      frame[at] = static_cast<uint8_t>(random() % 3 == 0 ? 255 : random());
    }
    if (random() % 8 == 0) frame.resize(random() % (frame.size() + 1));
    MessageReader reader = readerOf(frame);
    auto message = reader.next();
    (message.ok() ? accepted : refused)++;
  }
  EXPECT_GT(accepted, 500u);
  EXPECT_GT(refused, 1000u);
}

TEST(AgreementWire, RandomPayloadsNeverDoHarm) {
  std::mt19937 random(13);
  for (int round = 0; round < 40000; ++round) {
    Bytes frame = encodeMessage(Acknowledged{});
    frame[4] = static_cast<uint8_t>(1 + random() % kTypes);
    size_t n = random() % 200;
    frame[8] = static_cast<uint8_t>(n);
    for (size_t i = 0; i < n; ++i) {
      frame.push_back(static_cast<uint8_t>(random() % 2 == 0 ? 0 : random()));
    }
    MessageReader reader = readerOf(frame);
    auto message = reader.next();
    if (!message.ok() || !message.value()) continue;
    if (const auto* report = std::get_if<Initialised>(&message.value()->message)) {
      ASSERT_LE(report->peers.size(), kMaxAddresses);
    }
  }
}

}  // namespace
}  // namespace cinch
