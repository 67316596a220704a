// The TCP transport over loopback, both ends in one thread: nothing in it may block.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "emulator/nccl/address.h"
#include "emulator/nccl/net.h"

namespace cinch::emulator {
namespace {

NetTransport& net() {
  static const std::unique_ptr<NetTransport> transport = makeSocketTransport();
  return *transport;
}

// A connected pair on one context.
class NetSocket : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(net().init(&context_, 1, kNetNoTrafficClass), ncclSuccess);
    ASSERT_EQ(net().listen(context_, 0, handle_, &listener_), ncclSuccess);
  }

  void TearDown() override {
    if (sender_ != nullptr) net().closeSend(sender_);
    if (receiver_ != nullptr) net().closeRecv(receiver_);
    net().closeListen(listener_);
    net().finalize(context_);
  }

  void connect() {
    char copy[kNetHandleBytes];
    memcpy(copy, handle_, sizeof copy);
    while (sender_ == nullptr || receiver_ == nullptr) {
      if (sender_ == nullptr) {
        ASSERT_EQ(net().connect(context_, 0, copy, &sender_), ncclSuccess);
      }
      if (receiver_ == nullptr) {
        ASSERT_EQ(net().accept(listener_, &receiver_), ncclSuccess);
      }
    }
  }

  void* send(const void* data, size_t nBytes) {
    void* request = nullptr;
    EXPECT_EQ(net().isend(sender_, data, nBytes, 0, nullptr, &request), ncclSuccess);
    return request;
  }

  void* receive(void* data, size_t nBytes) {
    void* request = nullptr;
    EXPECT_EQ(net().irecv(receiver_, data, nBytes, 0, nullptr, &request), ncclSuccess);
    return request;
  }

  // Tests both requests until both are done; the bytes that the receiver got.
  int finish(void* sent, void* received) {
    int sendDone = 0, receiveDone = 0, nBytes = -1;
    while (sendDone == 0 || receiveDone == 0) {
      if (sendDone == 0) {
        EXPECT_EQ(net().test(sent, &sendDone, nullptr), ncclSuccess);
      }
      if (receiveDone == 0) {
        EXPECT_EQ(net().test(received, &receiveDone, &nBytes), ncclSuccess);
      }
    }
    return nBytes;
  }

  // Tests a request until it is done or fails.
  ncclResult_t outcome(void* request) {
    int done = 0;
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess && done == 0) result = net().test(request, &done, nullptr);
    return result;
  }

  void* context_ = nullptr;
  void* listener_ = nullptr;
  void* sender_ = nullptr;
  void* receiver_ = nullptr;
  char handle_[kNetHandleBytes] = {};
};

TEST_F(NetSocket, ReportsOneDevice) {
  int nDevices = 0;
  ASSERT_EQ(net().devices(&nDevices), ncclSuccess);
  EXPECT_EQ(nDevices, 1);
  NetProperties properties;
  ASSERT_EQ(net().getProperties(0, &properties), ncclSuccess);
  EXPECT_EQ(properties.name, "lo");
  EXPECT_EQ(properties.pointerSupport, kNetPointerHost);
  EXPECT_GT(properties.speedMbps, 0);
}

TEST_F(NetSocket, MovesMessagesOfAllSizesAndReportsTheTrueOne) {
  connect();
  for (const size_t size : {0, 1, 7, 4096, 131072, 10 << 20}) {
    std::vector<char> sent(size), received(size + 13);
    std::iota(sent.begin(), sent.end(), static_cast<char>(size));
    void* receiving = receive(received.data(), received.size());
    ASSERT_EQ(finish(send(sent.data(), size), receiving), static_cast<int>(size));
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), received.begin())) << size;
  }
}

// More than the socket's buffers hold: sends stop half way and go on later, and only the oldest
// request is tested.
TEST_F(NetSocket, MatchesFirstInFirstOut) {
  connect();
  constexpr int kMessages = 20;
  std::vector<std::vector<int>> sent, received;
  std::vector<void*> sending, receiving;
  for (int i = 0; i < kMessages; ++i) {
    sent.emplace_back(300000 + i, i);
    received.emplace_back(300000 + kMessages, -1);
  }
  for (int i = 0; i < kMessages; ++i) {
    sending.push_back(send(sent[i].data(), sent[i].size() * sizeof(int)));
    ASSERT_NE(sending.back(), nullptr);
  }
  for (int i = 0; i < kMessages; ++i) {
    receiving.push_back(receive(received[i].data(), received[i].size() * sizeof(int)));
  }
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(finish(sending[i], receiving[i]), static_cast<int>(sent[i].size() * sizeof(int)));
    received[i].resize(sent[i].size());
    EXPECT_EQ(received[i], sent[i]) << i;
  }
}

