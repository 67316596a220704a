// The way from the runtime to the driver, and what programs find there that cannot be.
#include <cuda.h>

#include "tests/unit/emulator/cudart/support.h"

namespace cinch::driver {
namespace {

struct Found {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointVersionNotSufficent;
};

Found find(const char* name) {
  Found found;
  EXPECT_CUDA_OK(cudaGetDriverEntryPointByVersion(name, &found.function, 12050, 0, &found.status));
  return found;
}

TEST(EntryPoint, isTheDriversFunction) {
  const Found found = find("cuInit");
  EXPECT_EQ(found.status, cudaDriverEntryPointSuccess);
  ASSERT_EQ(found.function, reinterpret_cast<void*>(cuInit));
}

TEST(EntryPoint, isTheNewestForm) {
  EXPECT_EQ(find("cuMemGetAddressRange").function, reinterpret_cast<void*>(cuMemGetAddressRange));
  EXPECT_EQ(find("cuCtxPushCurrent").function, reinterpret_cast<void*>(cuCtxPushCurrent));
}

TEST(EntryPoint, isMissingBelowASuccess) {
  for (const char* name : {"cuNoSuchFunction", "", "cudaMalloc", "malloc"}) {
    const Found found = find(name);
    EXPECT_EQ(found.function, nullptr) << name;
    EXPECT_EQ(found.status, cudaDriverEntryPointSymbolNotFound) << name;
  }
  void* function = &function;
  EXPECT_CUDA_OK(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &function, 12050, 0));
  EXPECT_EQ(function, nullptr);
}

TEST(EntryPoint, wrongQuestionsAreErrors) {
  void* function = nullptr;
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGetDriverEntryPointByVersion(nullptr, &function, 1, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGetDriverEntryPointByVersion("cuInit", nullptr, 1, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGetDriverEntryPointByVersion("cuInit", &function, 0, 0));
  cudaGetLastError();
}

// Those that PyTorch's allocator insists on, and one of each other kind.
TEST(EntryPoint, whatCannotBeIsANamedError) {
  for (const char* name :
       {"cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate", "cuMemRelease", "cuMemMap",
        "cuMemUnmap", "cuMemSetAccess", "cuMemGetAllocationGranularity", "cuModuleLoadData",
        "cuLaunchKernel", "cuLinkCreate", "cuMulticastCreate", "cuStreamWriteValue32",
        "cuGreenCtxCreate", "cuTensorMapEncodeTiled", "cuLogsRegisterCallback"}) {
    const Found found = find(name);
    ASSERT_NE(found.function, nullptr) << name;
    EXPECT_EQ(reinterpret_cast<CUresult (*)()>(found.function)(), CUDA_ERROR_NOT_SUPPORTED) << name;
  }
}

// NVRTC calls it without a look at the result of its search.
TEST(EntryPoint, thereIsNoExportTable) {
  const void* table = &table;
  const Found found = find("cuGetExportTable");
  ASSERT_NE(found.function, nullptr);
  const auto getTable = reinterpret_cast<CUresult (*)(const void**, const void*)>(found.function);
  EXPECT_EQ(getTable(&table, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(table, nullptr);
}

}  // namespace
}  // namespace cinch::driver
