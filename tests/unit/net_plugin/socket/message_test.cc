#include "net_plugin/socket/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/unit/net_plugin/socket/random_arrival.h"

namespace cinch::net {
namespace {

constexpr uint32_t kChunkSizes[] = {kGridBytes, 2 * kGridBytes, 4 * kGridBytes};
const std::vector<uint64_t> kTotals = {0,
                                       1,
                                       kGridBytes - 1,
                                       kGridBytes,
                                       kGridBytes + 1,
                                       4 * kGridBytes,
                                       4 * kGridBytes + 1,
                                       9 * kGridBytes - 7,
                                       40 * kGridBytes};

// --- OutgoingMessage ---

// What an OutgoingMessage must know, said as plainly as possible.
struct OutgoingModel {
  struct Piece {
    int flow = -1;
    bool repeated = false;
  };

  OutgoingModel(uint64_t total, uint32_t chunkBytes)
      : total(total),
        chunkBytes(chunkBytes),
        pieces(total == 0 ? 1 : (total + chunkBytes - 1) / chunkBytes) {}

  uint64_t length(size_t i) const { return std::min<uint64_t>(chunkBytes, total - i * chunkBytes); }
  uint64_t unsentBytes() const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < pieces.size(); ++i) bytes += pieces[i].flow < 0 ? length(i) : 0;
    return bytes;
  }
  bool hasUnsent() const {
    return std::any_of(pieces.begin(), pieces.end(), [](auto& piece) { return piece.flow < 0; });
  }

  uint64_t total;
  uint32_t chunkBytes;
  std::vector<Piece> pieces;
};

void expectSame(const OutgoingMessage& message, const OutgoingModel& model) {
  ASSERT_EQ(message.hasUnsent(), model.hasUnsent());
  ASSERT_EQ(message.unsentBytes(), model.unsentBytes());
}

void takeOne(OutgoingMessage& message, OutgoingModel& model, int flow) {
  const Chunk next = message.peek();
  const Chunk taken = message.take(flow);
  ASSERT_EQ(next.index, taken.index);
  ASSERT_LT(taken.index, model.pieces.size());
  ASSERT_EQ(model.pieces[taken.index].flow, -1) << "taken twice";
  ASSERT_EQ(taken.offset, uint64_t{taken.index} * model.chunkBytes);
  ASSERT_EQ(taken.length, model.length(taken.index));
  model.pieces[taken.index].flow = flow;
}

void doSomething(OutgoingMessage& message, OutgoingModel& model, std::mt19937& random) {
  const int flow = static_cast<int>(random() % kArrivingFlows);
  const auto index = static_cast<uint32_t>(random() % model.pieces.size());
  OutgoingModel::Piece& piece = model.pieces[index];
  switch (random() % 8) {
    case 0: {
      const bool may = piece.flow >= 0 && !piece.repeated;
      ASSERT_EQ(message.takeAgain(index, flow), may);
      if (may) piece = {flow, true};
      return;
    }
    case 1:
      message.giveBackChunk(index);
      piece.flow = -1;
      return;
    case 2:
      if (random() % 4 != 0) return;
      message.giveBack(flow);
      for (auto& it : model.pieces) it.flow = it.flow == flow ? -1 : it.flow;
      return;
    case 3: {
      const auto chunk = message.takenAt(uint64_t{index} * model.chunkBytes);
      ASSERT_EQ(chunk.has_value(), piece.flow >= 0);
      ASSERT_TRUE(!chunk || chunk->index == index);
      return;
    }
    default:
      if (message.hasUnsent()) takeOne(message, model, flow);
  }
}

TEST(OutgoingMessage, KeepsItsBooksWhateverFlowsDo) {
  std::mt19937 random(1);
  for (const uint64_t total : kTotals) {
    for (const uint32_t chunkBytes : kChunkSizes) {
      OutgoingMessage message(1, 2, nullptr, total, chunkBytes);
      OutgoingModel model(total, chunkBytes);
      for (int i = 0; i < 2000; ++i) {
        doSomething(message, model, random);
        expectSame(message, model);
        if (testing::Test::HasFatalFailure()) return;
      }
      while (message.hasUnsent()) takeOne(message, model, 0);
      expectSame(message, model);
      EXPECT_EQ(message.unsentBytes(), 0u);
    }
  }
}

