// The functions of NCCL's newer releases, through the library.
#include <nccl.h>

#include <gtest/gtest.h>

#include <cstring>

namespace cinch::emulator {
namespace {

class NewerTest : public testing::Test {
 protected:
  void SetUp() override {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ASSERT_EQ(ncclCommInitRank(&comm_, 1, id, 0), ncclSuccess);
  }
  void TearDown() override { EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess); }

  ncclComm_t comm_ = nullptr;
};

TEST_F(NewerTest, communicatorsHaveNoDeviceMemory) {
  for (int stat = ncclStatGpuMemSuspend; stat <= ncclStatGpuMemTotal; ++stat) {
    uint64_t value = 99;
    EXPECT_EQ(ncclCommMemStats(comm_, static_cast<ncclCommMemStat_t>(stat), &value), ncclSuccess);
    EXPECT_EQ(value, 0u);
  }
  uint64_t value = 0;
  EXPECT_EQ(ncclCommMemStats(comm_, static_cast<ncclCommMemStat_t>(4), &value),
            ncclInvalidArgument);
  EXPECT_EQ(ncclCommMemStats(comm_, ncclStatGpuMemTotal, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommMemStats(nullptr, ncclStatGpuMemTotal, &value), ncclInvalidArgument);
}

TEST_F(NewerTest, windowsKnowTheirMemory) {
  char memory[64];
  void* found = nullptr;
  void* buffer = nullptr;
  ncclWindow_t window = nullptr;
  ASSERT_EQ(ncclCommWindowRegister(comm_, memory, sizeof memory, &window, NCCL_WIN_DEFAULT),
            ncclSuccess);
  ASSERT_EQ(ncclCommRegister(comm_, memory, sizeof memory, &buffer), ncclSuccess);
  EXPECT_EQ(ncclWinGetUserPtr(comm_, window, &found), ncclSuccess);
  EXPECT_EQ(found, memory);
  EXPECT_EQ(ncclWinGetUserPtr(comm_, reinterpret_cast<ncclWindow_t>(buffer), &found),
            ncclInvalidArgument)
      << "a buffer is no window";
  EXPECT_EQ(ncclWinGetUserPtr(comm_, window, nullptr), ncclInvalidArgument);
  ASSERT_EQ(ncclCommWindowDeregister(comm_, window), ncclSuccess);
  EXPECT_EQ(ncclWinGetUserPtr(comm_, window, &found), ncclInvalidArgument);
  EXPECT_EQ(ncclWinGetUserPtr(comm_, nullptr, &found), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDeregister(comm_, buffer), ncclSuccess);
}

TEST_F(NewerTest, theOthersSayWhatIsMissing) {
  ncclUniqueId id;
  ncclComm_t grown = nullptr;
  void* pointer = nullptr;
  for (const ncclResult_t result : {
           ncclCommSuspend(comm_, 1),
           ncclCommResume(comm_),
           ncclCommGetUniqueId(comm_, &id),
           ncclCommGrow(comm_, 2, &id, -1, &grown, nullptr),
           ncclPutSignal(&id, 1, ncclInt8, 0, nullptr, 0, 0, 0, 0, comm_, nullptr),
           ncclSignal(0, 0, 0, 0, comm_, nullptr),
           ncclWaitSignal(0, nullptr, comm_, nullptr),
           ncclDevCommCreate(comm_, nullptr, nullptr),
           ncclDevCommDestroy(comm_, nullptr),
           ncclGetLsaMultimemDevicePointer(nullptr, 0, &pointer),
           ncclGetPeerDevicePointer(nullptr, 0, 0, &pointer),
       })
    EXPECT_EQ(result, ncclInvalidUsage);
  EXPECT_NE(std::strstr(ncclGetLastError(comm_), "ncclGetPeerDevicePointer"), nullptr)
      << ncclGetLastError(comm_);
  EXPECT_EQ(grown, nullptr);
}

}  // namespace
}  // namespace cinch::emulator
