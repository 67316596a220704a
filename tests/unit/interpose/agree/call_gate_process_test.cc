// Gates of ranks that are processes: they are killed, stopped, and fork.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <random>

#include "interpose/agree/call_gate.h"
#include "tests/unit/interpose/agree/agreement_processes.h"

namespace cinch {
namespace {

constexpr int kCalls = 400;

// Makes all calls, closing at random, and writes to `pipe` how many were open; 0 where all is well.
int liveWithGate(const UniqueId& id, int rank, int nRanks, unsigned seed, const RealInit& init,
                 const Pipe& pipe) {
  auto agreement = join(id, rank, nRanks);
  if (agreement == nullptr) return 1;
  init.enter();
  if (!agreement->awaitVerdict(kTestSeconds).value().compress) return 1;
  std::mt19937 random(seed + static_cast<unsigned>(rank));
  const auto gate = agreement->openGate(9);
  uint64_t nOpen = 0;
  for (int call = 0; call < kCalls; ++call) {
    if (random() % 500 == 0) gate->closeSoon();
    if (random() % 500 == 0 && !gate->close().ok()) return 2;
    auto open = gate->begin();
    if (!open.ok()) return 3;
    if (open.value() && nOpen < static_cast<uint64_t>(call)) return 4;  // open again
    nOpen += open.value() ? 1 : 0;
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
  }
  return write(pipe.ends[1], &nOpen, sizeof nOpen) == sizeof nOpen ? 0 : 5;
}

OWN_PROCESS_TEST(CallGateProcess, RanksInProcessesCloseAtTheSameCall) {
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
          [&, rank] { return liveWithGate(server.id(), rank, kRanks, seed, init, results); }));
    }
    uint64_t first = 0;
    for (auto& child : children) ASSERT_EQ(child->wait(), 0);
    for (int rank = 0; rank < kRanks; ++rank) {
      uint64_t nOpen = 0;
      ASSERT_EQ(read(results.ends[0], &nOpen, sizeof nOpen), ssize_t{sizeof nOpen});
      if (rank == 0) first = nOpen;
      EXPECT_EQ(nOpen, first);
    }
  }
}

// Two ranks of this process, and one in a process of its own.
struct Three {
  Three(const UniqueId& id, const RealInit& init) : rank0(join(id, 0, 3)), rank1(join(id, 1, 3)) {
    EXPECT_TRUE(rank0 && rank1);
    init.enter();
    EXPECT_TRUE(rank0->awaitVerdict(kTestSeconds).value().compress);
    EXPECT_TRUE(rank1->awaitVerdict(kTestSeconds).value().compress);
    gate0 = rank0->openGate(1);
    gate1 = rank1->openGate(1);
  }
  std::unique_ptr<Agreement> rank0, rank1;
  std::shared_ptr<CallGate> gate0, gate1;
};

int greetAndPause(const UniqueId& id, const RealInit& init) {
  auto agreement = join(id, 2, 3);
  init.enter();
  if (agreement == nullptr || !agreement->awaitVerdict(kTestSeconds).ok()) return 1;
  for (;;) pause();
}

OWN_PROCESS_TEST(CallGateProcess, AKilledRankLeavesTheGateOpenForGood) {
  Server server;
  RealInit init(2);
  Child doomed([&] { return greetAndPause(server.id(), init); });
  Three ranks(server.id(), init);
  EXPECT_TRUE(ranks.gate0->begin().value());
  doomed.signal(SIGKILL);
  doomed.wait();
  EXPECT_FALSE(ranks.gate0->close().value());
  for (int call = 0; call < 10; ++call) {
    EXPECT_TRUE(ranks.gate0->begin().value());
    EXPECT_TRUE(ranks.gate1->begin().value());
  }
}