TEST(OutgoingMessage, IsTakenInOrderAndWhole) {
  for (const uint64_t total : kTotals) {
    for (const uint32_t chunkBytes : kChunkSizes) {
      OutgoingMessage message(1, 2, nullptr, total, chunkBytes);
      EXPECT_EQ(message.unsentBytes(), total);
      uint64_t end = 0;
      do {
        ASSERT_TRUE(message.hasUnsent());
        const Chunk chunk = message.take(0);
        ASSERT_EQ(chunk.offset, end);
        end += chunk.length;
      } while (end < total);
      EXPECT_EQ(end, total);
      EXPECT_FALSE(message.hasUnsent());
    }
  }
}

TEST(OutgoingMessage, OfNoBytesIsOneChunk) {
  OutgoingMessage message(1, 2, nullptr, 0, kGridBytes);
  ASSERT_TRUE(message.hasUnsent());
  EXPECT_EQ(message.take(3).length, 0u);
  EXPECT_FALSE(message.hasUnsent());
  message.giveBack(3);
  ASSERT_TRUE(message.hasUnsent()) << "its flow died, and nobody sends it";
  message.take(1);
  EXPECT_FALSE(message.hasUnsent());
}

TEST(OutgoingMessage, RepeatsAChunkOnceForItsLatestFlow) {
  OutgoingMessage message(1, 2, nullptr, 3 * kGridBytes, kGridBytes);
  EXPECT_FALSE(message.takeAgain(0, 1)) << "nobody has it yet";
  message.take(0);
  EXPECT_TRUE(message.takeAgain(0, 1));
  EXPECT_FALSE(message.takeAgain(0, 2));
  message.giveBack(0);
  EXPECT_EQ(message.unsentBytes(), 2 * kGridBytes) << "flow 1 has it";
  message.giveBack(1);
  EXPECT_EQ(message.unsentBytes(), 3 * kGridBytes);
  EXPECT_EQ(message.take(2).index, 0u);
}

TEST(OutgoingMessage, KnowsOnlyTheOffsetsOfItsChunks) {
  OutgoingMessage message(1, 2, nullptr, 3 * kGridBytes + 5, kGridBytes);
  while (message.hasUnsent()) message.take(0);
  EXPECT_EQ(message.takenAt(3 * kGridBytes)->length, 5u);
  for (const uint64_t offset : {uint64_t{1}, uint64_t{kGridBytes - 1}, uint64_t{3 * kGridBytes + 5},
                                uint64_t{4 * kGridBytes}, uint64_t{kGridBytes} << 32, ~uint64_t{0},
                                ~uint64_t{0} - kGridBytes + 1}) {
    EXPECT_FALSE(message.takenAt(offset)) << offset;
  }
}

TEST(OutgoingMessage, EndsWhenNobodyReadsItsBuffer) {
  for (const bool delivered : {true, false}) {
    OutgoingMessage message(1, 2, nullptr, kGridBytes, kGridBytes);
    message.take(0);
    message.use();
    message.use();
    message.settle();
    EXPECT_FALSE(message.isEnding());
    delivered ? message.setDelivered() : message.fail();
    EXPECT_TRUE(message.isEnding());
    EXPECT_FALSE(message.takeAgain(0, 1)) << "it has ended";
    message.settle();
    EXPECT_EQ(message.outcome, Outcome::pending);
    message.release();
    message.settle();
    EXPECT_EQ(message.outcome, Outcome::pending) << "one still reads";
    message.release();
    message.settle();
    EXPECT_EQ(message.outcome, delivered ? Outcome::done : Outcome::failed);
    message.fail();
    message.setDelivered();
    message.settle();
    EXPECT_EQ(message.outcome, delivered ? Outcome::done : Outcome::failed) << "that is final";
  }
}

