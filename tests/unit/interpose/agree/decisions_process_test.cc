// Decisions of ranks that are processes: they are killed, stopped, and fork.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <random>

#include "interpose/agree/decisions.h"
#include "interpose/agree/group_marks.h"
#include "tests/unit/interpose/agree/agreement_processes.h"

namespace cinch {
namespace {

constexpr uint64_t kCalls = 1500;

// Makes all calls, and writes a hash of what was in force with which to `pipe`; 0 where all is
// well.
int live(const UniqueId& id, int rank, int nRanks, unsigned seed, const RealInit& init,
         const Pipe& pipe) {
  auto agreement = join(id, rank, nRanks);
  if (agreement == nullptr) return 1;
  init.enter();
  if (!agreement->awaitVerdict(kTestSeconds).value().compress) return 1;
  std::mt19937 random(seed + static_cast<unsigned>(rank));
  Decisions& decisions = agreement->decisions();
  uint64_t hash = 0;
  while (decisions.claimed() < kCalls) {
    if (random() % 100 == 0) decisions.decideSoon(random() % 8);
    if (random() % 100 == 0 && !decisions.isDecidedBeforeNext(100 + random() % 8).ok()) return 2;
    const auto claimed = decisions.claim();
    if (!claimed.ok()) return 3;
    for (const Decision& decision : claimed.value().decisions)
      hash = hash * 31 + claimed.value().call * 7 + decision.topic;
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
  }
  return write(pipe.ends[1], &hash, sizeof hash) == sizeof hash ? 0 : 5;
}

OWN_PROCESS_TEST(DecisionsProcess, RanksInProcessesNeverPart) {
  for (int run = 0; run < 8; ++run) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    constexpr int kRanks = 5;
    Server server;
    RealInit init(kRanks);
    Pipe results;
    std::vector<std::unique_ptr<Child>> children;
    for (int rank = 0; rank < kRanks; ++rank) {
      children.push_back(std::make_unique<Child>(
          [&, rank] { return live(server.id(), rank, kRanks, seed, init, results); }));
    }
    uint64_t first = 0;
    for (auto& child : children) ASSERT_EQ(child->wait(), 0);
    for (int rank = 0; rank < kRanks; ++rank) {
      uint64_t hash = 0;
      ASSERT_EQ(read(results.ends[0], &hash, sizeof hash), ssize_t{sizeof hash});
      if (rank == 0) first = hash;
      EXPECT_EQ(hash, first);
    }
    EXPECT_NE(first, 0u) << "something was decided";
  }
}

// Two ranks of this process, and one in a process of its own.
struct Three {
  Three(const UniqueId& id, const RealInit& init) : rank0(join(id, 0, 3)), rank1(join(id, 1, 3)) {
    EXPECT_TRUE(rank0 && rank1);
    init.enter();
    EXPECT_TRUE(rank0->awaitVerdict(kTestSeconds).value().compress);
    EXPECT_TRUE(rank1->awaitVerdict(kTestSeconds).value().compress);
  }
  std::unique_ptr<Agreement> rank0, rank1;
};

int greetAndPause(const UniqueId& id, const RealInit& init) {
  auto agreement = join(id, 2, 3);
  init.enter();
  if (agreement == nullptr || !agreement->awaitVerdict(kTestSeconds).ok()) return 1;
  for (;;) pause();
}

OWN_PROCESS_TEST(DecisionsProcess, AKilledRankEndsDecisionsForGood) {
  Server server;
  RealInit init(2);
  Child doomed([&] { return greetAndPause(server.id(), init); });
  Three ranks(server.id(), init);
  EXPECT_TRUE(ranks.rank0->decisions().claim().ok());
  doomed.signal(SIGKILL);
  doomed.wait();
  EXPECT_FALSE(ranks.rank0->decisions().isDecidedBeforeNext(1).value());
  for (int call = 0; call < 10; ++call) {
    EXPECT_TRUE(ranks.rank0->decisions().claim().value().decisions.empty());
    EXPECT_TRUE(ranks.rank1->decisions().claim().value().decisions.empty());
  }
}

OWN_PROCESS_TEST(DecisionsProcess, ARankKilledWhileItOwesItsAnswerIsWaitedForNoLonger) {
  Server server;
  RealInit init(2);
  Child doomed([&] { return greetAndPause(server.id(), init); });
  Three ranks(server.id(), init);
  doomed.signal(SIGSTOP);
  doomed.awaitStopped();
  std::thread wanting(
      [&] { EXPECT_FALSE(ranks.rank1->decisions().isDecidedBeforeNext(1).value()); });
  std::atomic<bool> over{false};
  std::thread program([&] {
    // Until the other one's wish has arrived, its calls are free.
    const uint64_t before = Decisions::waits().count;
    while (Decisions::waits().count == before && !over)
      EXPECT_TRUE(ranks.rank0->decisions().claim().ok());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  over = true;
  doomed.signal(SIGKILL);
  doomed.wait();
  program.join();
  wanting.join();
  EXPECT_TRUE(ranks.rank1->decisions().claim().ok());
}

OWN_PROCESS_TEST(DecisionsProcess, AStoppedProcessIsWaitedFor) {
  Server server;
  RealInit init(2);
  Child slow([&] { return greetAndPause(server.id(), init); });
  Three ranks(server.id(), init);
  slow.signal(SIGSTOP);
  slow.awaitStopped();
  std::atomic<bool> isDecided{false};
  std::thread wanting([&] {
    EXPECT_TRUE(ranks.rank0->decisions().isDecidedBeforeNext(1).value());
    isDecided = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(isDecided);
  slow.signal(SIGCONT);
  wanting.join();
  EXPECT_EQ(ranks.rank1->decisions().claim().value().decisions, std::vector<Decision>{{1}});
}

OWN_PROCESS_TEST(DecisionsProcess, AForkedChildCanDecideNothingOfItsParents) {
  Server server;
  auto rank0 = join(server.id(), 0, 1);
  ASSERT_TRUE(rank0 && rank0->awaitVerdict(kTestSeconds).ok());
  Decisions& decisions = rank0->decisions();
  EXPECT_TRUE(decisions.claim().ok());
  Child worker([&] {
    if (decisions.claim().ok() || decisions.isDecidedBeforeNext(1).ok()) return 1;
    decisions.takeBack();
    if (!decisions.isOver()) return 2;
    decisions.decideSoon(1);
    if (rank0->castVote(1, true).ok() || rank0->propose(1, {}).ok()) return 3;
    rank0.reset();
    // A reader of its own.
    const UniqueId id = servedId();
    auto own = join(id, 0, 1);
    if (own == nullptr || !own->awaitVerdict(kTestSeconds).ok()) return 4;
    if (!own->decisions().isDecidedBeforeNext(1).value()) return 5;
    return own->decisions().claim().value().decisions.size() == 1 ? 0 : 6;
  });
  EXPECT_EQ(worker.wait(), 0);
  EXPECT_TRUE(decisions.isDecidedBeforeNext(1).value()) << "the parent's connection is as it was";
}

// Locks and counts that other threads of the parent had are not the child's.
OWN_PROCESS_TEST(DecisionsProcess, AChildOpensGroupsWhateverItsParentWasDoing) {
  Child child([] {
    std::atomic<bool> isOver{false};
    std::thread grouping([&] {
      while (!isOver) {
        enterGroup();
        leaveGroup();
      }
    });
    std::thread marking([&] {
      while (!isOver)
        if (addMark(true)) removeMark();
    });
    int failed = 0;
    for (int i = 0; i < 300 && failed == 0; ++i) {
      const pid_t forked = fork();
      if (forked == 0) {
        alarm(kTestSeconds);
        const auto begun = Clock::now();
        enterGroup();
        const bool wasHeldUp = Clock::now() - begun > std::chrono::milliseconds(900);
        leaveGroup();
        _exit(!wasHeldUp && addMark(false) ? 0 : 1);
      }
      waitpid(forked, &failed, 0);
    }
    isOver = true;
    grouping.join();
    marking.join();
    return failed == 0 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

OWN_PROCESS_TEST(DecisionsProcess, TheReaderDoesNotKeepAProcessAlive) {
  Server server;
  Child child([&] {
    static std::unique_ptr<Agreement> forever;  // destroyed by exit(), beside a running thread
    forever = join(server.id(), 0, 1);
    auto* leaked = join(server.id(), 0, 1).release();
    exit(forever != nullptr && leaked == nullptr ? 0 : 1);
    return 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

#ifndef __SANITIZE_ADDRESS__  // which needs descriptors of its own to look at an object
// With no descriptor left, for the reader or for the connection, the rank passes, as for other
// errors.
OWN_PROCESS_TEST(DecisionsProcess, WithoutDescriptorsARankDoesNotJoin) {
  for (const auto& [nLeft, cause] :
       {std::pair<rlim_t, const char*>(0, "control channel: epoll"), {1, "ulimit -n"}}) {
    Server server;
    Child child([&server, nLeft = nLeft, cause = cause] {
      const int next = dup(0);
      const rlim_t most = static_cast<rlim_t>(next) + nLeft;
      const rlimit few{most, most};
      ::close(next);
      if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
      auto joined = Agreement::greet(server.id().data(), makeHello(0, 1), kTestSeconds);
      if (joined.ok()) return 2;
      return joined.error().message.find(cause) == std::string::npos ? 3 : 0;
    });
    EXPECT_EQ(child.wait(), 0);
  }
}
#endif

// Puts something else where this process has descriptors of that kind, without leaving their
// numbers to others.
void breakEpollDescriptors() {
  Pipe instead;
  for (int fd = 3; fd < 64; ++fd) {
    char target[64] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (readlink(link.c_str(), target, sizeof target - 1) > 0 &&
        std::string(target).find("eventpoll") != std::string::npos) {
      syscall(SYS_dup3, instead.ends[0], fd,
              O_CLOEXEC);  // tools that watch for races do not see it
    }
  }
}

// A program that closes descriptors that are not its own.
OWN_PROCESS_TEST(DecisionsProcess, AReaderWhoseDescriptorIsClosedFailsItsRanksAndIsReplaced) {
  Server server;
  Server other;
  Child child([&] {
    auto first = join(server.id(), 0, 1);
    if (first == nullptr) return 1;
    breakEpollDescriptors();
    // The thread notices when it wakes the next time.
    const Deadline deadline = deadlineIn(std::chrono::seconds(kTestSeconds));
    static_cast<void>(first->awaitVerdict(kTestSeconds));
    for (uint64_t topic = 0; first->castVote(topic, true).ok(); ++topic) {
      if (Clock::now() > deadline) return 2;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    // An error where it had just promised the call.
    const auto late = first->decisions().isDecidedBeforeNext(1);
    if (late.ok() && late.value()) return 3;
    auto second = join(other.id(), 0, 1);
    if (second == nullptr || !second->awaitVerdict(kTestSeconds).ok()) return 4;
    return second->decisions().isDecidedBeforeNext(1).value() ? 0 : 5;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace cinch
