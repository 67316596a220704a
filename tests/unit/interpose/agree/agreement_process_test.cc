// Ranks as processes, which die, fork and exit.
#include "tests/unit/interpose/agree/agreement_processes.h"

namespace cinch {
namespace {

// A rank's whole life: 0 where all goes well and the votes come out as `yes`.
int liveAsRank(const UniqueId& id, int rank, int nRanks, const RealInit& init, bool yes) {
  auto agreement = join(id, rank, nRanks);
  if (agreement == nullptr) return 1;
  init.enter();
  auto verdict = agreement->awaitVerdict(kTestSeconds);
  if (!verdict.ok() || !verdict.value().compress) return 2;
  for (uint64_t topic = 0; topic < 50; ++topic) {
    if (!agreement->castVote(topic, true).ok()) return 3;
  }
  for (uint64_t topic = 0; topic < 50; ++topic) {
    if (allSaidYes(*agreement, topic) != yes) return 4;
  }
  return 0;
}

TEST(AgreementProcess, RanksInProcessesAgreeAndVote) {
  constexpr int kRanks = 6;
  Server server;
  const UniqueId& id = server.id();
  RealInit init(kRanks);
  std::vector<std::unique_ptr<Child>> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    children.push_back(
        std::make_unique<Child>([&, rank] { return liveAsRank(id, rank, kRanks, init, true); }));
  }
  for (auto& child : children) EXPECT_EQ(child->wait(), 0);
}

TEST(AgreementProcess, TheServerNeedNotBeARankAndItsDeathIsNoticed) {
  Server server;
  auto rank0 = join(server.id(), 0, 2);
  auto rank1 = join(server.id(), 1, 2);
  ASSERT_TRUE(rank0 && rank1);
  ASSERT_TRUE(rank0->awaitVerdict(kTestSeconds).value().compress);
  ASSERT_TRUE(rank0->castVote(1, true).ok());
  server.kill();
  EXPECT_FALSE(allSaidYes(*rank0, 1));
  const auto late = rank0->castVote(2, true);
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message.find("agreement server at "), std::string::npos);
}