TEST(OutgoingMessage, ThatIsACopyIsDoneForItsOwnerAndLivesOn) {
  for (const bool arrives : {true, false}) {
    OutgoingMessage message(1, 2, std::vector<char>{'a', 'b', 'c'});
    EXPECT_EQ(message.outcome, Outcome::done);
    EXPECT_EQ(message.total(), 3u);
    message.use();
    arrives ? message.setDelivered() : message.fail();
    message.settle();
    EXPECT_FALSE(message.isThrough()) << "it is being written";
    message.release();
    message.settle();
    EXPECT_TRUE(message.isThrough());
    EXPECT_EQ(message.outcome, Outcome::done);
  }
}

TEST(OutgoingMessage, IsNotDoneBeforeItIsDelivered) {
  OutgoingMessage message(1, 2, nullptr, 1, kGridBytes);
  message.take(0);
  message.settle();
  EXPECT_EQ(message.outcome, Outcome::pending);
}

// --- IncomingMessage ---

TEST(IncomingMessage, IsWholeWhateverTheOrder) {
  uint32_t seed = 0;
  for (const uint64_t total : kTotals) {
    for (const uint32_t chunkBytes : kChunkSizes) {
      for (int round = 0; round < 8; ++round) {
        RandomArrival arrival(total, chunkBytes, ++seed);
        arrival.run();
        if (testing::Test::HasFatalFailure()) return;
        EXPECT_EQ(arrival.outcome(), Outcome::done);
        arrival.expectAllThere();
        arrival.expectBufferIsFree();
      }
    }
  }
}

TEST(IncomingMessage, ThatFailsWhileChunksArriveLeavesItsBufferAlone) {
  int failed = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    RandomArrival arrival(9 * kGridBytes - 7, kGridBytes, seed);
    arrival.run(static_cast<int>(seed) % 50);
    if (testing::Test::HasFatalFailure()) return;
    failed += arrival.outcome() == Outcome::failed;
    arrival.expectBufferIsFree();
  }
  EXPECT_GT(failed, 150);
}

TEST(IncomingMessage, OfNoBytesIsThereWithItsOneChunk) {
  char byte = 0;
  for (char* buffer : {static_cast<char*>(nullptr), &byte}) {
    IncomingMessage message(1, buffer, 0);
    EXPECT_EQ(message.judge(0, 0, 0), IncomingMessage::Verdict::wanted);
    EXPECT_FALSE(message.isComplete());
    message.settle();
    EXPECT_EQ(message.outcome, Outcome::pending);
    message.arrived(0, 0);
    message.settle();
    EXPECT_EQ(message.outcome, Outcome::done);
    EXPECT_EQ(message.judge(0, 0, 0), IncomingMessage::Verdict::known);
  }
}

TEST(IncomingMessage, WithMemoryOfItsOwnKeepsWhatCame) {
  IncomingMessage early(1, nullptr, 1000);
  const std::vector<char> bytes = randomBytes(1000, 5);
  ASSERT_EQ(early.judge(0, 1000, 1000), IncomingMessage::Verdict::wanted);
  early.place(0, bytes.data(), 1000);
  early.settle();
  EXPECT_EQ(early.outcome, Outcome::done);
  EXPECT_EQ(memcmp(early.at(0), bytes.data(), 1000), 0);
}

