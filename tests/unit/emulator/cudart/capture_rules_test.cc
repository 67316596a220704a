// What may not be called while a stream is captured, by whom, and what it does to the capture.

#include <barrier>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

constexpr cudaStreamCaptureMode kModes[] = {
    cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed};

// Sets this thread's mode for the length of a scope.
class ThreadMode {
 public:
  explicit ThreadMode(cudaStreamCaptureMode mode) : mode_(mode) { exchange(); }
  ~ThreadMode() { exchange(); }
  ThreadMode(const ThreadMode&) = delete;
  ThreadMode& operator=(const ThreadMode&) = delete;

 private:
  void exchange() { EXPECT_CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  cudaStreamCaptureMode mode_;
};

void noWork(void*) {}
void noCallback(cudaStream_t, cudaError_t, void*) {}

void endCapture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA_OK(cudaStreamEndCapture(stream, &graph));
  EXPECT_CUDA_OK(cudaGraphDestroy(graph));
}

struct NamedCall {
  const char* name;
  std::function<cudaError_t()> make;
};

class CaptureRules : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CUDA_OK(cudaMalloc(&device_, 16));
    ASSERT_CUDA_OK(cudaMallocHost(&pinned_, 16));
    ASSERT_CUDA_OK(cudaEventRecord(recorded_, other_));
    ASSERT_CUDA_OK(cudaEventSynchronize(recorded_));
  }
  void TearDown() override {
    EXPECT_CUDA_OK(cudaFree(device_));
    EXPECT_CUDA_OK(cudaFreeHost(pinned_));
    cudaGetLastError();
  }

  // Calls that captures do not see and that are refused because of that.
  std::vector<NamedCall> unsafeCalls() {
    return {
        {"cudaMalloc", [this] { return allocated(cudaMalloc(&fresh_, 16), cudaFree); }},
        {"cudaHostAlloc", [this] { return allocated(cudaMallocHost(&fresh_, 16), cudaFreeHost); }},
        {"cudaFree", [] { return cudaFree(nullptr); }},
        {"cudaFreeHost", [] { return cudaFreeHost(nullptr); }},
        {"cudaEventQuery", [this] { return cudaEventQuery(recorded_); }},
        {"cudaEventSynchronize", [this] { return cudaEventSynchronize(recorded_); }},
        {"cudaStreamQuery", [this] { return cudaStreamQuery(other_); }},
        {"cudaStreamSynchronize", [this] { return cudaStreamSynchronize(other_); }},
        {"cudaMemcpy", [this] { return cudaMemcpy(device_, pinned_, 16, cudaMemcpyHostToDevice); }},
        {"cudaMemset", [this] { return cudaMemset(device_, 0, 16); }},
    };
  }

  cudaError_t allocated(cudaError_t error, cudaError_t (*release)(void*)) {
    return error == cudaSuccess ? release(fresh_) : error;
  }

  // Makes each unsafe call in a capture of its own in `mode`: all are allowed, or all are refused
  // and break the capture. `call` runs its argument, on this thread or another.
  void expectUnsafeCalls(bool allowed, cudaStreamCaptureMode mode,
                         const std::function<void(std::function<void()>)>& run) {
    for (const NamedCall& call : unsafeCalls()) {
      SCOPED_TRACE(call.name);
      cudaError_t error = cudaErrorUnknown;
      ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, mode));
      run([&] { error = call.make(); });
      EXPECT_CUDA(allowed ? cudaSuccess : cudaErrorStreamCaptureUnsupported, error);
      EXPECT_EQ(captureStatus(stream_),
                allowed ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated);
      if (allowed) {
        endCapture(stream_);
      } else {
        expectFailedCapture(cudaErrorStreamCaptureInvalidated, stream_);
      }
    }
  }

  void *device_ = nullptr, *pinned_ = nullptr, *fresh_ = nullptr;
  TestStream stream_, other_;
  TestEvent recorded_;
};

