#include "emulator/nccl/frame.h"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <algorithm>

#include <random>

namespace cinch::emulator {
namespace {

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    near = Descriptor(ends[0]);
    far = Descriptor(ends[1]);
  }
  Descriptor near, far;
};

Clock::time_point soon() {
  return Clock::now() + std::chrono::seconds(10);
}

TEST(Frame, TravelsWhole) {
  Pair pair;
  const std::string text = "hello";
  ASSERT_TRUE(writeFrame(pair.near.get(), FrameKind::failure, text.data(), 5, soon()).ok());
  ASSERT_TRUE(writeFrame(pair.near.get(), FrameKind::data, nullptr, 0, soon()).ok());
  FrameReader reader;
  EXPECT_EQ(reader.readFrom(pair.far.get()), FrameReader::Outcome::waiting);
  const auto first = reader.take();
  const auto second = reader.take();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->kind, FrameKind::failure);
  EXPECT_EQ(std::string(first->payload.begin(), first->payload.end()), text);
  EXPECT_EQ(second->kind, FrameKind::data);
  EXPECT_TRUE(second->payload.empty());
  EXPECT_FALSE(reader.take());
}

// A frame that arrives byte by byte is complete with its last byte and not before.
TEST(Frame, IsAssembledFromPieces) {
  Pair source;
  ASSERT_TRUE(writeFrame(source.near.get(), FrameKind::data, "abcdef", 6, soon()).ok());
  char raw[100];
  const ssize_t length = recv(source.far.get(), raw, sizeof raw, 0);
  Pair pair;
  FrameReader reader;
  for (ssize_t i = 0; i < length; ++i) {
    EXPECT_FALSE(reader.take()) << "complete after " << i << " of " << length << " bytes";
    ASSERT_EQ(send(pair.near.get(), raw + i, 1, 0), 1);
    ASSERT_EQ(reader.readFrom(pair.far.get()), FrameReader::Outcome::waiting);
  }
  EXPECT_TRUE(reader.take());
}

TEST(Frame, ReaderSeesTheEnd) {
  Pair pair;
  FrameReader reader;
  ASSERT_TRUE(writeFrame(pair.near.get(), FrameKind::data, "x", 1, soon()).ok());
  pair.near = Descriptor();
  EXPECT_EQ(reader.readFrom(pair.far.get()), FrameReader::Outcome::closed);
  EXPECT_TRUE(reader.take()) << "what came before the end counts";
}

TEST(Frame, WriterGivesUpAtItsDeadline) {
  Pair pair;
  std::vector<char> large(64 << 20);
  const auto result =
      writeFrame(pair.near.get(), FrameKind::data, large.data(), large.size(), Clock::now());
  EXPECT_FALSE(result.ok());
}

// Random bytes, and frames with random damage: refused or waited for, never more than was sent.
TEST(Frame, ReaderSurvivesNoise) {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    Pair source;
    ASSERT_TRUE(writeFrame(source.near.get(), FrameKind::data, "0123456789", 10, soon()).ok());
    char raw[64];
    const ssize_t length = recv(source.far.get(), raw, sizeof raw, 0);
    raw[random() % length] ^= static_cast<char>(1 + random() % 255);
    Pair pair;
    ASSERT_EQ(send(pair.near.get(), raw, length, 0), length);
    FrameReader reader;
    const FrameReader::Outcome outcome = reader.readFrom(pair.far.get());
    const auto frame = reader.take();
    if (frame) {
      EXPECT_LE(frame->payload.size(), 10u);
    }
    if (outcome == FrameReader::Outcome::malformed) {
      EXPECT_FALSE(frame);
    }
  }
}

TEST(Shares, ComeApartAsTheyWereJoined) {
  const Shares shares = {{'a', 'b'}, {}, std::vector<char>(100000, 'c')};
  EXPECT_EQ(splitShares(joinShares(shares)), shares);
  EXPECT_EQ(splitShares({}), Shares{});
}

TEST(Shares, ThatWereCutAreRefused) {
  const std::vector<char> whole = joinShares({{'a', 'b'}, {'c'}});
  const std::vector<size_t> ends = {0, 10};  // cut here, it is a shorter list
  for (size_t size = 0; size < whole.size(); ++size) {
    const bool valid = std::find(ends.begin(), ends.end(), size) != ends.end();
    EXPECT_EQ(splitShares({whole.begin(), whole.begin() + size}).has_value(), valid) << size;
  }
  EXPECT_FALSE(splitShares(std::vector<char>(8, '\xff')).has_value());
}

}  // namespace
}  // namespace cinch::emulator