TEST(IncomingMessage, TakesOnlyWhatAnHonestSenderSends) {
  using Verdict = IncomingMessage::Verdict;
  constexpr uint64_t kTotal = 5 * kGridBytes + 100;
  std::vector<char> buffer(kTotal);
  const auto fresh = [&](uint64_t offset, uint32_t length, uint64_t total) {
    return IncomingMessage(1, buffer.data(), kTotal).judge(offset, length, total);
  };
  EXPECT_EQ(fresh(0, kGridBytes, kTotal), Verdict::wanted);
  EXPECT_EQ(fresh(5 * kGridBytes, 100, kTotal), Verdict::wanted) << "the last";
  EXPECT_EQ(fresh(4 * kGridBytes, kGridBytes + 100, kTotal), Verdict::wanted);
  EXPECT_EQ(fresh(0, 7, 7), Verdict::wanted) << "fewer than fit";
  EXPECT_EQ(fresh(0, kGridBytes, kTotal + 1), Verdict::tooLarge);
  EXPECT_EQ(fresh(0, kGridBytes, kMaxMessageBytes), Verdict::tooLarge);
  EXPECT_EQ(fresh(1, kGridBytes, kTotal), Verdict::wrong);
  EXPECT_EQ(fresh(kGridBytes - 1, kGridBytes, kTotal), Verdict::wrong);
  EXPECT_EQ(fresh(0, kGridBytes - 1, kTotal), Verdict::wrong) << "ends inside of a place";
  EXPECT_EQ(fresh(kGridBytes, 1, kTotal), Verdict::wrong);
  EXPECT_EQ(fresh(0, 0, kTotal), Verdict::wrong) << "says nothing";
}

TEST(IncomingMessage, HasOneTotal) {
  std::vector<char> buffer(4 * kGridBytes);
  IncomingMessage message(1, buffer.data(), buffer.size());
  ASSERT_EQ(message.judge(0, kGridBytes, 2 * kGridBytes), IncomingMessage::Verdict::wanted);
  for (const uint64_t other : {kGridBytes, 3 * kGridBytes, 4 * kGridBytes}) {
    EXPECT_EQ(message.judge(0, kGridBytes, other), IncomingMessage::Verdict::wrong);
  }
  message.arrived(0, kGridBytes);
  EXPECT_FALSE(message.isComplete());
  message.arrived(kGridBytes, kGridBytes);
  EXPECT_TRUE(message.isComplete());
}

TEST(IncomingMessage, TooLargeForItsBufferLeavesItAsItWas) {
  std::vector<char> buffer(100, 'x');
  IncomingMessage message(1, buffer.data(), buffer.size());
  ASSERT_EQ(message.judge(0, 101, 101), IncomingMessage::Verdict::tooLarge);
  message.settle();
  EXPECT_EQ(message.outcome, Outcome::pending);
  EXPECT_FALSE(message.isComplete());
  ASSERT_EQ(message.judge(0, 100, 100), IncomingMessage::Verdict::wanted);
}

TEST(IncomingMessage, CountsAChunkOnce) {
  std::vector<char> buffer(3 * kGridBytes);
  IncomingMessage message(1, buffer.data(), buffer.size());
  ASSERT_EQ(message.judge(0, kGridBytes, buffer.size()), IncomingMessage::Verdict::wanted);
  for (int i = 0; i < 3; ++i) message.arrived(0, kGridBytes);
  EXPECT_FALSE(message.isComplete());
  EXPECT_TRUE(message.has(0));
  EXPECT_FALSE(message.has(kGridBytes));
  EXPECT_EQ(message.judge(0, kGridBytes, buffer.size()), IncomingMessage::Verdict::known);
  message.arrived(kGridBytes, 2 * kGridBytes);
  EXPECT_TRUE(message.isComplete());
}

TEST(IncomingMessage, AReplacementWaitsForTheReadUnderWay) {
  std::vector<char> buffer(kGridBytes, 'x');
  const std::vector<char> right(kGridBytes, 'r');
  IncomingMessage message(1, buffer.data(), buffer.size());
  ASSERT_EQ(message.judge(0, kGridBytes, kGridBytes), IncomingMessage::Verdict::wanted);
  ASSERT_TRUE(message.claim(0, 1));
  EXPECT_FALSE(message.claim(0, 2));
  message.beginRead(0, 1);
  message.place(0, right.data(), kGridBytes);
  EXPECT_EQ(buffer, std::vector<char>(kGridBytes, 'x')) << "another is writing there";
  EXPECT_FALSE(message.isComplete());
  message.endRead(0, 2);  // not the one that reads
  EXPECT_FALSE(message.isComplete());
  buffer[5] = 'w';  // what the reader left
  message.endRead(0, 1);
  EXPECT_EQ(buffer, right);
  message.settle();
  EXPECT_EQ(message.outcome, Outcome::done);
}