TEST_F(CaptureRules, unsafeCallsOfTheCapturingThread) {
  for (const cudaStreamCaptureMode threadMode : kModes) {
    for (const cudaStreamCaptureMode mode : kModes) {
      SCOPED_TRACE("thread " + std::to_string(threadMode) + ", capture " + std::to_string(mode));
      const bool allowed =
          mode == cudaStreamCaptureModeRelaxed || threadMode == cudaStreamCaptureModeRelaxed;
      expectUnsafeCalls(allowed, mode, [&](const std::function<void()>& call) {
        const ThreadMode own(threadMode);
        call();
      });
    }
  }
}

TEST_F(CaptureRules, unsafeCallsOfAnotherThread) {
  for (const cudaStreamCaptureMode threadMode : kModes) {
    for (const cudaStreamCaptureMode mode : kModes) {
      SCOPED_TRACE("thread " + std::to_string(threadMode) + ", capture " + std::to_string(mode));
      const bool allowed =
          mode != cudaStreamCaptureModeGlobal || threadMode != cudaStreamCaptureModeGlobal;
      expectUnsafeCalls(allowed, mode, [&](const std::function<void()>& call) {
        std::thread([&] {
          const ThreadMode own(threadMode);
          call();
        }).join();
      });
    }
  }
}

// Of several captures, an unsafe call breaks those that stand against it.
TEST_F(CaptureRules, anUnsafeCallBreaksNoCaptureThatAllowsIt) {
  TestStream relaxed;
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  ASSERT_CUDA_OK(cudaStreamBeginCapture(relaxed, cudaStreamCaptureModeRelaxed));
  EXPECT_CUDA(cudaErrorStreamCaptureUnsupported, cudaMalloc(&fresh_, 16));
  endCapture(relaxed);
  expectFailedCapture(cudaErrorStreamCaptureInvalidated, stream_);
}

// The calls that need the captured stream itself to move on, whatever the modes.
TEST_F(CaptureRules, aCapturedStreamCannotBeWaitedFor) {
  const std::vector<NamedCall> calls = {
      {"cudaStreamSynchronize", [this] { return cudaStreamSynchronize(stream_); }},
      {"cudaStreamQuery", [this] { return cudaStreamQuery(stream_); }},
      {"cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); }},
      {"cudaDeviceReset", [] { return cudaDeviceReset(); }},
      {"cudaStreamAddCallback",
       [this] { return cudaStreamAddCallback(stream_, noCallback, nullptr, 0); }},
      {"cudaMallocAsync", [this] { return cudaMallocAsync(&fresh_, 16, stream_); }},
      {"cudaFreeAsync", [this] { return cudaFreeAsync(device_, stream_); }},
  };
  const ThreadMode relaxed(cudaStreamCaptureModeRelaxed);
  for (const cudaStreamCaptureMode mode : kModes) {
    for (const NamedCall& call : calls) {
      SCOPED_TRACE(call.name);
      ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, mode));
      EXPECT_CUDA(cudaErrorStreamCaptureUnsupported, call.make());
      EXPECT_EQ(captureStatus(stream_), cudaStreamCaptureStatusInvalidated);
      expectFailedCapture(cudaErrorStreamCaptureInvalidated, stream_);
    }
  }
}

TEST_F(CaptureRules, aCapturedEventCannotBeWaitedFor) {
  const std::vector<NamedCall> calls = {
      {"cudaEventSynchronize", [this] { return cudaEventSynchronize(recorded_); }},
      {"cudaEventQuery", [this] { return cudaEventQuery(recorded_); }},
  };
  const ThreadMode relaxed(cudaStreamCaptureModeRelaxed);
  for (const NamedCall& call : calls) {
    SCOPED_TRACE(call.name);
    ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
    EXPECT_CUDA_OK(cudaEventRecord(recorded_, stream_));
    EXPECT_CUDA(cudaErrorCapturedEvent, call.make());
    expectFailedCapture(cudaErrorStreamCaptureInvalidated, stream_);
  }
}

