// What the tests of the CUDA runtime emulator share.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#define EXPECT_CUDA(expected, expression) \
  EXPECT_STREQ(cudaGetErrorName(expected), cudaGetErrorName(expression))
#define EXPECT_CUDA_OK(expression) EXPECT_CUDA(cudaSuccess, expression)
#define ASSERT_CUDA_OK(expression) \
  ASSERT_STREQ(cudaGetErrorName(cudaSuccess), cudaGetErrorName(expression))

namespace cinch::cudart {

// Holds up streams until it is opened, which a test must do before it ends.
class Gate {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

  // Later work of `stream` waits for open().
  void block(cudaStream_t stream) {
    EXPECT_CUDA_OK(cudaLaunchHostFunc(
        stream, [](void* self) { static_cast<Gate*>(self)->pass(); }, this));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// A stream for the length of a test. Its destructor waits for its work.
class TestStream {
 public:
  explicit TestStream(unsigned int flags = cudaStreamNonBlocking) {
    EXPECT_CUDA_OK(cudaStreamCreateWithFlags(&stream_, flags));
  }
  ~TestStream() {
    EXPECT_CUDA_OK(cudaStreamSynchronize(stream_));
    EXPECT_CUDA_OK(cudaStreamDestroy(stream_));
  }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// An event for the length of a test.
class TestEvent {
 public:
  explicit TestEvent(unsigned int flags = cudaEventDisableTiming) {
    EXPECT_CUDA_OK(cudaEventCreateWithFlags(&event_, flags));
  }
  ~TestEvent() { EXPECT_CUDA_OK(cudaEventDestroy(event_)); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// A graph that can be launched, for the length of a test: what `body` enqueued on `origin` and on
// the streams that it forked to.
class TestGraph {
 public:
  template <class Body>
  TestGraph(cudaStream_t origin, Body&& body) {
    cudaGraph_t graph = nullptr;
    EXPECT_CUDA_OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
    body();
    EXPECT_CUDA_OK(cudaStreamEndCapture(origin, &graph));
    EXPECT_CUDA_OK(cudaGraphInstantiate(&executable_, graph));
    EXPECT_CUDA_OK(cudaGraphDestroy(graph));
  }
  ~TestGraph() { EXPECT_CUDA_OK(cudaGraphExecDestroy(executable_)); }
  TestGraph(const TestGraph&) = delete;
  TestGraph& operator=(const TestGraph&) = delete;
  operator cudaGraphExec_t() const { return executable_; }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

// Device memory for the length of a test.
template <class T>
class TestMemory {
 public:
  explicit TestMemory(size_t count) { EXPECT_CUDA_OK(cudaMalloc(&memory_, count * sizeof(T))); }
  ~TestMemory() { EXPECT_CUDA_OK(cudaFree(memory_)); }
  TestMemory(const TestMemory&) = delete;
  TestMemory& operator=(const TestMemory&) = delete;
  operator T*() const { return memory_; }

 private:
  T* memory_ = nullptr;
};

// Makes `to` wait for all that `from` holds now, through `event`.
inline void order(cudaStream_t from, cudaStream_t to, cudaEvent_t event) {
  EXPECT_CUDA_OK(cudaEventRecord(event, from));
  EXPECT_CUDA_OK(cudaStreamWaitEvent(to, event));
}

inline cudaStreamCaptureStatus captureStatus(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  EXPECT_CUDA_OK(cudaStreamIsCapturing(stream, &status));
  return status;
}

// Ends a capture that must have failed, with `error`.
inline void expectFailedCapture(cudaError_t error, cudaStream_t origin) {
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(&graph);
  EXPECT_CUDA(error, cudaStreamEndCapture(origin, &graph));
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(captureStatus(origin), cudaStreamCaptureStatusNone);
  cudaGetLastError();
}

// Enqueues `function()`, which must live until it has run.
template <class Function>
void launch(cudaStream_t stream, Function& function) {
  EXPECT_CUDA_OK(cudaLaunchHostFunc(
      stream, [](void* self) { (*static_cast<Function*>(self))(); }, &function));
}

}  // namespace cinch::cudart
