// What proves a key, and a server that asks for it.
#include "interpose/agree/channel_key.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

const Key kKey(32, 'k'), kOtherKey(32, 'o'), kNoKey;

HelloMessage signedHello(const Key& key, uint64_t nonce = 7, int rank = 0,
                         Purpose purpose = Purpose::join) {
  HelloMessage hello{nonce, makeHello(rank, 2)};
  sign(hello, key, purpose);
  return hello;
}

TEST(ChannelKey, BothEndsKnowEachOther) {
  for (const Key& key : {kKey, kOtherKey, kNoKey}) {
    const HelloMessage hello = signedHello(key);
    const auto answer = answerTo(hello, key, Purpose::join);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_TRUE(checkAnswer(hello, {answer.value()}, key).ok());
  }
}

TEST(ChannelKey, WhoHasAnotherOneOrNoneIsToldSo) {
  const auto refusal = [](const Key& rank, const Key& server) {
    const auto answer = answerTo(signedHello(rank), server, Purpose::join);
    return answer.ok() ? "" : answer.error().message;
  };
  EXPECT_NE(refusal(kOtherKey, kKey).find("its key differs"), std::string::npos);
  EXPECT_NE(refusal(kNoKey, kKey).find("serves has a key and the other one has none"),
            std::string::npos);
  EXPECT_NE(refusal(kKey, kNoKey).find("this process has a key and the other one has none"),
            std::string::npos);
}

TEST(ChannelKey, AProofIsOfOneRankInOneSession) {
  const HelloMessage hello = signedHello(kKey, 7, 0);
  HelloMessage other = hello;
  other.nonce = 8;
  EXPECT_FALSE(answerTo(other, kKey, Purpose::join).ok());
  other = hello;
  other.hello.rank = 1;
  EXPECT_FALSE(answerTo(other, kKey, Purpose::join).ok());
  other = hello;
  other.number[3] ^= 1;
  EXPECT_FALSE(answerTo(other, kKey, Purpose::join).ok());
  EXPECT_NE(signedHello(kKey).number, hello.number) << "it is never given again";
}

TEST(ChannelKey, AServerThatProvesNothingIsNotBelieved) {
  const HelloMessage hello = signedHello(kKey);
  EXPECT_FALSE(checkAnswer(hello, {}, kKey).ok());
  EXPECT_FALSE(checkAnswer(hello, {hello.proof}, kKey).ok()) << "its own is not the server's";
  EXPECT_FALSE(
      checkAnswer(hello, {answerTo(signedHello(kKey), kKey, Purpose::join).value()}, kKey).ok());
}

class ChannelKeyServer : public AgreementFixture {
 protected:
  // What the server says to that hello.
  Message answer(const Message& hello) const {
    const auto deadline = deadlineIn(std::chrono::seconds(kTestSeconds));
    const auto socket = connectTo(server_->where(), deadline);
    EXPECT_TRUE(sendAll(socket.value(), encodeMessage(hello), deadline).ok());
    MessageReader reader;
    reader.setLimit(kMaxServerBytes);
    for (;;) {
      if (auto frame = reader.next().value()) return frame->message;
      uint8_t bytes[4096];
      EXPECT_TRUE(waitReadable(socket.value(), deadline).value());
      const auto n = receiveSome(socket.value(), bytes, sizeof bytes);
      EXPECT_TRUE(n.ok());
      if (!n.ok()) return Leave{};
      reader.append(bytes, n.value());
    }
  }
};

// The others do not even learn that it was there.
TEST_F(ChannelKeyServer, WhoDoesNotProveItDoesNotJoin) {
  limits_.key = kKey;
  startServer();
  const uint64_t nonce = readStamp(newId().data())->nonce;
  for (const Key& key : {kOtherKey, kNoKey})
    EXPECT_TRUE(std::holds_alternative<Rejected>(answer(signedHello(key, nonce))));
  const HelloMessage hello = signedHello(kKey, nonce);
  const Message acknowledged = answer(hello);
  ASSERT_TRUE(std::holds_alternative<Acknowledged>(acknowledged));
  EXPECT_TRUE(checkAnswer(hello, std::get<Acknowledged>(acknowledged), kKey).ok());
}

TEST_F(ChannelKeyServer, WhoDoesNotProveItIsToldNoOutcome) {
  limits_.key = kKey;
  startServer();
  const uint64_t nonce = readStamp(newId().data())->nonce;
  const auto reason = [&](const Key& key, Purpose purpose = Purpose::ask) {
    return std::get<Rejected>(answer(Inquiry{signedHello(key, nonce, 0, purpose), 1})).reason;
  };
  EXPECT_NE(reason(kOtherKey).find("its key differs"), std::string::npos);
  EXPECT_NE(reason(kNoKey).find("the other one has none"), std::string::npos);
  EXPECT_NE(reason(kKey, Purpose::join).find("its key differs"), std::string::npos);
  EXPECT_NE(reason(kKey).find("not, or no longer, known here"), std::string::npos);
}

}  // namespace
}  // namespace cinch
