// Several devices: CINCH_EMULATOR_DEVICES is 3 here.
#include "emulator/cudart/device.h"

#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::cudart {
namespace {

constexpr int kDevices = 3;

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_CUDA_OK(cudaSetDevice(0)); }
  void TearDown() override {
    EXPECT_CUDA_OK(cudaSetDevice(0));
    cudaGetLastError();
  }
};

int current() {
  int device = -1;
  EXPECT_CUDA_OK(cudaGetDevice(&device));
  return device;
}

int deviceOfPointer(const void* pointer) {
  cudaPointerAttributes attributes;
  EXPECT_CUDA_OK(cudaPointerGetAttributes(&attributes, pointer));
  return attributes.device;
}

int deviceOfStream(cudaStream_t stream) {
  int device = -1;
  EXPECT_CUDA_OK(cudaStreamGetDevice(stream, &device));
  return device;
}

TEST_F(DeviceTest, areAsManyAsTheSettingSays) {
  int count = 0;
  EXPECT_CUDA_OK(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, kDevices);
  EXPECT_CUDA_OK(cudaSetDevice(kDevices - 1));
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaSetDevice(kDevices));
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaSetDevice(-1));
  EXPECT_EQ(current(), kDevices - 1) << "a refused device was chosen";
}

TEST_F(DeviceTest, theChoiceIsTheThreads) {
  ASSERT_CUDA_OK(cudaSetDevice(2));
  std::thread([] {
    EXPECT_EQ(current(), 0) << "a new thread begins with the first device";
    EXPECT_CUDA_OK(cudaSetDevice(1));
    EXPECT_EQ(current(), 1);
  }).join();
  EXPECT_EQ(current(), 2);
}

TEST_F(DeviceTest, eachHasItsOwnNames) {
  std::set<std::string> uuids, places;
  for (int device = 0; device < kDevices; ++device) {
    cudaDeviceProp properties;
    char place[32] = "";
    int bus = -1;
    ASSERT_CUDA_OK(cudaGetDeviceProperties(&properties, device));
    ASSERT_CUDA_OK(cudaDeviceGetPCIBusId(place, sizeof place, device));
    ASSERT_CUDA_OK(cudaDeviceGetAttribute(&bus, cudaDevAttrPciBusId, device));
    EXPECT_EQ(bus, properties.pciBusID);
    uuids.emplace(properties.uuid.bytes, sizeof properties.uuid.bytes);
    places.insert(place);
  }
  EXPECT_EQ(uuids.size(), size_t{kDevices});
  EXPECT_EQ(places.size(), size_t{kDevices});
}

TEST_F(DeviceTest, memoryRemembersWhereItWasAllocated) {
  void *device = nullptr, *pinned = nullptr, *managed = nullptr;
  ASSERT_CUDA_OK(cudaSetDevice(2));
  ASSERT_CUDA_OK(cudaMalloc(&device, 10));
  ASSERT_CUDA_OK(cudaMallocHost(&pinned, 10));
  ASSERT_CUDA_OK(cudaMallocManaged(&managed, 10));
  ASSERT_CUDA_OK(cudaSetDevice(1));
  for (const void* memory : {device, pinned, managed}) EXPECT_EQ(deviceOfPointer(memory), 2);
  EXPECT_EQ(deviceOfPointer(&device), cudaInvalidDeviceId);
  EXPECT_CUDA_OK(cudaFree(device));  // from another device
  EXPECT_CUDA_OK(cudaFree(managed));
  EXPECT_CUDA_OK(cudaFreeHost(pinned));
}

TEST_F(DeviceTest, streamsRememberWhereTheyWereCreated) {
  ASSERT_CUDA_OK(cudaSetDevice(1));
  TestStream stream;
  ASSERT_CUDA_OK(cudaSetDevice(2));
  EXPECT_EQ(deviceOfStream(stream), 1);
  for (cudaStream_t none : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread})
    EXPECT_EQ(deviceOfStream(none), 2) << "the null streams are those of the current device";
  void* memory = nullptr;
  ASSERT_CUDA_OK(cudaMallocAsync(&memory, 10, stream));
  EXPECT_EQ(deviceOfPointer(memory), 1);
  EXPECT_CUDA_OK(cudaFreeAsync(memory, stream));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamGetDevice(stream, nullptr));
}