TEST_F(CaptureRules, aBrokenCaptureRefusesAllWork) {
  TestStream fork;
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
  order(stream_, fork, recorded_);
  EXPECT_CUDA(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(fork));
  const cudaError_t broken = cudaErrorStreamCaptureInvalidated;
  for (const cudaStream_t stream : {cudaStream_t(stream_), cudaStream_t(fork)}) {
    EXPECT_EQ(captureStatus(stream), cudaStreamCaptureStatusInvalidated);
    EXPECT_CUDA(broken, cudaLaunchHostFunc(stream, noWork, nullptr));
    EXPECT_CUDA(broken, cudaMemsetAsync(device_, 0, 16, stream));
    EXPECT_CUDA(broken, cudaMemcpyAsync(device_, pinned_, 16, cudaMemcpyDefault, stream));
    EXPECT_CUDA(broken, cudaEventRecord(recorded_, stream));
    EXPECT_CUDA(broken, cudaEventRecordWithFlags(recorded_, stream, cudaEventRecordExternal));
    EXPECT_CUDA(broken, cudaStreamWaitEvent(stream, recorded_));
    EXPECT_CUDA(broken, cudaStreamWaitEvent(stream, recorded_, cudaEventWaitExternal));
    EXPECT_CUDA(broken, cudaStreamSynchronize(stream));
  }
  EXPECT_CUDA(broken, cudaStreamWaitEvent(other_, recorded_));  // nor can a stream join it
  EXPECT_EQ(captureStatus(other_), cudaStreamCaptureStatusNone);
  expectFailedCapture(broken, stream_);
  EXPECT_CUDA_OK(cudaStreamSynchronize(fork));
}

// The null stream is ordered with blocking streams, which a capture cannot express.
TEST_F(CaptureRules, theNullStreamWhileABlockingStreamIsCaptured) {
  const std::vector<NamedCall> calls = {
      {"cudaLaunchHostFunc", [] { return cudaLaunchHostFunc(nullptr, noWork, nullptr); }},
      {"cudaMemsetAsync", [this] { return cudaMemsetAsync(device_, 0, 16, nullptr); }},
      {"cudaMemcpyAsync",
       [this] { return cudaMemcpyAsync(device_, pinned_, 16, cudaMemcpyDefault, nullptr); }},
      {"cudaMemcpy", [this] { return cudaMemcpy(device_, pinned_, 16, cudaMemcpyDefault); }},
      {"cudaMemset", [this] { return cudaMemset(device_, 0, 16); }},
      {"cudaEventRecord", [this] { return cudaEventRecord(recorded_, nullptr); }},
      {"cudaStreamWaitEvent", [this] { return cudaStreamWaitEvent(nullptr, recorded_); }},
      {"cudaStreamSynchronize", [] { return cudaStreamSynchronize(cudaStreamLegacy); }},
      {"cudaStreamQuery", [] { return cudaStreamQuery(nullptr); }},
      {"cudaStreamAddCallback", [] { return cudaStreamAddCallback(0, noCallback, nullptr, 0); }},
  };
  TestStream blocking(cudaStreamDefault);
  cudaStreamCaptureStatus status;
  for (const NamedCall& call : calls) {
    SCOPED_TRACE(call.name);
    ASSERT_CUDA_OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
    ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
    EXPECT_CUDA(cudaErrorStreamCaptureImplicit, cudaStreamIsCapturing(nullptr, &status));
    EXPECT_EQ(captureStatus(blocking), cudaStreamCaptureStatusActive);  // asking is harmless
    EXPECT_CUDA(cudaErrorStreamCaptureImplicit, call.make());
    endCapture(stream_);  // a non-blocking one does not mind
    expectFailedCapture(cudaErrorStreamCaptureInvalidated, blocking);
  }
}

TEST_F(CaptureRules, theNullStreamWhileANonBlockingStreamIsCaptured) {
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(captureStatus(nullptr), cudaStreamCaptureStatusNone);
  EXPECT_CUDA_OK(cudaMemsetAsync(device_, 0, 16, nullptr));
  EXPECT_CUDA_OK(cudaEventRecord(recorded_, nullptr));
  endCapture(stream_);
}

TEST_F(CaptureRules, theNullStreamCannotJoin) {
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  EXPECT_CUDA_OK(cudaEventRecord(recorded_, stream_));
  EXPECT_CUDA(cudaErrorStreamCaptureImplicit, cudaStreamWaitEvent(nullptr, recorded_));
  expectFailedCapture(cudaErrorStreamCaptureInvalidated, stream_);
}