OWN_PROCESS_TEST(CallGateProcess, ARankKilledWhileItOwesItsAnswerIsWaitedForNoLonger) {
  Server server;
  RealInit init(2);
  Child doomed([&] { return greetAndPause(server.id(), init); });
  Three ranks(server.id(), init);
  doomed.signal(SIGSTOP);
  doomed.awaitStopped();
  ranks.gate1->closeSoon();
  // Calls below the one that is being decided never wait; that one does.
  EXPECT_TRUE(ranks.gate0->begin().value());
  EXPECT_TRUE(ranks.gate0->begin().value());
  std::atomic<bool> over{false};
  std::thread program([&] {
    EXPECT_TRUE(ranks.gate0->begin().value());
    over = true;
  });
  std::thread closer([&] { EXPECT_FALSE(ranks.gate1->close().value()); });
  doomed.signal(SIGKILL);
  doomed.wait();
  program.join();
  closer.join();
  EXPECT_TRUE(over);
  EXPECT_TRUE(ranks.gate1->begin().value());
}

OWN_PROCESS_TEST(CallGateProcess, AStoppedProcessIsWaitedFor) {
  Server server;
  RealInit init(2);
  Child slow([&] { return greetAndPause(server.id(), init); });
  Three ranks(server.id(), init);
  slow.signal(SIGSTOP);
  slow.awaitStopped();
  std::thread closer([&] { EXPECT_TRUE(ranks.gate0->close().value()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(ranks.gate0->isClosed());
  slow.signal(SIGCONT);
  closer.join();
  EXPECT_FALSE(ranks.gate1->begin().value());
}

OWN_PROCESS_TEST(CallGateProcess, AForkedChildCanDoNothingWithItsParentsGates) {
  Server server;
  auto rank0 = join(server.id(), 0, 1);
  ASSERT_TRUE(rank0 && rank0->awaitVerdict(kTestSeconds).ok());
  const auto gate = rank0->openGate(1);
  EXPECT_TRUE(gate->begin().value());
  Child worker([&] {
    if (gate->begin().ok() || gate->close().ok() || gate->isClosed()) return 1;
    gate->takeBack();
    gate->closeSoon();
    if (rank0->openGate(2)->begin().ok()) return 2;
    if (rank0->castVote(1, true).ok() || rank0->awaitVote(1, kTestSeconds).ok()) return 3;
    rank0.reset();
    // A reader of its own.
    const UniqueId id = servedId();
    auto own = join(id, 0, 1);
    if (own == nullptr || !own->awaitVerdict(kTestSeconds).ok()) return 4;
    const auto ownGate = own->openGate(1);
    if (!ownGate->begin().value() || !ownGate->close().value()) return 5;
    return ownGate->begin().value() ? 6 : 0;
  });
  EXPECT_EQ(worker.wait(), 0);
  EXPECT_TRUE(gate->close().value()) << "the parent's connection is as it was";
  EXPECT_FALSE(gate->begin().value());
}

OWN_PROCESS_TEST(CallGateProcess, TheReaderDoesNotKeepAProcessAlive) {
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
OWN_PROCESS_TEST(CallGateProcess, WithoutDescriptorsARankDoesNotJoin) {
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
OWN_PROCESS_TEST(CallGateProcess, AReaderWhoseDescriptorIsClosedFailsItsRanksAndIsReplaced) {
  Server server;
  Server other;
  Child child([&] {
    auto first = join(server.id(), 0, 1);
    if (first == nullptr) return 1;
    const auto gate = first->openGate(1);
    breakEpollDescriptors();
    // The thread notices when it wakes the next time.
    const Deadline deadline = deadlineIn(std::chrono::seconds(kTestSeconds));
    static_cast<void>(first->awaitVerdict(kTestSeconds));
    for (uint64_t topic = 0; first->castVote(topic, true).ok(); ++topic) {
      if (Clock::now() > deadline) return 2;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (gate->close().value() || !gate->begin().value()) return 3;
    auto second = join(other.id(), 0, 1);
    if (second == nullptr || !second->awaitVerdict(kTestSeconds).ok()) return 4;
    return second->openGate(1)->close().value() ? 0 : 5;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace cinch
