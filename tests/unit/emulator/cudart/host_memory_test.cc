// Memory of the program's own that it registers, and managed memory.
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

class HostMemoryTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 8192;

  void TearDown() override { cudaGetLastError(); }

  static cudaPointerAttributes attributes(const void* pointer) {
    cudaPointerAttributes seen;
    EXPECT_CUDA_OK(cudaPointerGetAttributes(&seen, pointer));
    return seen;
  }

  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kBytes);
  uint8_t* const own_ = memory_.data();
};

TEST_F(HostMemoryTest, registeredMemoryIsPinned) {
  ASSERT_CUDA_OK(cudaHostRegister(own_, kBytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
  const cudaPointerAttributes seen = attributes(own_ + kBytes - 1);
  EXPECT_EQ(seen.type, cudaMemoryTypeHost);
  EXPECT_EQ(seen.devicePointer, own_ + kBytes - 1);
  EXPECT_EQ(seen.hostPointer, own_ + kBytes - 1);
  EXPECT_EQ(attributes(own_ + kBytes).type, cudaMemoryTypeUnregistered);
  uint8_t* mapped = nullptr;
  EXPECT_CUDA_OK(cudaHostGetDevicePointer(&mapped, own_, 0));
  EXPECT_EQ(mapped, own_);
  EXPECT_CUDA_OK(cudaMemset(own_, 9, kBytes));  // the device can reach it
  EXPECT_CUDA_OK(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(own_[kBytes - 1], 9);
  ASSERT_CUDA_OK(cudaHostUnregister(own_));
  EXPECT_EQ(attributes(own_).type, cudaMemoryTypeUnregistered);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemset(own_, 0, 1));
  EXPECT_EQ(own_[0], 9) << "the program's memory was freed";
}

TEST_F(HostMemoryTest, registeringTwiceIsAnError) {
  ASSERT_CUDA_OK(cudaHostRegister(own_ + 1000, 1000, 0));
  for (const size_t begin : {size_t{1000}, size_t{1999}, size_t{1}, size_t{500}})
    EXPECT_CUDA(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own_ + begin, 1000, 0));
  EXPECT_CUDA(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own_, kBytes, 0));
  EXPECT_CUDA_OK(cudaHostRegister(own_, 1000, 0));  // up to it, and from its end on
  EXPECT_CUDA_OK(cudaHostRegister(own_ + 2000, 1000, 0));
  for (const size_t begin : {size_t{0}, size_t{1000}, size_t{2000}})
    EXPECT_CUDA_OK(cudaHostUnregister(own_ + begin));
  EXPECT_CUDA_OK(cudaHostRegister(own_, kBytes, 0));
  EXPECT_CUDA_OK(cudaHostUnregister(own_));
}

TEST_F(HostMemoryTest, whatIsNotRegisteredCannotBeUnregistered) {
  void* pinned = nullptr;
  ASSERT_CUDA_OK(cudaMallocHost(&pinned, 16));
  ASSERT_CUDA_OK(cudaHostRegister(own_, kBytes, 0));
  EXPECT_CUDA(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own_ + 1));
  EXPECT_CUDA(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(pinned));
  EXPECT_CUDA(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(&pinned));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaHostUnregister(nullptr));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFreeHost(own_));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFree(own_));
  EXPECT_CUDA_OK(cudaHostUnregister(own_));
  EXPECT_CUDA(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own_));
  EXPECT_CUDA_OK(cudaFreeHost(pinned));
}

