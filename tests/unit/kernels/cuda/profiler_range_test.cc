// A profiler sees the ranges of the CUDA library: NVTX loads one that this test brings along.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/device_table.h"

namespace cinch::test {
namespace {

TEST(ProfilerRange, AppearsInTheDomainOfNccl) {
  ASSERT_EQ(setenv("NVTX_INJECTION64_PATH", CINCH_NVTX_INJECTION, 1), 0);
  void* const codec = dlopen(CINCH_CODEC_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(codec, nullptr) << dlerror();
  const auto* table = static_cast<const DeviceTable*>(dlsym(codec, kDeviceTableSymbol));
  ASSERT_NE(table, nullptr) << dlerror();

  table->rangePush("ncclAllReduce");
  table->rangePush("ncclReduceScatter");
  table->rangePop();
  table->rangePop();

  void* const profiler = dlopen(CINCH_NVTX_INJECTION, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(profiler, nullptr) << "NVTX did not load the profiler";
  const auto takeLog = reinterpret_cast<const char* (*)()>(dlsym(profiler, "takeNvtxLog"));
  ASSERT_NE(takeLog, nullptr);
  EXPECT_STREQ(takeLog(), "domain NCCL; push ncclAllReduce; push ncclReduceScatter; pop; pop; ");

  table->rangePush("ncclAllGather");
  table->rangePop();
  EXPECT_STREQ(takeLog(), "push ncclAllGather; pop; ") << "the domain is made once";
}

}  // namespace
}  // namespace cinch::test
