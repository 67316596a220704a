#include <atomic>
#include <barrier>
#include <chrono>
#include <latch>
#include <thread>
#include <vector>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

TEST(Stream, runsInOrder) {
  constexpr int kTasks = 10000;
  struct Step {
    std::vector<int>* seen;
    int number;
  };
  std::vector<int> seen;
  std::vector<Step> steps;
  for (int i = 0; i < kTasks; ++i) steps.push_back({&seen, i});
  TestStream stream;
  for (Step& step : steps) {
    ASSERT_CUDA_OK(cudaLaunchHostFunc(
        stream,
        [](void* data) {
          const Step* own = static_cast<Step*>(data);
          own->seen->push_back(own->number);
        },
        &step));
  }
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  ASSERT_EQ(seen.size(), size_t{kTasks});
  for (int i = 0; i < kTasks; ++i) ASSERT_EQ(seen[i], i);
}

TEST(Stream, streamsRunAtOnce) {
  std::latch both(2);
  auto meet = [&] { both.arrive_and_wait(); };
  TestStream one, two;
  launch(one, meet);
  launch(two, meet);  // hangs if one worker served both
  ASSERT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_TRUE(both.try_wait());
}

TEST(Stream, blockingStreamsRunAtOnceToo) {
  std::latch both(2);
  auto meet = [&] { both.arrive_and_wait(); };
  TestStream one(cudaStreamDefault), two(cudaStreamDefault);
  launch(one, meet);
  launch(two, meet);
  ASSERT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_TRUE(both.try_wait());
}

TEST(Stream, launchReturnsBeforeTheWorkIsDone) {
  Gate gate;
  TestStream stream;
  gate.block(stream);
  EXPECT_CUDA(cudaErrorNotReady, cudaStreamQuery(stream));
  EXPECT_CUDA(cudaErrorNotReady, cudaGetLastError());
  gate.open();
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_CUDA_OK(cudaStreamQuery(stream));
}

TEST(Stream, destroyLetsWorkFinish) {
  Gate gate;
  std::atomic<bool> ran{false};
  auto work = [&] { ran = true; };
  cudaStream_t stream = nullptr;
  ASSERT_CUDA_OK(cudaStreamCreate(&stream));
  gate.block(stream);
  launch(stream, work);
  ASSERT_CUDA_OK(cudaStreamDestroy(stream));
  EXPECT_FALSE(ran);
  gate.open();
  ASSERT_CUDA_OK(cudaDeviceSynchronize());  // knows of work in destroyed streams
  EXPECT_TRUE(ran);
}

// Of the worker that is gone nobody could learn that its writes are visible: the thread sanitizer
// found that once.
TEST(Stream, theDeviceKnowsTheWritesOfStreamsThatAreGone) {
  for (int round = 0; round < 20; ++round) {
    int written = 0;
    auto write = [&] { written = 1; };
    cudaStream_t stream = nullptr;
    ASSERT_CUDA_OK(cudaStreamCreate(&stream));
    launch(stream, write);
    ASSERT_CUDA_OK(cudaStreamDestroy(stream));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_CUDA_OK(cudaDeviceSynchronize());
    EXPECT_EQ(written, 1);
  }
}

TEST(Stream, aDeadHandleIsAnError) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA_OK(cudaStreamCreate(&stream));
  ASSERT_CUDA_OK(cudaStreamDestroy(stream));
  TestEvent event;
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaStreamDestroy(stream));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaStreamQuery(stream));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaEventRecord(event, stream));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaStreamWaitEvent(stream, event));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaLaunchHostFunc(
                                                  stream, [](void*) {}, nullptr));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaGetLastError());
}

TEST(Stream, badArguments) {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamCreate(nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 2));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaLaunchHostFunc(nullptr, nullptr, nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamAddCallback(nullptr, nullptr, nullptr, 0));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaStreamDestroy(nullptr));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaStreamDestroy(cudaStreamLegacy));
}

TEST(Stream, keepsWhatItWasCreatedWith) {
  cudaStream_t stream = nullptr;
  unsigned int flags = 9;
  int priority = 9;
  ASSERT_CUDA_OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -3));
  EXPECT_CUDA_OK(cudaStreamGetFlags(stream, &flags));
  EXPECT_CUDA_OK(cudaStreamGetPriority(stream, &priority));
  EXPECT_EQ(flags, unsigned{cudaStreamNonBlocking});
  EXPECT_EQ(priority, -3);
  EXPECT_CUDA_OK(cudaStreamGetFlags(nullptr, &flags));
  EXPECT_EQ(flags, unsigned{cudaStreamDefault});
  EXPECT_CUDA_OK(cudaStreamDestroy(stream));
}

TEST(Stream, callbackGetsItsArguments) {
  struct Seen {
    cudaStream_t stream = nullptr;
    cudaError_t status = cudaErrorUnknown;
  } seen;
  TestStream stream;
  const auto callback = [](cudaStream_t own, cudaError_t status, void* data) {
    *static_cast<Seen*>(data) = {own, status};
  };
  ASSERT_CUDA_OK(cudaStreamAddCallback(stream, callback, &seen, 0));
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(seen.stream, static_cast<cudaStream_t>(stream));
  EXPECT_CUDA_OK(seen.status);
}

TEST(Stream, hostFunctionsMayNotCallCuda) {
  cudaError_t inside = cudaSuccess;
  auto work = [&] { inside = cudaDeviceSynchronize(); };
  TestStream stream;
  launch(stream, work);
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaErrorNotPermitted, inside);
}

TEST(Stream, manyStreamsComeAndGo) {
  constexpr int kRounds = 50, kStreams = 20;
  std::atomic<int> ran{0};
  auto count = [&] { ++ran; };
  for (int round = 0; round < kRounds; ++round) {
    std::vector<cudaStream_t> streams(kStreams);
    for (cudaStream_t& stream : streams) {
      ASSERT_CUDA_OK(cudaStreamCreateWithFlags(&stream, round % 2));
      launch(stream, count);
    }
    for (cudaStream_t stream : streams) ASSERT_CUDA_OK(cudaStreamDestroy(stream));
  }
  ASSERT_CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(ran, kRounds * kStreams);
}

// Every thread's tasks run in its own order, and each exactly once.
TEST(Stream, threadsHammerOneStream) {
  constexpr int kThreads = 8, kTasks = 2000;
  struct Task {
    int* last;  // of this thread; only the stream's worker touches it
    int number;
    bool* inOrder;
  };
  TestStream stream;
  std::vector<int> last(kThreads, -1);
  bool inOrder = true;
  std::vector<std::vector<Task>> tasks(kThreads);
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kTasks; ++i) tasks[t].push_back({&last[t], i, &inOrder});
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (Task& task : tasks[t]) {
        EXPECT_CUDA_OK(cudaLaunchHostFunc(
            stream,
            [](void* data) {
              const Task* own = static_cast<Task*>(data);
              *own->inOrder &= own->number == *own->last + 1;
              *own->last = own->number;
            },
            &task));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_TRUE(inOrder);
  EXPECT_EQ(last, std::vector<int>(kThreads, kTasks - 1));
}

}  // namespace
}  // namespace cinch::cudart
