// Processes that serve, greet and die. A test's own process stays quiet while it forks:
// AddressSanitizer's allocator, unlike glibc's, does not survive a fork while another thread is
// inside it. So the server is a process of its own; where the fork itself is tested, the server's
// thread is asleep by then.
#pragma once

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

// Returns when this process's one other thread, a server's, has nothing left to do.
inline void awaitOtherThreadAsleep() {
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

// A test whose body runs in a process of its own, where it may join: the thread that then receives
// stays until the process ends, and ThreadSanitizer takes a thread of a child for that of its
// parent where their stacks are at one address. The test's own process has no threads when it
// forks.
#define OWN_PROCESS_TEST(suite, name)               \
  static void suite##_##name();                     \
  TEST(suite, name) {                               \
    Child process([] {                              \
      suite##_##name();                             \
      return ::testing::Test::HasFailure() ? 1 : 0; \
    });                                             \
    EXPECT_EQ(process.wait(), 0);                   \
  }                                                 \
  static void suite##_##name()

inline UniqueId servedId() {
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

inline std::unique_ptr<Agreement> join(const UniqueId& id, int rank, int nRanks) {
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

}  // namespace cinch