TEST_F(NetSocket, TakesAsManyRequestsAsPromisedAndThenSaysLater) {
  connect();
  char byte = 0;
  std::vector<void*> requests;
  for (int i = 0; i < kNetMaxRequests; ++i) {
    requests.push_back(receive(&byte, 1));
    ASSERT_NE(requests.back(), nullptr);
  }
  EXPECT_EQ(receive(&byte, 1), nullptr);
  finish(send("x", 1), requests.front());
  EXPECT_NE(receive(&byte, 1), nullptr);
}

TEST_F(NetSocket, RefusesAMessageLongerThanItsBuffer) {
  connect();
  char small[4];
  void* receiving = receive(small, sizeof small);
  send("12345", 5);
  EXPECT_EQ(outcome(receiving), ncclInvalidUsage);
  EXPECT_EQ(outcome(receiving), ncclInvalidUsage) << "the connection stays broken";
}

TEST_F(NetSocket, ReportsAPeerThatCloses) {
  connect();
  char buffer[100];
  void* receiving = receive(buffer, sizeof buffer);
  net().closeSend(sender_);
  sender_ = nullptr;
  EXPECT_EQ(outcome(receiving), ncclRemoteError);
}

TEST_F(NetSocket, ReportsAPeerThatClosesWhileSendingToIt) {
  connect();
  std::vector<char> large(64 << 20);
  void* sending = send(large.data(), large.size());
  net().closeRecv(receiver_);
  receiver_ = nullptr;
  EXPECT_EQ(outcome(sending), ncclRemoteError);
}

TEST_F(NetSocket, ReportsAListenerThatIsGone) {
  net().closeListen(listener_);
  ASSERT_EQ(net().listen(context_, 0, handle_, &listener_), ncclSuccess);
  char copy[kNetHandleBytes];
  memcpy(copy, handle_, sizeof copy);
  net().closeListen(listener_);
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) {
    ASSERT_EQ(sender_, nullptr);
    result = net().connect(context_, 0, copy, &sender_);
  }
  EXPECT_EQ(result, ncclRemoteError);
  ASSERT_EQ(net().listen(context_, 0, handle_, &listener_), ncclSuccess);
}

// Whoever connects without knowing the listener's nonce does not get in the way of the peer.
TEST_F(NetSocket, IgnoresStrangers) {
  Address address;
  memcpy(&address, handle_, sizeof address);
  auto stranger = connectTo(address, Clock::now() + std::chrono::seconds(10), Refusal::isFinal);
  ASSERT_TRUE(stranger.ok());
  ASSERT_EQ(::send(stranger.value().get(), "GET / HTTP/1.1", 14, 0), 14);
  connect();
  char byte = 0;
  void* receiving = receive(&byte, 1);
  finish(send("y", 1), receiving);
  EXPECT_EQ(byte, 'y');
}

TEST_F(NetSocket, TellsWhatToSleepOn) {
  connect();
  char byte = 0;
  void* receiving = receive(&byte, 1);
  ASSERT_TRUE(net().isPollable());
  pollfd target = net().pollTarget(receiver_);
  EXPECT_EQ(poll(&target, 1, 0), 0) << "nothing to read yet";
  void* sending = send("z", 1);
  EXPECT_EQ(poll(&target, 1, -1), 1);
  EXPECT_EQ(finish(sending, receiving), 1);
}

TEST_F(NetSocket, RegistersHostMemoryOnly) {
  connect();
  void* mr = nullptr;
  char memory[16];
  EXPECT_EQ(net().regMr(sender_, memory, sizeof memory, kNetPointerHost, &mr), ncclSuccess);
  EXPECT_EQ(net().deregMr(sender_, mr), ncclSuccess);
  EXPECT_NE(net().regMr(sender_, memory, sizeof memory, 2, &mr), ncclSuccess);
}

}  // namespace
}  // namespace cinch::emulator