TEST(IncomingMessage, AClaimIsOfItsFlowAlone) {
  std::vector<char> buffer(2 * kGridBytes);
  IncomingMessage message(1, buffer.data(), buffer.size());
  ASSERT_TRUE(message.claim(0, 1));
  EXPECT_TRUE(message.claim(kGridBytes, 2)) << "another place";
  message.unclaim(0, 2);
  EXPECT_FALSE(message.claim(0, 3));
  message.unclaim(0, 1);
  EXPECT_TRUE(message.claim(0, 3));
}

TEST(IncomingMessage, ThatFailsEndsWhenNobodyReadsIntoIt) {
  std::vector<char> buffer(2 * kGridBytes);
  for (const bool isComplete : {true, false}) {
    IncomingMessage message(1, buffer.data(), buffer.size());
    ASSERT_EQ(message.judge(0, kGridBytes, buffer.size()), IncomingMessage::Verdict::wanted);
    message.claim(0, 1);
    message.claim(kGridBytes, 2);
    message.beginRead(0, 1);
    message.beginRead(kGridBytes, 2);
    if (isComplete) message.arrived(0, 2 * kGridBytes);
    message.fail();
    EXPECT_TRUE(message.isEnding());
    message.settle();
    EXPECT_EQ(message.outcome, Outcome::pending);
    message.endRead(0, 1);
    message.settle();
    EXPECT_EQ(message.outcome, Outcome::pending);
    message.endRead(kGridBytes, 2);
    message.settle();
    EXPECT_EQ(message.outcome, Outcome::failed);
    message.arrived(0, 2 * kGridBytes);
    message.settle();
    EXPECT_EQ(message.outcome, Outcome::failed) << "that is final";
  }
}

TEST(IncomingMessage, AsksForAChunkOnce) {
  std::vector<char> buffer(4 * kGridBytes);
  IncomingMessage message(1, buffer.data(), buffer.size());
  EXPECT_TRUE(message.askedFor().empty());
  ASSERT_EQ(message.judge(0, kGridBytes, buffer.size()), IncomingMessage::Verdict::wanted);
  EXPECT_TRUE(message.mayAskAgain(3 * kGridBytes));
  EXPECT_TRUE(message.mayAskAgain(kGridBytes));
  EXPECT_FALSE(message.mayAskAgain(kGridBytes));
  EXPECT_EQ(message.askedFor(), (std::vector<uint64_t>{kGridBytes, 3 * kGridBytes}));
  message.arrived(kGridBytes, kGridBytes);
  EXPECT_EQ(message.askedFor(), std::vector<uint64_t>{3 * kGridBytes});
  EXPECT_FALSE(message.mayAskAgain(kGridBytes));
}

TEST(IncomingMessage, CountsAsLongOnceAndStopsOnce) {
  std::vector<char> buffer(kGridBytes);
  for (const uint64_t total : {uint64_t{0}, kEagerBytes, kEagerBytes + 1}) {
    IncomingMessage message(1, buffer.data(), buffer.size());
    const bool isLong = total > kEagerBytes;
    ASSERT_EQ(message.judge(0, static_cast<uint32_t>(total), total),
              IncomingMessage::Verdict::wanted);
    EXPECT_FALSE(message.stopsBeingLong());
    EXPECT_EQ(message.countsAsLong(), isLong);
    EXPECT_FALSE(message.countsAsLong());
    EXPECT_EQ(message.stopsBeingLong(), isLong);
    EXPECT_FALSE(message.stopsBeingLong());
  }
}

}  // namespace
}  // namespace cinch::net
