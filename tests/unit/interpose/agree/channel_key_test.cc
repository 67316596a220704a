// Both ends of the proof of a key, and a server that asks for it.
#include "interpose/agree/channel_key.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

const Key kKey(32, 'k'), kOther(32, 'o'), kNone;

class KeyTest : public AgreementFixture {
 protected:
  // Serves a new id with that key.
  void serve(const Key& key) {
    server_ = std::move(AgreementServer::start(loopback(), limits_, key).value());
    nonce_ = readStamp(newId().data())->nonce;
  }
  Socket connect() const {
    return std::move(connectTo(server_->where(), deadlineIn(std::chrono::seconds(5))).value());
  }
  static Result<void> proves(const Socket& socket, const Key& key) {
    return proveKey(socket, key, deadlineIn(std::chrono::seconds(5)));
  }
  static void send(const Socket& socket, const Message& message) {
    static_cast<void>(sendAll(socket, encodeMessage(message), deadlineIn(std::chrono::seconds(5))));
  }
  // What comes before the connection ends.
  static std::vector<Message> readToEnd(const Socket& socket) {
    MessageReader reader;
    reader.setLimit(kMaxServerBytes);
    std::vector<Message> messages;
    for (;;) {
      uint8_t bytes[4096];
      const auto ready = waitReadable(socket, deadlineIn(std::chrono::seconds(5)));
      EXPECT_TRUE(ready.ok() && ready.value());
      const auto n = receiveSome(socket, bytes, sizeof bytes);
      if (!n.ok()) return messages;
      reader.append(bytes, n.value());
      while (auto frame = reader.next().value()) messages.push_back(std::move(frame->message));
    }
  }
  // Whether a hello is taken over the connection; else why not.
  std::string helloOver(const Socket& socket) const {
    send(socket, HelloMessage{nonce_, makeHello(0, 1)});
    ::shutdown(socket.fd(), SHUT_WR);
    const std::vector<Message> answers = readToEnd(socket);
    if (answers.empty()) return "no answer";
    const auto* rejected = std::get_if<Rejected>(&answers[0]);
    return rejected == nullptr ? "" : rejected->reason;
  }

  uint64_t nonce_ = 0;
};

TEST_F(KeyTest, WhoProvesTheKeyMaySayHello) {
  for (const Key& key : {kNone, kKey, kOther}) {
    serve(key);
    const Socket socket = connect();
    ASSERT_TRUE(proves(socket, key).ok());
    EXPECT_EQ(helloOver(socket), "");
  }
}

TEST_F(KeyTest, WhoHasAnotherKeyIsToldSo) {
  serve(kKey);
  const auto proved = proves(connect(), kOther);
  ASSERT_FALSE(proved.ok());
  EXPECT_NE(proved.error().message.find("key differs: CINCH_KEY_FILE must hold the same bytes"),
            std::string::npos);
}

TEST_F(KeyTest, WhoHasNoneIsToldSo) {
  serve(kKey);
  EXPECT_NE(helloOver(connect()).find("has a key and the other end has none"), std::string::npos);
}

TEST_F(KeyTest, WhereOnlyTheServerHasNoneItSaysSo) {
  serve(kNone);
  const auto proved = proves(connect(), kKey);
  ASSERT_FALSE(proved.ok());
  EXPECT_NE(proved.error().message.find("has a key and the other end has none"), std::string::npos);
}

// A stranger knows the nonce, and tries everything but the key.
TEST_F(KeyTest, NothingElseIsAProof) {
  serve(kKey);
  const HelloMessage hello{nonce_, makeHello(0, 1)};
  const std::vector<std::vector<Message>> attempts = {{KeyProof{}, hello},
                                                      {Opening{}, hello},
                                                      {Opening{{1}}, hello},
                                                      {Opening{{1}}, KeyProof{}, hello},
                                                      {Opening{{1}}, Opening{{1}}, hello},
                                                      {Opening{{1}}, KeyProof{}, KeyProof{}, hello},
                                                      {Leave{}, hello},
                                                      {hello, hello},
                                                      {Vote{}, hello}};
  for (size_t i = 0; i < attempts.size(); ++i) {
    const Socket socket = connect();
    for (const Message& message : attempts[i]) send(socket, message);
    for (const Message& answer : readToEnd(socket))
      EXPECT_FALSE(std::holds_alternative<Acknowledged>(answer)) << i;
  }
  const Socket socket = connect();
  ASSERT_TRUE(proves(socket, kKey).ok());
  EXPECT_EQ(helloOver(socket), "") << "the strangers have changed nothing";
}

// Nor the proof of another connection, or of the server itself.
TEST(KeyCheck, AProofIsOfOneConnectionAndOneEnd) {
  KeyCheck first(kKey), second(kKey);
  const Challenge own = first.take(Opening{{1}}).value();
  const Challenge other = second.take(Opening{{1}}).value();
  EXPECT_NE(own.number, other.number);
  EXPECT_NE(own.proof, other.proof);
  EXPECT_FALSE(second.take(KeyProof{own.proof}).ok());
  EXPECT_FALSE(second.mayGoOn().ok());
}

// A server that has no key, or another program at its place.
TEST_F(KeyTest, AServerThatProvesNothingIsNotBelieved) {
  for (const Message& answer : {Message(Challenge{}), Message(Challenge{{1}, {}}),
                                Message(Acknowledged{}), Message(Verdict{}), Message(Leave{})}) {
    auto listener = listenOn(loopback());
    ASSERT_TRUE(listener.ok());
    std::thread impostor([&] {
      static_cast<void>(waitReadable(listener.value(), deadlineIn(std::chrono::seconds(5))));
      const Socket socket(accept(listener.value().fd(), nullptr, nullptr));
      send(socket, answer);
      uint8_t bytes[256];
      while (recv(socket.fd(), bytes, sizeof bytes, 0) > 0) {
      }
    });
    {
      const Socket socket = std::move(
          connectTo(localEndpoint(listener.value()), deadlineIn(std::chrono::seconds(5))).value());
      EXPECT_FALSE(proves(socket, kKey).ok()) << answer.index();
    }
    impostor.join();
  }
}

}  // namespace
}  // namespace cinch