TEST_F(CaptureRules, whatIsSafeIsAllowed) {
  cudaEvent_t event = nullptr;
  cudaStream_t fresh = nullptr;
  size_t nFree = 0, nTotal = 0;
  cudaPointerAttributes attributes;
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
  EXPECT_CUDA_OK(cudaEventCreate(&event));
  EXPECT_CUDA_OK(cudaEventDestroy(event));
  EXPECT_CUDA_OK(cudaStreamCreate(&fresh));
  EXPECT_CUDA_OK(cudaLaunchHostFunc(fresh, noWork, nullptr));
  EXPECT_CUDA_OK(cudaMemsetAsync(device_, 0, 16, fresh));
  EXPECT_CUDA_OK(cudaStreamDestroy(fresh));
  EXPECT_CUDA_OK(cudaMemGetInfo(&nFree, &nTotal));
  EXPECT_CUDA_OK(cudaPointerGetAttributes(&attributes, device_));
  endCapture(stream_);
}

TEST_F(CaptureRules, onlyTheThreadThatBeganMayEndUnlessRelaxed) {
  for (const cudaStreamCaptureMode mode : kModes) {
    SCOPED_TRACE(mode);
    const bool relaxed = mode == cudaStreamCaptureModeRelaxed;
    cudaGraph_t graph = nullptr;
    ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, mode));
    std::thread([&] {
      EXPECT_CUDA(relaxed ? cudaSuccess : cudaErrorStreamCaptureWrongThread,
                  cudaStreamEndCapture(stream_, &graph));
    }).join();
    EXPECT_EQ(graph != nullptr, relaxed);
    if (relaxed) {
      EXPECT_CUDA_OK(cudaGraphDestroy(graph));
    } else {
      endCapture(stream_);
    }
  }
}

TEST_F(CaptureRules, destroyingTheOriginEndsTheCapture) {
  cudaStream_t origin = nullptr;
  TestStream fork;
  ASSERT_CUDA_OK(cudaStreamCreate(&origin));
  ASSERT_CUDA_OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  order(origin, fork, recorded_);
  EXPECT_CUDA_OK(cudaStreamDestroy(origin));
  EXPECT_EQ(captureStatus(fork), cudaStreamCaptureStatusNone);
  EXPECT_CUDA_OK(cudaStreamSynchronize(fork));  // nothing forbids it any more
}

TEST_F(CaptureRules, destroyingAForkBreaksTheCapture) {
  cudaStream_t fork = nullptr;
  ASSERT_CUDA_OK(cudaStreamCreate(&fork));
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
  order(stream_, fork, recorded_);
  EXPECT_CUDA_OK(cudaStreamDestroy(fork));
  expectFailedCapture(cudaErrorStreamCaptureInvalidated, stream_);
}

TEST_F(CaptureRules, modeIsExchangedPerThread) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  std::thread([] {
    cudaStreamCaptureMode own = cudaStreamCaptureModeThreadLocal;
    EXPECT_CUDA_OK(cudaThreadExchangeStreamCaptureMode(&own));
    EXPECT_EQ(own, cudaStreamCaptureModeGlobal);
  }).join();
  ASSERT_CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
  mode = static_cast<cudaStreamCaptureMode>(3);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaThreadExchangeStreamCaptureMode(&mode));
}

// Threads capture, launch and allocate at once, each in thread-local mode and so undisturbed.
TEST_F(CaptureRules, threadsCaptureSideBySide) {
  constexpr int kThreads = 6, kRounds = 40;
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  std::vector<int> runs(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const ThreadMode own(cudaStreamCaptureModeThreadLocal);
      auto count = [&runs, t] { ++runs[t]; };
      TestStream stream(t % 2), fork(t % 2);
      TestEvent event;
      start.arrive_and_wait();
      for (int round = 0; round < kRounds; ++round) {
        const TestMemory<int> memory(4);
        const TestGraph graph(stream, [&] {
          launch(stream, count);
          order(stream, fork, event);
          launch(fork, count);
          order(fork, stream, event);
        });
        EXPECT_CUDA_OK(cudaGraphLaunch(graph, stream));
        EXPECT_CUDA_OK(cudaStreamSynchronize(stream));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs, std::vector<int>(kThreads, 2 * kRounds));
}

}  // namespace
}  // namespace cinch::cudart