TEST_F(DeviceTest, peersAreAskedForOnce) {
  int can = -1;
  ASSERT_CUDA_OK(cudaDeviceReset());  // which forgets what other tests asked for
  EXPECT_CUDA_OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  EXPECT_CUDA_OK(cudaDeviceCanAccessPeer(&can, 1, 1));
  EXPECT_EQ(can, 0) << "a device is not its own peer";
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&can, 0, kDevices));
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&can, -1, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaDeviceCanAccessPeer(nullptr, 0, 1));

  EXPECT_CUDA_OK(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_CUDA(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_CUDA_OK(cudaDeviceEnablePeerAccess(2, 0));
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(0, 0));
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(kDevices, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaDeviceEnablePeerAccess(2, 1));
  ASSERT_CUDA_OK(cudaSetDevice(1));
  EXPECT_CUDA_OK(cudaDeviceEnablePeerAccess(0, 0));  // the other direction is another matter
}

TEST_F(DeviceTest, copiesBetweenDevices) {
  int *from = nullptr, *to = nullptr;
  ASSERT_CUDA_OK(cudaMalloc(&from, sizeof *from));
  ASSERT_CUDA_OK(cudaSetDevice(1));
  ASSERT_CUDA_OK(cudaMalloc(&to, sizeof *to));
  *from = 7;
  EXPECT_CUDA_OK(cudaMemcpyPeerAsync(to, 1, from, 0, sizeof *to));
  EXPECT_CUDA_OK(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(*to, 7);
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaMemcpyPeerAsync(to, kDevices, from, 0, sizeof *to));
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaMemcpyPeerAsync(to, 1, from, -1, sizeof *to));
  int onStack = 0;
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpyPeerAsync(to, 1, &onStack, 0, sizeof *to));
  EXPECT_CUDA_OK(cudaFree(from));
  EXPECT_CUDA_OK(cudaFree(to));
}

TEST_F(DeviceTest, copyBetweenDevicesIsCaptured) {
  TestStream stream;
  TestMemory<int> from(1), to(1);
  *from = 5;
  *to = 0;
  TestGraph graph(
      stream, [&] { EXPECT_CUDA_OK(cudaMemcpyPeerAsync(to, 1, from, 0, sizeof(int), stream)); });
  EXPECT_EQ(*to, 0) << "it ran while it was captured";
  EXPECT_CUDA_OK(cudaGraphLaunch(graph, stream));
  EXPECT_CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(*to, 5);
}

TEST_F(DeviceTest, eachHasItsOwnPool) {
  cudaMemPool_t first = nullptr, second = nullptr;
  uint64_t threshold = 77;
  ASSERT_CUDA_OK(cudaDeviceGetDefaultMemPool(&first, 0));
  ASSERT_CUDA_OK(cudaDeviceGetDefaultMemPool(&second, 1));
  EXPECT_NE(first, second);
  EXPECT_CUDA_OK(cudaMemPoolSetAttribute(first, cudaMemPoolAttrReleaseThreshold, &threshold));
  EXPECT_CUDA_OK(cudaMemPoolGetAttribute(second, cudaMemPoolAttrReleaseThreshold, &threshold));
  EXPECT_EQ(threshold, 0u);
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaDeviceGetDefaultMemPool(&first, kDevices));
  threshold = 0;
  EXPECT_CUDA_OK(cudaMemPoolSetAttribute(first, cudaMemPoolAttrReleaseThreshold, &threshold));
}

TEST_F(DeviceTest, poolsAreOpenedToPeers) {
  cudaMemPool_t pool = nullptr;
  ASSERT_CUDA_OK(cudaDeviceGetDefaultMemPool(&pool, 1));
  cudaMemAccessDesc access[2] = {{{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite},
                                 {{cudaMemLocationTypeDevice, 2}, cudaMemAccessFlagsProtNone}};
  EXPECT_CUDA_OK(cudaMemPoolSetAccess(pool, access, 2));
  EXPECT_CUDA_OK(cudaMemPoolSetAccess(pool, nullptr, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemPoolSetAccess(pool, nullptr, 1));
  access[1].location.id = 1;
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemPoolSetAccess(pool, access, 2))
      << "taken from its own device";
  access[1].location.id = kDevices;
  EXPECT_CUDA(cudaErrorInvalidDevice, cudaMemPoolSetAccess(pool, access, 2));
  access[0].location.type = cudaMemLocationTypeInvalid;
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemPoolSetAccess(pool, access, 1));
}

TEST_F(DeviceTest, resetForgetsWhatPeersMay) {
  ASSERT_CUDA_OK(cudaDeviceReset());
  EXPECT_CUDA_OK(cudaDeviceEnablePeerAccess(1, 0));
  ASSERT_CUDA_OK(cudaDeviceReset());
  EXPECT_CUDA_OK(cudaDeviceEnablePeerAccess(1, 0));
}

}  // namespace
}  // namespace cinch::cudart