TEST_F(HostMemoryTest, onlyMemoryOfTheProgramCanBeRegistered) {
  TestMemory<char> device(16);
  void* pinned = nullptr;
  ASSERT_CUDA_OK(cudaMallocHost(&pinned, 16));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaHostRegister(device, 16, 0));
  EXPECT_CUDA(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(pinned, 16, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaHostRegister(nullptr, 16, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaHostRegister(own_, 0, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaHostRegister(own_, SIZE_MAX, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaHostRegister(own_, 16, 0x10));
  EXPECT_CUDA(cudaErrorNotSupported, cudaHostRegister(own_, 16, cudaHostRegisterIoMemory));
  EXPECT_CUDA(cudaErrorNotSupported, cudaHostRegister(own_, 16, cudaHostRegisterReadOnly));
  EXPECT_CUDA_OK(cudaFreeHost(pinned));
}

TEST_F(HostMemoryTest, copyPastTheEndOfRegisteredMemoryIsAnError) {
  TestMemory<uint8_t> device(kBytes);
  ASSERT_CUDA_OK(cudaHostRegister(own_, 100, 0));
  EXPECT_CUDA_OK(cudaMemcpy(device, own_, 100, cudaMemcpyHostToDevice));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpy(device, own_, 101, cudaMemcpyHostToDevice));
  EXPECT_CUDA_OK(cudaHostUnregister(own_));
}

TEST_F(HostMemoryTest, registrationIsRefusedWhileACaptureForbidsIt) {
  TestStream stream;
  ASSERT_CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_CUDA(cudaErrorStreamCaptureUnsupported, cudaHostRegister(own_, kBytes, 0));
  expectFailedCapture(cudaErrorStreamCaptureInvalidated, stream);
  EXPECT_CUDA_OK(cudaHostRegister(own_, kBytes, 0));
  EXPECT_CUDA_OK(cudaHostUnregister(own_));
}

TEST_F(HostMemoryTest, resetForgetsRegistrations) {
  ASSERT_CUDA_OK(cudaHostRegister(own_, kBytes, 0));
  ASSERT_CUDA_OK(cudaDeviceReset());
  own_[0] = 1;  // still the program's
  EXPECT_CUDA(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own_));
}

// What the program freed without unregistering it may be handed out by the emulator itself.
TEST_F(HostMemoryTest, staleRegistrationsDoNoHarm) {
  for (int i = 0; i < 100; ++i) {
    void* const memory = ::operator new(1 << 20);
    cudaHostRegister(memory, 1 << 20, 0);  // may be known from the last time
    ::operator delete(memory);
    void* device = nullptr;
    ASSERT_CUDA_OK(cudaMalloc(&device, 1 << 19));
    EXPECT_EQ(attributes(device).type, cudaMemoryTypeDevice);
    ASSERT_CUDA_OK(cudaMemset(device, 1, 1 << 19));
    ASSERT_CUDA_OK(cudaFree(device));
  }
  ASSERT_CUDA_OK(cudaDeviceReset());
}

TEST_F(HostMemoryTest, threadsRegisterTheirOwn) {
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_CUDA_OK(cudaHostRegister(own_ + t * 1000, 1000, 0));
        EXPECT_CUDA_OK(cudaHostUnregister(own_ + t * 1000));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(HostMemoryTest, managedMemoryIsOfBothSides) {
  uint8_t* managed = nullptr;
  size_t before = 0, during = 0, total = 0;
  ASSERT_CUDA_OK(cudaMemGetInfo(&before, &total));
  ASSERT_CUDA_OK(cudaMallocManaged(reinterpret_cast<void**>(&managed), kBytes));
  ASSERT_CUDA_OK(cudaMemGetInfo(&during, &total));
  EXPECT_EQ(before - during, size_t{kBytes});
  managed[0] = 3;
  const cudaPointerAttributes seen = attributes(managed);
  EXPECT_EQ(seen.type, cudaMemoryTypeManaged);
  EXPECT_EQ(seen.devicePointer, managed);
  EXPECT_EQ(seen.hostPointer, managed);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFreeHost(managed));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaHostRegister(managed, kBytes, 0));
  EXPECT_CUDA_OK(cudaFree(managed));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFree(managed));
  void* none = nullptr;
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMallocManaged(&none, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMallocManaged(&none, 1, 7));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMallocManaged(nullptr, 1));
}

}  // namespace
}  // namespace cinch::cudart
