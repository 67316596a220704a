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

// Enqueues `function()`, which must live until it has run.
template <class Function>
void launch(cudaStream_t stream, Function& function) {
  EXPECT_CUDA_OK(cudaLaunchHostFunc(
      stream, [](void* self) { (*static_cast<Function*>(self))(); }, &function));
}

}  // namespace cinch::cudart
