// Ranks as processes, which die, fork and exit. The server is a process of its own, so that
// children are forked from a single thread: AddressSanitizer's allocator, unlike glibc's, does not
// survive a fork while another thread is inside it. Where the fork itself is tested, the server's
// thread is asleep by then.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

// Returns when this process's one other thread, a server's, has nothing left to do.
void awaitOtherThreadAsleep() {
  auto asleep = [](const std::filesystem::path& task) {
    std::ifstream file(task / "stat");
    std::string stat((std::istreambuf_iterator<char>(file)), {});
    return stat.find(") S ") != std::string::npos;
  };
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    while (!asleep(task.path())) std::this_thread::yield();
  }
}

// A child process that runs `body` and exits with what it returns.
class Child {
 public:
  explicit Child(const std::function<int()>& body) {
    awaitOtherThreadAsleep();
    pid_ = fork();
    if (pid_ == 0) _exit(body());
  }
  ~Child() {
    if (pid_ > 0 && !waited_) {
      kill(pid_, SIGKILL);
      wait();
    }
  }
  Child(const Child&) = delete;

  void signal(int number) const { kill(pid_, number); }
  void awaitStopped() const {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    waited_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
  bool waited_ = false;
};

UniqueId servedId() {
  UniqueId id = {};
  auto served = serveAgreement(id.data());
  EXPECT_TRUE(served.ok()) << served.error().message;
  return id;
}

// Tells one process from another what step it has reached.
struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void tell() const { EXPECT_EQ(write(ends[1], "x", 1), 1); }
  void await() const {
    char byte;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
  }

  int ends[2];
};

// A process that serves one id until it is ended.
class Server {
 public:
  Server() : process_([this] { return serve(); }) {
    EXPECT_EQ(read(handover_.ends[0], id_.data(), id_.size()), ssize_t{kUniqueIdBytes});
  }

  const UniqueId& id() const { return id_; }
  void kill() {
    process_.signal(SIGKILL);
    EXPECT_EQ(process_.wait(), 128 + SIGKILL);
  }

 private:
  int serve() const {
    UniqueId made = servedId();
    if (write(handover_.ends[1], made.data(), made.size()) != ssize_t{kUniqueIdBytes}) return 1;
    for (;;) pause();
  }

  Pipe handover_;
  UniqueId id_ = {};
  Child process_;
};

std::unique_ptr<Agreement> join(const UniqueId& id, int rank, int nRanks) {
  auto greeted = Agreement::greet(id.data(), makeHello(rank, nRanks), kTestSeconds);
  return greeted.ok() ? std::move(greeted.value()) : nullptr;
}

// Stands in for the real init: returns on no rank before all have entered it.
class RealInit {
 public:
  explicit RealInit(unsigned nRanks)
      : shared_(mmap(nullptr, sizeof(pthread_barrier_t), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(barrier(), &attributes, nRanks);
    pthread_barrierattr_destroy(&attributes);
  }
  ~RealInit() { munmap(shared_, sizeof(pthread_barrier_t)); }
  RealInit(const RealInit&) = delete;
  void enter() const { pthread_barrier_wait(barrier()); }

 private:
  pthread_barrier_t* barrier() const { return static_cast<pthread_barrier_t*>(shared_); }
  void* shared_;
};

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
    auto outcome = agreement->awaitVote(topic, kTestSeconds);
    if (!outcome.ok() || outcome.value() != yes) return 4;
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
  auto outcome = rank0->awaitVote(1, kTestSeconds);
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.error().message.find("agreement server at "), std::string::npos);
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
  for (uint64_t topic = 0; topic < 50; ++topic)
    EXPECT_FALSE(rank0->awaitVote(topic, kTestSeconds).value());
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
    return agreement->awaitVote(1, kTestSeconds).value() ? 0 : 3;
  });
  auto rank0 = join(id, 0, 2);
  ASSERT_TRUE(rank0);
  init.enter();
  slow.awaitStopped();
  EXPECT_TRUE(rank0->awaitVerdict(kTestSeconds).value().compress) << "all hellos suffice";
  ASSERT_TRUE(rank0->castVote(1, true).ok());
  std::thread waiter([&] {
    auto outcome = rank0->awaitVote(1, kTestSeconds);
    EXPECT_TRUE(outcome.ok() && outcome.value());
  });
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
  for (auto* rank : {&rank0, &rank1}) EXPECT_TRUE((*rank)->awaitVote(1, kTestSeconds).value());
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
  EXPECT_FALSE(rank0->awaitVote(1, kTestSeconds).value());
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
