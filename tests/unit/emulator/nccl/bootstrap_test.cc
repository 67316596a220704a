#include "emulator/nccl/bootstrap.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace cinch::emulator {
namespace {

std::vector<char> bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

const Cancellation& never() {
  static const Cancellation cancellation;
  return cancellation;
}

UniqueId newId() {
  const Result<UniqueId> id = createUniqueId();
  EXPECT_TRUE(id.ok());
  return id.value();
}

Bootstrap join(const UniqueId& id, int rank, int nRanks) {
  Result<Bootstrap> joined = Bootstrap::join(id, rank, nRanks, never());
  EXPECT_TRUE(joined.ok()) << joined.error().message;
  return std::move(joined.value());
}

void expectError(const Result<Shares>& result, const std::string& part) {
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

TEST(Bootstrap, GivesEverybodyWhatAllSaid) {
  const UniqueId id = newId();
  constexpr int kRanks = 5;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Bootstrap bootstrap = join(id, rank, kRanks);
      for (const char round : {'a', 'b'}) {
        // Of another length from each rank, nothing from rank 0.
        const auto shareOf = [&](int of) {
          return std::vector<char>(static_cast<size_t>(of), round);
        };
        const auto all = bootstrap.exchange(shareOf(rank));
        ASSERT_TRUE(all.ok()) << all.error().message;
        Shares wanted;
        for (int other = 0; other < kRanks; ++other) wanted.push_back(shareOf(other));
        EXPECT_EQ(all.value(), wanted);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Bootstrap, GivesTheChosenMembersInTheirOrder) {
  const UniqueId id = newId();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      Bootstrap bootstrap = join(id, rank, 3);
      bootstrap.restrictTo({2, 0});
      const auto all = bootstrap.exchange(bytes(std::to_string(rank)));
      ASSERT_TRUE(all.ok()) << all.error().message;
      EXPECT_EQ(all.value(), (Shares{bytes("2"), bytes("0")}));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Bootstrap, StopsWaitingWhenItIsCancelled) {
  const UniqueId id = newId();
  Cancellation cancellation;
  Result<Bootstrap> bootstrap = Bootstrap::join(id, 0, 2, cancellation);
  ASSERT_TRUE(bootstrap.ok());
  std::thread canceller([&] { cancellation.cancel(); });
  expectError(bootstrap.value().exchange(bytes("x")), "aborted");
  canceller.join();
  EXPECT_FALSE(bootstrap.value().check().ok());
}

TEST(Bootstrap, NamesARankThatLeavesBeforeAllHaveCome) {
  const UniqueId id = newId();
  Bootstrap first = join(id, 0, 3);
  { const Bootstrap second = join(id, 1, 3); }
  expectError(first.exchange(bytes("x")), "rank 1 (");
}

TEST(Bootstrap, NamesARankThatLeavesBetweenExchanges) {
  const UniqueId id = newId();
  Bootstrap first = join(id, 0, 2);
  {
    Bootstrap second = join(id, 1, 2);
    std::thread thread([&] { EXPECT_TRUE(second.exchange(bytes("2")).ok()); });
    EXPECT_TRUE(first.exchange(bytes("1")).ok());
    thread.join();
    EXPECT_TRUE(first.check().ok());
  }
  Result<void> checked = first.check();
  while (checked.ok()) {
    std::this_thread::yield();
    checked = first.check();
  }
  EXPECT_NE(checked.error().message.find("rank 1"), std::string::npos) << checked.error().message;
}

TEST(Bootstrap, TellsLatecomersWhyThereIsNoCommunicator) {
  const UniqueId id = newId();
  Bootstrap first = join(id, 0, 4);
  Bootstrap second = join(id, 1, 5);
  expectError(first.exchange(bytes("x")), "expects");
  expectError(second.exchange(bytes("x")), "expects");
  Bootstrap third = join(id, 2, 4);
  expectError(third.exchange(bytes("x")), "expects");
}

TEST(Bootstrap, NamesBothThatClaimARank) {
  const UniqueId id = newId();
  Bootstrap first = join(id, 2, 4);
  Bootstrap second = join(id, 2, 4);
  expectError(second.exchange(bytes("x")), "rank 2 (");
  expectError(first.exchange(bytes("x")), "same rank");
}

// A rank's own socket, of a process with the number `pid`, which says `share` at once.
Descriptor introduce(const UniqueId& id, int rank, int pid, const std::vector<char>& share) {
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  auto socket = connectTo(id.root, deadline, Refusal::isFinal);
  EXPECT_TRUE(socket.ok());
  FrameHello hello{};
  hello.nonce = id.nonce;
  hello.rank = rank;
  hello.nRanks = 2;
  hello.pid = pid;
  const int fd = socket.value().get();
  EXPECT_TRUE(writeFrame(fd, FrameKind::hello, &hello, sizeof hello, deadline).ok());
  EXPECT_TRUE(writeFrame(fd, FrameKind::data, share.data(), share.size(), deadline).ok());
  return std::move(socket.value());
}

// The root ends with its process, so the ranks there are the last to get what lets them go on.
TEST(Bootstrap, TellsTheRanksOfTheRootsProcessLast) {
  const UniqueId id = newId();
  const std::vector<char> large(size_t{16} << 20);  // more than sockets hold
  const Descriptor here = introduce(id, 0, getpid(), large);
  const Descriptor elsewhere = introduce(id, 1, getpid() + 1, {});
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  FrameReader reader;
  std::optional<Frame> told;
  while (!told && Clock::now() < deadline) {
    reader.readFrom(elsewhere.get());
    told = reader.take();
  }
  ASSERT_TRUE(told.has_value()) << "while rank 0 does not read";
  EXPECT_EQ(told->kind, FrameKind::data);
}

// Port scanners and clients of older communicators must not disturb.
TEST(Bootstrap, IgnoresStrangers) {
  const UniqueId id = newId();
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  auto scanner = connectTo(id.root, deadline, Refusal::isFinal);
  ASSERT_TRUE(scanner.ok());
  const std::string noise(1000, '\xff');
  ASSERT_EQ(send(scanner.value().get(), noise.data(), noise.size(), MSG_NOSIGNAL), 1000);
  UniqueId other = id;
  ++other.nonce;
  Bootstrap stranger = join(other, 0, 1);
  EXPECT_FALSE(stranger.exchange(bytes("s")).ok());
  Bootstrap rank = join(id, 0, 1);
  const auto all = rank.exchange(bytes("mine"));
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all.value(), Shares{bytes("mine")});
}

TEST(UniqueId, FillsTheBeginningOnly) {
  UniqueId id;
  id.nonce = 0x1122334455667788;
  id.root.family = AF_INET;
  id.root.port = 4711;
  ncclUniqueId packed = packUniqueId(id);
  for (size_t i = 50; i < sizeof packed; ++i) ASSERT_EQ(packed.internal[i], 0);
  memset(packed.internal + 50, 0xab, sizeof packed - 50);
  const Result<UniqueId> again = unpackUniqueId(packed);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again.value().nonce, id.nonce);
  EXPECT_EQ(again.value().root.port, 4711);
}

TEST(UniqueId, RefusesForeignBytes) {
  EXPECT_FALSE(unpackUniqueId(ncclUniqueId{}).ok());
  ncclUniqueId noise;
  memset(&noise, 0x77, sizeof noise);
  EXPECT_FALSE(unpackUniqueId(noise).ok());
}

}  // namespace
}  // namespace cinch::emulator
