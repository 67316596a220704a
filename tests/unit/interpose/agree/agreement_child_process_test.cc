// Communicators made from others, whose ranks are processes that are slow, die or lose their
// server.
#include "tests/unit/interpose/agree/agreement_processes.h"

namespace cinch {
namespace {

std::unique_ptr<Agreement> joinChild(const Agreement& parent, uint64_t ordinal, int64_t part,
                                     int rank, int nRanks) {
  auto greeted =
      Agreement::greetChild(parent, ordinal, part, makeHello(rank, nRanks), kTestSeconds);
  return greeted.ok() ? std::move(greeted.value()) : nullptr;
}

// This rank of a communicator on which all agree, or null.
std::unique_ptr<Agreement> agreed(const UniqueId& id, int rank, int nRanks, const RealInit& init) {
  auto agreement = join(id, rank, nRanks);
  if (agreement == nullptr) return nullptr;
  init.enter();
  auto verdict = agreement->awaitVerdict(kTestSeconds);
  return verdict.ok() && verdict.value().compress ? std::move(agreement) : nullptr;
}

bool toldYes(Agreement& agreement) {
  auto verdict = agreement.awaitVerdict(kTestSeconds);
  return verdict.ok() && verdict.value().compress;
}

bool allVoteYes(Agreement& agreement) {
  if (!agreement.castVote(1, true).ok()) return false;
  return allSaidYes(agreement, 1);
}

// Four ranks split into two colours; each colour splits again, its ranks in reverse; all vote.
int splitTwice(const UniqueId& id, int rank, const RealInit& init) {
  auto world = agreed(id, rank, 4, init);
  if (world == nullptr) return 1;
  const int colour = rank % 2;
  auto half = joinChild(*world, 0, colour, rank / 2, 2);
  if (half == nullptr || !toldYes(*half) || !allVoteYes(*half)) return 2;
  auto again = joinChild(*half, 0, 0, 1 - rank / 2, 2);
  half.reset();
  if (again == nullptr || !toldYes(*again) || !allVoteYes(*again)) return 3;
  return allVoteYes(*world) ? 0 : 4;
}

TEST(AgreementChildProcess, RanksSplitIntoColoursAndAgain) {
  Server server;
  RealInit init(4);
  std::vector<std::unique_ptr<Child>> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(std::make_unique<Child>([&, rank] {
      const int result = splitTwice(server.id(), rank, init);
      init.enter();  // no rank leaves before all are done
      return result;
    }));
  }
  for (auto& rank : ranks) EXPECT_EQ(rank->wait(), 0);
}

TEST(AgreementChildProcess, AStoppedMemberIsWaitedFor) {
  Server server;
  RealInit init(2);
  Child slow([&] {
    auto world = agreed(server.id(), 1, 2, init);
    if (world == nullptr) return 1;
    raise(SIGSTOP);
    auto child = joinChild(*world, 0, 0, 1, 2);
    return child != nullptr && toldYes(*child) && allVoteYes(*child) ? 0 : 2;
  });
  auto world = agreed(server.id(), 0, 2, init);
  ASSERT_TRUE(world);
  auto child = joinChild(*world, 0, 0, 0, 2);
  ASSERT_TRUE(child);
  slow.awaitStopped();
  std::thread waiter([&] { EXPECT_TRUE(toldYes(*child)); });
  slow.signal(SIGCONT);
  waiter.join();
  EXPECT_TRUE(allVoteYes(*child));
  EXPECT_EQ(slow.wait(), 0);
}

TEST(AgreementChildProcess, AMemberKilledBeforeItsHelloMeansNoForAll) {
  Server server;
  RealInit init(3);
  Child doomed([&] {
    auto world = agreed(server.id(), 2, 3, init);
    if (world == nullptr) return 1;
    raise(SIGKILL);
    return 2;
  });
  // This one gives up after a second, and the other hears of it.
  Child impatient([&] {
    auto world = agreed(server.id(), 1, 3, init);
    if (world == nullptr) return 1;
    auto child = joinChild(*world, 0, 0, 1, 3);
    if (child == nullptr || child->awaitVerdict(1).ok()) return 2;
    raise(SIGSTOP);  // alive, and still in the parent
    return 0;
  });
  auto world = agreed(server.id(), 0, 3, init);
  ASSERT_TRUE(world);
  EXPECT_EQ(doomed.wait(), 128 + SIGKILL);
  impatient.awaitStopped();
  auto child = joinChild(*world, 0, 0, 0, 3);
  EXPECT_EQ(child, nullptr) << "turned away";
  impatient.signal(SIGCONT);
  EXPECT_EQ(impatient.wait(), 0);
}

TEST(AgreementChildProcess, AMemberKilledAfterItsHelloIsNamed) {
  Server server;
  RealInit init(3);
  Pipe greeted;
  Child doomed([&] {
    auto world = agreed(server.id(), 1, 3, init);
    auto child = joinChild(*world, 5, 2, 1, 3);
    greeted.tell();
    for (;;) pause();
    return child == nullptr;
  });
  Child other([&] { return agreed(server.id(), 2, 3, init) != nullptr ? 0 : 1; });
  auto world = agreed(server.id(), 0, 3, init);
  ASSERT_TRUE(world);
  auto child = joinChild(*world, 5, 2, 0, 3);
  ASSERT_TRUE(child);
  greeted.await();
  doomed.signal(SIGKILL);
  doomed.wait();
  auto verdict = child->awaitVerdict(kTestSeconds);
  ASSERT_TRUE(verdict.ok()) << verdict.error().message;
  EXPECT_EQ(verdict.value().reason, "rank 1 on host host-1 has left before the ranks had agreed");
  EXPECT_EQ(other.wait(), 0);
}

TEST(AgreementChildProcess, TheServersDeathEndsTheWaitAndPreventsTheNext) {
  Server server;
  auto first = join(server.id(), 0, 2);
  auto second = join(server.id(), 1, 2);
  ASSERT_TRUE(first && second && toldYes(*first) && toldYes(*second));
  auto child = joinChild(*first, 0, 0, 0, 2);
  ASSERT_TRUE(child);
  server.kill();
  auto verdict = child->awaitVerdict(kTestSeconds);
  ASSERT_FALSE(verdict.ok());
  EXPECT_NE(verdict.error().message.find("agreement server at "), std::string::npos);
  EXPECT_EQ(joinChild(*second, 0, 0, 1, 2), nullptr);
}

}  // namespace
}  // namespace cinch
