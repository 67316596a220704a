// How processes end, and what fork leaves behind. The test process itself never uses the runtime;
// each case runs in a child, which a timer kills if it hangs.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

constexpr unsigned kDeadlineSeconds = 60;

// Runs `body` in a child that exits as a program does, through exit(), and returns its wait status.
template <class Body>
int runChild(Body body) {
  std::fflush(nullptr);  // or the child would write what this process has buffered
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(kDeadlineSeconds);
    std::exit(body());
  }
  int status = -1;
  return waitpid(pid, &status, 0) == pid ? status : -1;
}

#define EXPECT_CHILD_EXITS(code, body)                       \
  do {                                                       \
    const int status_ = runChild(body);                      \
    EXPECT_TRUE(WIFEXITED(status_)) << "status " << status_; \
    EXPECT_EQ(WEXITSTATUS(status_), code);                   \
  } while (0)

void never(void*) {
  for (;;) pause();
}

cudaStream_t newStream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  return stream;
}

TEST(Process, exitsWithIdleStreams) {
  EXPECT_CHILD_EXITS(7, [] {
    for (int i = 0; i < 10; ++i)
      cudaLaunchHostFunc(
          newStream(), [](void*) {}, nullptr);
    cudaLaunchHostFunc(
        cudaStreamPerThread, [](void*) {}, nullptr);
    return cudaDeviceSynchronize() == cudaSuccess ? 7 : 1;
  });
}

TEST(Process, exitsWithWorkThatNeverEnds) {
  EXPECT_CHILD_EXITS(7, [] {
    const cudaStream_t stream = newStream();
    cudaEvent_t event = nullptr;
    cudaEventCreate(&event);
    cudaLaunchHostFunc(stream, never, nullptr);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(newStream(), event);
    cudaLaunchHostFunc(cudaStreamPerThread, never, nullptr);
    return cudaStreamQuery(stream) == cudaErrorNotReady ? 7 : 1;
  });
}

TEST(Process, exitsWhileWorkRuns) {
  EXPECT_CHILD_EXITS(7, [] {
    static std::atomic<int> ran{0};
    for (int i = 0; i < 4; ++i) {
      const cudaStream_t stream = newStream();
      for (int k = 0; k < 20000; ++k)
        cudaLaunchHostFunc(
            stream, [](void*) { ++ran; }, nullptr);
      cudaStreamDestroy(stream);
    }
    return 7;
  });
}

int useCuda() {
  void* memory = nullptr;
  return cudaMalloc(&memory, 16) == cudaSuccess && cudaFree(memory) == cudaSuccess ? 0 : 1;
}

TEST(Process, aChildOfAFreshProcessMayUseCuda) {
  EXPECT_CHILD_EXITS(0, useCuda);
}

TEST(Process, aChildOfAUserIsRefused) {
  EXPECT_CHILD_EXITS(7, [] {
    if (useCuda() != 0) return 1;
    const int status = runChild([] {
      int device = 0;
      void* memory = nullptr;
      const bool refused = cudaMalloc(&memory, 16) == cudaErrorInitializationError &&
                           cudaGetDevice(&device) == cudaErrorInitializationError &&
                           cudaStreamSynchronize(nullptr) == cudaErrorInitializationError &&
                           cudaGetLastError() == cudaErrorInitializationError;
      return refused ? 5 : 1;
    });
    const bool parentStillWorks = useCuda() == 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 5 && parentStillWorks ? 7 : 2;
  });
}

// Forks while other threads hold whatever locks there are; the children only exit.
TEST(Process, aChildThatDoesNotUseCudaExits) {
  EXPECT_CHILD_EXITS(7, [] {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        const cudaStream_t stream = newStream();
        while (!stop) {
          cudaLaunchHostFunc(
              stream, [](void*) {}, nullptr);
          cudaStreamDestroy(newStream());
        }
        cudaStreamSynchronize(stream);
      });
    }
    cudaLaunchHostFunc(
        cudaStreamPerThread, [](void*) {}, nullptr);
    int nGood = 0;
    for (int i = 0; i < 20; ++i) {
      const int status = runChild([] { return 5; });
      nGood += WIFEXITED(status) && WEXITSTATUS(status) == 5;
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    return nGood == 20 ? 7 : 1;
  });
}

}  // namespace
}  // namespace cinch::cudart
