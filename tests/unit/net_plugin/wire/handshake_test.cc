#include "net_plugin/wire/handshake.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "tests/unit/net_plugin/wire/wire_support.h"

namespace cinch::net {
namespace {

constexpr uint16_t kListenersFeatures = 0x0006;

// An opening that went well, and all that was said in it.
struct Opened {
  explicit Opened(const Key& key)
      : connecting(sampleHello(), key), listening(kListening, kListenersFeatures, key) {
    hello = copyOf<kHelloBytes>(connecting.hello());
    EXPECT_TRUE(listening.takeHello(hello).ok());
    welcome = copyOf<kWelcomeBytes>(listening.welcome());
    EXPECT_TRUE(connecting.takeWelcome(welcome).ok());
    confirm = copyOf<kConfirmBytes>(connecting.confirm());
    EXPECT_TRUE(key.empty() || listening.takeConfirm(confirm).ok());
  }

  ConnectingHandshake connecting;
  ListeningHandshake listening;
  HelloBytes hello;
  WelcomeBytes welcome;
  ConfirmBytes confirm;
};

ListeningHandshake listener(const Key& key) {
  return {kListening, kListenersFeatures, key};
}

template <class T>
void expectRefused(const Result<T>& result, Status status, const std::string& why) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().status, status);
  EXPECT_NE(result.error().message.find(why), std::string::npos) << result.error().message;
}

TEST(Handshake, TellsBothSidesWhatTheOtherSaid) {
  for (const Key& shared : {Key(), key(1)}) {
    ConnectingHandshake connecting(sampleHello(), shared);
    ListeningHandshake listening = listener(shared);
    const auto hello = listening.takeHello(copyOf<kHelloBytes>(connecting.hello()));
    ASSERT_TRUE(hello.ok()) << hello.error().message;
    EXPECT_EQ(hello.value(), sampleHello());
    EXPECT_TRUE(connecting.confirm().empty()) << "nothing is owed before the welcome";
    const auto welcome = connecting.takeWelcome(copyOf<kWelcomeBytes>(listening.welcome()));
    ASSERT_TRUE(welcome.ok()) << welcome.error().message;
    EXPECT_EQ(welcome.value(), (Welcome{kListenersFeatures, kListening}));
    ASSERT_EQ(connecting.confirm().size(), listening.confirmBytes());
    EXPECT_EQ(connecting.confirm().size(), shared.empty() ? 0 : kConfirmBytes);
    EXPECT_TRUE(shared.empty() ||
                listening.takeConfirm(copyOf<kConfirmBytes>(connecting.confirm())).ok());
  }
}