TEST(AgreementProcess, ARankKilledBeforeItsHelloIsWaitedForNoLonger) {
  Server server;
  const UniqueId& id = server.id();
  Child dead([] {
    raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(dead.wait(), 128 + SIGKILL);
  auto rank0 = join(id, 0, 2);
  ASSERT_TRUE(rank0);
  auto verdict = rank0->awaitVerdict(kTestSeconds);
  ASSERT_TRUE(verdict.ok()) << verdict.error().message;
  EXPECT_NE(verdict.value().reason.find("rank 1 (on host host-0) runs without Cinch"),
            std::string::npos)
      << verdict.value().reason;
}

TEST(AgreementProcess, ARankKilledAfterItsHelloIsNamed) {
  Server server;
  const UniqueId& id = server.id();
  Pipe greeted;
  Child doomed([&] {
    auto agreement = join(id, 1, 3);
    greeted.tell();
    for (;;) pause();
    return agreement == nullptr;
  });
  greeted.await();
  auto rank0 = join(id, 0, 3);
  ASSERT_TRUE(rank0);
  doomed.signal(SIGKILL);
  doomed.wait();
  auto verdict = rank0->awaitVerdict(kTestSeconds);
  ASSERT_TRUE(verdict.ok());
  EXPECT_NE(verdict.value().reason.find("rank 1 on host host-1 has left"), std::string::npos)
      << verdict.value().reason;
}

TEST(AgreementProcess, ARankKilledDuringAVoteIsANo) {
  Server server;
  const UniqueId& id = server.id();
  RealInit init(3);
  Pipe voted;
  Child doomed([&] {
    auto agreement = join(id, 1, 3);
    init.enter();
    if (!agreement->awaitVerdict(kTestSeconds).value().compress) return 1;
    if (!agreement->castVote(99, true).ok()) return 1;
    voted.tell();
    for (;;) pause();
  });
  Child survivor([&] { return liveAsRank(id, 2, 3, init, false); });
  auto rank0 = join(id, 0, 3);
  ASSERT_TRUE(rank0);
  init.enter();
  ASSERT_TRUE(rank0->awaitVerdict(kTestSeconds).value().compress);
  voted.await();
  doomed.signal(SIGKILL);
  doomed.wait();
  for (uint64_t topic = 0; topic < 50; ++topic) ASSERT_TRUE(rank0->castVote(topic, true).ok());
  for (uint64_t topic = 0; topic < 50; ++topic) EXPECT_FALSE(allSaidYes(*rank0, topic));
  EXPECT_EQ(survivor.wait(), 0);
}

TEST(AgreementProcess, AStoppedRankIsWaitedFor) {
  Server server;
  const UniqueId& id = server.id();
  RealInit init(2);
  Child slow([&] {
    auto agreement = join(id, 1, 2);
    init.enter();
    raise(SIGSTOP);
    if (!agreement->awaitVerdict(kTestSeconds).value().compress) return 1;
    if (!agreement->castVote(1, true).ok()) return 2;
    return allSaidYes(*agreement, 1) ? 0 : 3;
  });
  auto rank0 = join(id, 0, 2);
  ASSERT_TRUE(rank0);
  init.enter();
  slow.awaitStopped();
  EXPECT_TRUE(rank0->awaitVerdict(kTestSeconds).value().compress) << "all hellos suffice";
  ASSERT_TRUE(rank0->castVote(1, true).ok());
  std::thread waiter([&] { EXPECT_TRUE(allSaidYes(*rank0, 1)); });
  slow.signal(SIGCONT);
  waiter.join();
  EXPECT_EQ(slow.wait(), 0);
}

TEST(AgreementProcess, AForkedChildHarmsNeitherServerNorRank) {
  UniqueId id = servedId();
  auto rank0 = join(id, 0, 2);
  auto rank1 = join(id, 1, 2);
  ASSERT_TRUE(rank0 && rank1);
  Child worker([&] {
    rank0.reset();  // as destructors at exit would
    rank1->close();
    UniqueId own = servedId();
    if (readStamp(own.data())->server == readStamp(id.data())->server) return 1;
    auto first = join(own, 0, 2);
    auto second = join(own, 1, 2);
    return first && second && first->awaitVerdict(kTestSeconds).value().compress ? 0 : 2;
  });
  EXPECT_EQ(worker.wait(), 0);
  ASSERT_TRUE(rank0->awaitVerdict(kTestSeconds).value().compress);
  ASSERT_TRUE(rank1->awaitVerdict(kTestSeconds).value().compress);
  for (auto* rank : {&rank0, &rank1}) ASSERT_TRUE((*rank)->castVote(1, true).ok());
  for (auto* rank : {&rank0, &rank1}) EXPECT_TRUE(allSaidYes(**rank, 1));
}

// A child that outlives its parent's connection holds copies of the descriptors.
TEST(AgreementProcess, LeavingWorksWhileAForkedChildHoldsTheDescriptors) {
  UniqueId id = servedId();
  auto rank0 = join(id, 0, 2);
  auto rank1 = join(id, 1, 2);
  ASSERT_TRUE(rank0 && rank1);
  Child holder([] {
    for (;;) pause();
    return 0;
  });
  ASSERT_TRUE(rank0->awaitVerdict(kTestSeconds).value().compress);
  ASSERT_TRUE(rank0->castVote(1, true).ok());
  rank1.reset();
  EXPECT_FALSE(allSaidYes(*rank0, 1));
  // The server goes on without spinning on the ended connection.
  UniqueId next = servedId();
  auto other = join(next, 0, 1);
  ASSERT_TRUE(other);
  EXPECT_TRUE(other->awaitVerdict(kTestSeconds).value().compress);
}

TEST(AgreementProcess, ServingDoesNotKeepAProcessAlive) {
  Child child([] {
    UniqueId id = servedId();
    exit(hasAgreementStamp(id.data()) ? 0 : 1);  // with destructors, while the thread runs
    return 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(AgreementProcess, SignalsGoToTheProgramsOwnThreads) {
  Child child([] {
    UniqueId id = servedId();
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    // Were it not blocked in the server's thread, it would end the process here.
    kill(getpid(), SIGUSR1);
    int number = 0;
    sigwait(&set, &number);
    return number == SIGUSR1 && hasAgreementStamp(id.data()) ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

// A thread that makes ids holds locks, which a child would find held for ever.
TEST(AgreementProcess, AChildServesWhateverThreadsDidWhenItWasForked) {
  Child child([] {
    std::atomic<bool> isOver{false};
    std::thread maker([&] {
      // Not without a pause: a lock that is taken again at once is never the other thread's.
      for (; !isOver; std::this_thread::sleep_for(std::chrono::microseconds(1))) servedId();
    });
    int failed = 0;
    for (int i = 0; i < 300 && failed == 0; ++i) {
      const pid_t forked = fork();
      if (forked == 0) {
        alarm(kTestSeconds);
        _exit(hasAgreementStamp(servedId().data()) ? 0 : 1);
      }
      waitpid(forked, &failed, 0);
    }
    isOver = true;
    maker.join();
    return failed == 0 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(AgreementProcess, AnUnusableInterfaceChoiceLeavesTheIdUnstamped) {
  Child child([] {
    setenv("NCCL_SOCKET_IFNAME", "=nosuchinterface", 1);
    UniqueId id = {};
    auto served = serveAgreement(id.data());
    if (served.ok() || hasAgreementStamp(id.data())) return 1;
    if (served.error().message.find("nosuchinterface") == std::string::npos) return 2;
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    if (!serveAgreement(id.data()).ok()) return 3;
    return readStamp(id.data())->server.address.isLoopback() ? 0 : 4;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace cinch
