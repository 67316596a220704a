// The fake is what other tests trust: that it exports NCCL's names, and records what it is given.
#include "tests/fake/nccl/fake_nccl.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" {
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nRanks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommCount(ncclComm_t comm, int* nRanks);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank);
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, CUstream_st* stream);
ncclResult_t pncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                       ncclComm_t comm, CUstream_st* stream);
}

namespace cinch {
namespace {

constexpr const char* kNames[] = {
#define FAKE_NCCL(Name, ...) #Name,
#include "tests/fake/nccl/functions.def"
#undef FAKE_NCCL
    "GetErrorString", "GetLastError", "ResetDebugInit", "ParamDumpAll"};

TEST(FakeNccl, ExportsEveryFunctionUnderBothNames) {
  EXPECT_EQ(std::size(kNames), 73u);  // NCCL 2.32 has so many
  for (const std::string name : kNames) {
    void* function = dlsym(RTLD_DEFAULT, ("nccl" + name).c_str());
    EXPECT_NE(function, nullptr) << name;
    EXPECT_EQ(function, dlsym(RTLD_DEFAULT, ("pnccl" + name).c_str())) << name;
  }
}

TEST(FakeNccl, CountsCallsByEitherNameAndKeepsTheirArguments) {
  const int64_t before = fakeNcclCalls("Send");
  int buffer = 0;
  CUstream_st* stream = reinterpret_cast<CUstream_st*>(0x5000);
  ncclComm_t comm = reinterpret_cast<ncclComm_t>(0x6000);
  EXPECT_EQ(ncclSend(&buffer, 11, ncclBfloat16, 3, comm, stream), ncclSuccess);
  EXPECT_EQ(pncclSend(&buffer, 12, ncclInt8, -1, comm, nullptr), ncclSuccess);
  EXPECT_EQ(fakeNcclCalls("Send"), before + 2);
  uint64_t args[8] = {};
  ASSERT_EQ(fakeNcclLastCall("Send", args, 8), 6);
  EXPECT_EQ(args[0], reinterpret_cast<uint64_t>(&buffer));
  EXPECT_EQ(args[1], 12u);
  EXPECT_EQ(args[2], static_cast<uint64_t>(ncclInt8));
  EXPECT_EQ(args[3], static_cast<uint64_t>(-1));
  EXPECT_EQ(args[4], 0x6000u);
  EXPECT_EQ(args[5], 0u);
}

TEST(FakeNccl, UnknownNamesAreSaidToBeUnknown) {
  uint64_t arg = 0;
  EXPECT_EQ(fakeNcclCalls("ncclSend"), -1);
  EXPECT_EQ(fakeNcclLastCall("Sendd", &arg, 1), -1);
  EXPECT_EQ(fakeNcclLastCall("CommRevoke", &arg, 1), -1);  // never called here
  EXPECT_FALSE(fakeNcclSetResult("", ncclSystemError));
}

TEST(FakeNccl, AnswersWhatItIsToldTo) {
  ASSERT_TRUE(fakeNcclSetResult("CommCount", ncclRemoteError));
  int nRanks = 17;
  EXPECT_EQ(ncclCommCount(nullptr, &nRanks), ncclRemoteError);
  EXPECT_EQ(nRanks, 17);
  ASSERT_TRUE(fakeNcclSetResult("CommCount", ncclSuccess));
}

TEST(FakeNccl, IdsDifferAndTheirTailIsLeftAlone) {
  ncclUniqueId first, second;
  memset(&first, 0x5a, sizeof first);
  memset(&second, 0x5a, sizeof second);
  ASSERT_EQ(ncclGetUniqueId(&first), ncclSuccess);
  ASSERT_EQ(ncclGetUniqueId(&second), ncclSuccess);
  EXPECT_NE(fakeNcclIdHash(&first), fakeNcclIdHash(&second));
  for (int i = 50; i < NCCL_UNIQUE_ID_BYTES; ++i) EXPECT_EQ(first.internal[i], 0x5a);
}

TEST(FakeNccl, InitWaitsForAllRanksWhereAskedTo) {
  constexpr int kRanks = 4;
  ncclUniqueId id{};
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  fakeNcclWaitForRanks(true);
  const int64_t before = fakeNcclCalls("CommInitRank");
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([=] {
      ncclComm_t comm = nullptr;
      int nRanks = 0, ownRank = -1;
      EXPECT_EQ(ncclCommInitRank(&comm, kRanks, id, rank), ncclSuccess);
      EXPECT_EQ(fakeNcclCalls("CommInitRank"), before + kRanks);  // all of them have entered
      EXPECT_EQ(ncclCommCount(comm, &nRanks), ncclSuccess);
      EXPECT_EQ(ncclCommUserRank(comm, &ownRank), ncclSuccess);
      EXPECT_EQ(nRanks, kRanks);
      EXPECT_EQ(ownRank, rank);
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  fakeNcclWaitForRanks(false);
}

}  // namespace
}  // namespace cinch