TEST(Handshake, HasTheLayoutOfTheTable) {
  ConnectingHandshake connecting(sampleHello(), key(1));
  HelloBytes expected = {'C', 'i', 'n', 'c', 'h',  'N',  'e',  't',  1,    0,    1,    1,
                         5,   0,   2,   4,   0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  std::fill_n(&expected[24], 16, 0x11);
  std::fill_n(&expected[40], 16, 0x22);
  std::copy_n(&connecting.hello()[56], 16, &expected[56]);
  EXPECT_EQ(copyOf<kHelloBytes>(connecting.hello()), withChecksum(expected));

  ListeningHandshake listening = listener(key(1));
  ASSERT_TRUE(listening.takeHello(withChecksum(expected)).ok());
  WelcomeBytes answer = {'C', 'i', 'n', 'c', 'h', 'N', 'e', 't', 1, 0, 2, 1, 6, 0, 0, 0};
  std::fill_n(&answer[16], 16, 0x22);
  std::copy_n(&listening.welcome()[32], 16, &answer[32]);
  EXPECT_EQ(copyOf<kWelcomeBytes>(listening.welcome()),
            withProof(answer, connecting.hello(), key(1)));
}

TEST(Handshake, DrawsNewNonces) {
  const Opened first{Key()}, second{Key()};
  EXPECT_NE(first.hello, second.hello);
  EXPECT_NE(first.welcome, second.welcome);
}

TEST(Handshake, NamesAKeyThatOneSideLacks) {
  const auto takesHello = [](const Key& theirs, const Key& ours) {
    ConnectingHandshake connecting(sampleHello(), theirs);
    return listener(ours).takeHello(copyOf<kHelloBytes>(connecting.hello()));
  };
  EXPECT_TRUE(takesHello(Key(), Key()).ok());
  EXPECT_TRUE(takesHello(key(1), key(1)).ok());
  expectRefused(takesHello(Key(), key(1)), Status::invalidUsage,
                "it has no key and this process has one: set CINCH_NET_KEY_FILE");
  expectRefused(takesHello(key(1), Key()), Status::invalidUsage,
                "it has a key and this process has none: set CINCH_NET_KEY_FILE");
}

TEST(Handshake, NamesAKeyThatTheListenerLacks) {
  for (bool ours : {false, true}) {
    ConnectingHandshake connecting(sampleHello(), ours ? key(1) : Key());
    WelcomeBytes welcome = Opened(ours ? key(1) : Key()).welcome;
    welcome[kHasKeyAt] = ours ? 0 : 1;
    expectRefused(connecting.takeWelcome(welcome), Status::invalidUsage, "CINCH_NET_KEY_FILE");
  }
}

TEST(Handshake, NamesKeysThatDiffer) {
  ConnectingHandshake connecting(sampleHello(), key(1));
  ListeningHandshake listening = listener(key(2));
  ASSERT_TRUE(listening.takeHello(copyOf<kHelloBytes>(connecting.hello())).ok());
  expectRefused(connecting.takeWelcome(copyOf<kWelcomeBytes>(listening.welcome())),
                Status::invalidUsage, "its key differs");
  EXPECT_TRUE(connecting.confirm().empty()) << "nothing is proved to one who is refused";
  const Opened withFirstKey(key(1));
  expectRefused(listening.takeConfirm(withFirstKey.confirm), Status::invalidUsage,
                "its key differs");
}

TEST(Handshake, SeesEveryBitOfTheKey) {
  for (size_t bit = 0; bit < 8 * kMinKeyBytes; ++bit) {
    Key other = key(1);
    other[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    ConnectingHandshake connecting(sampleHello(), key(1));
    ListeningHandshake listening = listener(other);
    ASSERT_TRUE(listening.takeHello(copyOf<kHelloBytes>(connecting.hello())).ok());
    EXPECT_FALSE(connecting.takeWelcome(copyOf<kWelcomeBytes>(listening.welcome())).ok());
  }
}

TEST(Handshake, SeesEveryFlippedBit) {
  for (const Key& shared : {Key(), key(1)}) {
    const ConnectingHandshake connecting(sampleHello(), shared);
    const HelloBytes hello = copyOf<kHelloBytes>(connecting.hello());
    ListeningHandshake listening = listener(shared);
    ASSERT_TRUE(listening.takeHello(hello).ok());
    const WelcomeBytes welcome = copyOf<kWelcomeBytes>(listening.welcome());
    for (size_t bit = 0; bit < 8 * kHelloBytes; ++bit)
      EXPECT_FALSE(listener(shared).takeHello(withBitFlipped(hello, bit)).ok()) << bit;
    for (size_t bit = 0; bit < 8 * kWelcomeBytes; ++bit) {
      ConnectingHandshake victim = connecting;
      EXPECT_FALSE(victim.takeWelcome(withBitFlipped(welcome, bit)).ok()) << bit;
    }
    ConnectingHandshake spared = connecting;
    EXPECT_TRUE(spared.takeWelcome(welcome).ok());
  }
  const Opened opened(key(1));
  for (size_t bit = 0; bit < 8 * kConfirmBytes; ++bit)
    EXPECT_FALSE(opened.listening.takeConfirm(withBitFlipped(opened.confirm, bit)).ok()) << bit;
}

// A liar who mends the checksum is caught by the proof.
TEST(Handshake, BindsTheWholeHelloToItsProof) {
  ConnectingHandshake connecting(sampleHello(), key(1));
  const HelloBytes hello = copyOf<kHelloBytes>(connecting.hello());
  int taken = 0;
  for (size_t bit = 0; bit < 8 * kHelloChecksumAt; ++bit) {
    ListeningHandshake listening = listener(key(1));
    if (!listening.takeHello(withChecksum(withBitFlipped(hello, bit))).ok()) continue;
    ++taken;
    ConnectingHandshake victim = connecting;
    EXPECT_FALSE(victim.takeWelcome(copyOf<kWelcomeBytes>(listening.welcome())).ok()) << bit;
  }
  EXPECT_GT(taken, 300) << "features, flow, link, from and nonce may be anything";
}

TEST(Handshake, RefusesWhatWasSaidInAnotherOpening) {
  const Opened old(key(1));
  ListeningHandshake listening = listener(key(1));
  ASSERT_TRUE(listening.takeHello(old.hello).ok()) << "only the confirmation tells";
  EXPECT_FALSE(listening.takeConfirm(old.confirm).ok());
  for (const Key& shared : {Key(), key(1)}) {
    ConnectingHandshake connecting(sampleHello(), shared);
    EXPECT_FALSE(connecting.takeWelcome(Opened(shared).welcome).ok());
  }
}

TEST(Handshake, RefusesItsOwnWordsSentBack) {
  for (const Key& shared : {Key(), key(1)}) {
    ConnectingHandshake connecting(sampleHello(), shared);
    const HelloBytes hello = copyOf<kHelloBytes>(connecting.hello());
    expectRefused(connecting.takeWelcome(copyOf<kWelcomeBytes>(hello)), Status::remoteError,
                  "the wrong side");
    expectRefused(listener(shared).takeHello(copyOf<kHelloBytes>(Opened(shared).welcome)),
                  Status::remoteError, "the wrong side");
  }
  const Opened opened(key(1));
  const auto proof = std::span(opened.welcome).subspan<kWelcomeProofAt>();
  EXPECT_FALSE(opened.listening.takeConfirm(proof).ok());
}

TEST(Handshake, IsForOneProcessAlone) {
  for (size_t bit = 0; bit < 128; ++bit) {
    Hello toAnother = sampleHello();
    toAnother.to[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    ConnectingHandshake connecting(toAnother, key(1));
    expectRefused(listener(key(1)).takeHello(copyOf<kHelloBytes>(connecting.hello())),
                  Status::remoteError, "another process");
  }
}

TEST(Handshake, TellsWhoDoesNotKnowTheProcessNothingOfItsKey) {
  Hello toAnother = sampleHello();
  toAnother.to = kConnecting;
  ConnectingHandshake connecting(toAnother, Key());
  expectRefused(listener(key(1)).takeHello(copyOf<kHelloBytes>(connecting.hello())),
                Status::remoteError, "another process");
}

TEST(Handshake, RefusesTheAnswerOfAnotherProcess) {
  for (const Key& shared : {Key(), key(1)}) {
    ConnectingHandshake connecting(sampleHello(), shared);
    WelcomeBytes welcome = Opened(shared).welcome;
    ASSERT_TRUE(ConnectingHandshake(connecting)
                    .takeWelcome(withProof(welcome, connecting.hello(), shared))
                    .ok());
    welcome[kWelcomeFromAt] ^= 1;
    expectRefused(connecting.takeWelcome(withProof(welcome, connecting.hello(), shared)),
                  Status::remoteError, "another process answers");
  }
}

TEST(Handshake, NamesBothVersions) {
  HelloBytes hello = Opened(Key()).hello;
  storeLittle(uint16_t{0x0203}, &hello[kVersionAt]);
  expectRefused(listener(Key()).takeHello(hello), Status::invalidUsage,
                "version 515 of Cinch's network protocol and this process version 1");
  WelcomeBytes welcome = Opened(Key()).welcome;
  storeLittle(uint16_t{2}, &welcome[kVersionAt]);
  ConnectingHandshake connecting(sampleHello(), Key());
  expectRefused(connecting.takeWelcome(welcome), Status::invalidUsage, "version 2 of");
}

TEST(Handshake, KnowsOtherProgramsByTheirFirstBytes) {
  constexpr std::string_view kRequest =
      "GET /metrics HTTP/1.1\r\nHost: 10.0.0.1:40001\r\nUser-Agent: a program of somebody else\r\n";
  HelloBytes bytes;
  ASSERT_GE(kRequest.size(), bytes.size());
  std::copy_n(kRequest.begin(), bytes.size(), bytes.begin());
  expectRefused(listener(Key()).takeHello(bytes), Status::remoteError, "not a Cinch peer");
  for (size_t n = 1; n < 20; ++n) EXPECT_FALSE(checkFirstBytes(std::span(bytes).first(n)).ok());
  const HelloBytes hello = Opened(Key()).hello;
  for (size_t n = 0; n <= hello.size(); ++n)
    EXPECT_TRUE(checkFirstBytes(std::span(hello).first(n)).ok());
  for (size_t bit = 0; bit < 64; ++bit) {
    const HelloBytes wrong = withBitFlipped(hello, bit);
    EXPECT_TRUE(checkFirstBytes(std::span(wrong).first(bit / 8)).ok());
    EXPECT_FALSE(checkFirstBytes(std::span(wrong).first(bit / 8 + 1)).ok());
  }
}

TEST(Handshake, RefusesAHelloThatBreaksARule) {
  const std::function<void(HelloBytes&)> rules[] = {
      [](HelloBytes& h) { h[kFlowsAt] = 0; },
      [](HelloBytes& h) { h[kFlowsAt] = kMaxFlows + 1; },
      [](HelloBytes& h) { h[kFlowsAt] = 255; },
      [](HelloBytes& h) { h[kFlowAt] = h[kFlowsAt]; },
      [](HelloBytes& h) { h[kFlowAt] = 255; },
      [](HelloBytes& h) { h[kHelloZerosAt + 3] = 1; },
      [](HelloBytes& h) { std::fill_n(&h[kHelloFromAt], 16, 0); },
      [](HelloBytes& h) { std::fill_n(&h[kHelloNonceAt], 16, 0); }};
  const HelloBytes good = Opened(Key()).hello;
  for (const auto& breakRule : rules) {
    HelloBytes bad = good;
    breakRule(bad);
    ASSERT_NE(bad, good);
    expectRefused(listener(Key()).takeHello(withChecksum(bad)), Status::remoteError, "malformed");
  }
  HelloBytes most = good;
  most[kFlowAt] = kMaxFlows - 1;
  most[kFlowsAt] = kMaxFlows;
  EXPECT_TRUE(listener(Key()).takeHello(withChecksum(most)).ok());
}

TEST(Handshake, RefusesAWelcomeThatBreaksARule) {
  ConnectingHandshake connecting(sampleHello(), key(1));
  const WelcomeBytes good = Opened(key(1)).welcome;
  WelcomeBytes zeros = good, nonce = good;
  zeros[kWelcomeZerosAt] = 1;
  std::fill_n(&nonce[kWelcomeNonceAt], 16, 0);
  for (const WelcomeBytes& bad : {zeros, nonce})
    expectRefused(connecting.takeWelcome(withProof(bad, connecting.hello(), key(1))),
                  Status::remoteError, "malformed");
}

// Where the kernel gave no random bytes nobody may come in.
TEST(Handshake, RefusesAllWhereThisProcessHasNoIdentity) {
  Hello hello = sampleHello();
  hello.to = {};
  ConnectingHandshake connecting(hello, Key());
  ListeningHandshake listening(Identity{}, 0, Key());
  EXPECT_FALSE(listening.takeHello(copyOf<kHelloBytes>(connecting.hello())).ok());
}

TEST(Handshake, TakesNoConfirmationBeforeAHello) {
  EXPECT_FALSE(listener(key(1)).takeConfirm(ConfirmBytes{}).ok());
  EXPECT_FALSE(listener(key(1)).takeConfirm(Opened(key(1)).confirm).ok());
}

TEST(Handshake, RefusesRandomBytes) {
  std::mt19937_64 random(1);
  const Opened opened(key(1));
  ConnectingHandshake connecting(sampleHello(), Key());
  for (int i = 0; i < 20000; ++i) {
    HelloBytes hello = opened.hello;
    WelcomeBytes welcome = opened.welcome;
    for (size_t at = random() % 80; at < 80; ++at) {
      hello[at] = static_cast<uint8_t>(random());
      welcome[at] = static_cast<uint8_t>(random());
    }
    ASSERT_FALSE(listener(Key()).takeHello(hello).ok());
    ASSERT_FALSE(connecting.takeWelcome(welcome).ok());
  }
}

}  // namespace
}  // namespace cinch::net
