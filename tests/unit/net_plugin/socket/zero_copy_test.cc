#include "net_plugin/socket/zero_copy.h"

#include <gtest/gtest.h>

#include <random>

#include "net_plugin/socket/flow_io.h"
#include "tests/unit/net_plugin/socket/connected.h"

namespace cinch::net {
namespace {

constexpr uint32_t kPayload = 128 << 10;

class ZeroCopyTest : public testing::Test {
 protected:
  // What the peer's kernel has, until it has been quiet for a while.
  void drain(std::vector<char>* into) {
    std::vector<char> bytes(1 << 20);
    while (waitReadable(there, deadlineIn(std::chrono::milliseconds(100))).value()) {
      const ssize_t got = recv(there.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got <= 0) return;
      into->insert(into->end(), bytes.begin(), bytes.begin() + got);
    }
  }

  const Ends ends = connected();
  const Socket& here = ends.here;
  const Socket& there = ends.there;
};

TEST_F(ZeroCopyTest, SendsTheSameBytesAndEndsWhereTheKernelCopies) {
  FlowWriter writer(here);
  writer.enableZeroCopy();
  std::mt19937 random(1);
  std::vector<char> expected, got;
  std::vector<std::vector<char>> payloads;  // stay as they are: the kernel may still read them
  for (int i = 0; i < 24; ++i) {
    std::vector<uint8_t> records(40 * (1 + random() % 3));
    for (uint8_t& byte : records) byte = static_cast<uint8_t>(random());
    // Short ones are copied, long ones are not.
    payloads.emplace_back(i % 3 == 0 ? 100 : kPayload - random() % 1000);
    for (char& byte : payloads.back()) byte = static_cast<char>(random());
    expected.insert(expected.end(), records.begin(), records.end());
    expected.insert(expected.end(), payloads.back().begin(), payloads.back().end());
    std::array<uint8_t, kRecordBytes> last;
    std::copy(records.end() - kRecordBytes, records.end(), last.begin());
    records.resize(records.size() - kRecordBytes);
    writer.begin(records);
    writer.addChunk(last, static_cast<uint32_t>(payloads.back().size()));
    const char* const payload = payloads.back().data();
    while (!writer.isIdle()) {
      const auto io = writer.write({&payload, 1});
      ASSERT_TRUE(io.ok()) << io.error().message;
      if (io.value() == Io::blocked) drain(&got);
    }
  }
  drain(&got);
  EXPECT_EQ(got, expected);
  EXPECT_EQ(writer.written(), expected.size());
  // All has arrived, so that nothing holds the pages.
  const Deadline deadline = deadlineIn(std::chrono::seconds(5));
  while (writer.holdsPayloads() && Clock::now() < deadline) writer.listen();
  EXPECT_FALSE(writer.holdsPayloads());
}

// Peers on one host get copies: the kernel says so, and is asked no more.
TEST_F(ZeroCopyTest, IsTurnedOffByTheFirstNoticeOfACopy) {
  ZeroCopy zeroCopy;
  zeroCopy.enable(here);
  if (!zeroCopy.isOn()) GTEST_SKIP() << "the kernel has no SO_ZEROCOPY";
  const std::vector<char> bytes(kPayload, 'x');
  ASSERT_GT(send(here.fd(), bytes.data(), bytes.size(), MSG_ZEROCOPY), 0);
  zeroCopy.wasSent();
  std::vector<char> got;
  drain(&got);
  const Deadline deadline = deadlineIn(std::chrono::seconds(5));
  while (zeroCopy.holdsPages() && Clock::now() < deadline) zeroCopy.listen(here);
  EXPECT_FALSE(zeroCopy.holdsPages());
  EXPECT_FALSE(zeroCopy.isOn());
}

TEST_F(ZeroCopyTest, ASocketThatIsResetSendsNoMore) {
  const std::vector<char> bytes(1 << 20, 'x');
  size_t taken = 0;
  while (true) {
    const ssize_t sent = send(here.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (sent <= 0) break;
    taken += sent;
  }
  here.reset();
  std::vector<char> got;
  drain(&got);
  EXPECT_LT(got.size(), taken);
  char byte = 0;
  EXPECT_LE(recv(there.fd(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_LT(send(here.fd(), &byte, 1, MSG_NOSIGNAL), 0);
}

TEST(ZeroCopy, StaysOffWhereTheSocketCannot) {
  ZeroCopy zeroCopy;
  zeroCopy.enable(Socket(-1));
  EXPECT_FALSE(zeroCopy.isOn());
  EXPECT_FALSE(zeroCopy.holdsPages());
}

}  // namespace
}  // namespace cinch::net
