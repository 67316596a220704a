// The host backend as the interposer meets it: loaded, bound to the runtime of the process, used
// through its table. Built twice, in a program that exports an emulated runtime and in one without.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/kernels/data_sets.h"
#include "tests/unit/kernels/virtual_ranks.h"
#if CINCH_FAKE_RUNTIME
#include "tests/unit/kernels/host/fake_runtime.h"
#endif

namespace cinch::test {
namespace {

const DeviceTable* loadTable() {
  void* library = dlopen(CINCH_CODEC_HOST_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return library ? static_cast<const DeviceTable*>(dlsym(library, kDeviceTableSymbol)) : nullptr;
}

TEST(DeviceTable, IsOfThisVersionAndComplete) {
  const DeviceTable* table = loadTable();
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->version, kDeviceTableVersion);
  EXPECT_EQ(table->size, sizeof(DeviceTable));
  constexpr size_t kFirstFunction = offsetof(DeviceTable, initialise);
  for (size_t at = kFirstFunction; at < sizeof(DeviceTable); at += sizeof(void*)) {
    void* function;
    std::memcpy(&function, reinterpret_cast<const char*>(table) + at, sizeof function);
    EXPECT_NE(function, nullptr) << "entry at offset " << at;
  }
}

#if CINCH_FAKE_RUNTIME

class BoundTableTest : public testing::Test {
 protected:
  void SetUp() override {
    table_ = loadTable();
    ASSERT_NE(table_, nullptr);
    ASSERT_EQ(table_->initialise(), 0);
    runtimeCalls().clear();
  }
  const DeviceTable* table_ = nullptr;
};

TEST_F(BoundTableTest, NamesTheCodec) {
  EXPECT_EQ(std::string(table_->name), std::string("host ") + host::fastestHostCodec().name);
  EXPECT_EQ(table_->initialise(), 0) << "again is harmless";
}

TEST_F(BoundTableTest, PassesErrorsOn) {
  EXPECT_EQ(table_->setDevice(3), 0);
  EXPECT_EQ(table_->setDevice(5), kFakeError);
  EXPECT_STREQ(table_->errorName(kFakeError), "cudaErrorFake");
  EXPECT_EQ(table_->eventQuery(nullptr), kNotReady);
}

TEST_F(BoundTableTest, OperationsReachTheRuntime) {
  int value = 0;
  char text[16];
  EXPECT_EQ(table_->getDevice(&value), 0);
  EXPECT_EQ(value, 3);
  EXPECT_EQ(table_->pciBusId(text, sizeof text), 0);
  EXPECT_STREQ(text, "0000:03:00.0");
  value = 2;
  EXPECT_EQ(table_->exchangeCaptureMode(&value), 0);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(table_->streamSynchronize(nullptr), 0);
  void* event;
  EXPECT_EQ(table_->eventCreate(&event), 0);
  EXPECT_EQ(table_->eventRecord(event, nullptr), 0);
  EXPECT_EQ(table_->streamWaitEvent(nullptr, event), 0);
  EXPECT_EQ(table_->eventRecordInGraph(event, kCapturingStream), 0);
  EXPECT_EQ(table_->streamWaitEventInGraph(kCapturingStream, event), 0);
  EXPECT_EQ(table_->eventDestroy(event), 0);
  EXPECT_EQ(table_->timedEventCreate(&event), 0);
  float milliseconds = 0;
  EXPECT_EQ(table_->eventElapsed(&milliseconds, event, event), 0);
  EXPECT_EQ(milliseconds, 1.5f);
  const std::vector<std::string> expected = {"cudaGetDevice",
                                             "cudaGetDevice",
                                             "cudaDeviceGetPCIBusId",
                                             "cudaThreadExchangeStreamCaptureMode",
                                             "cudaStreamSynchronize",
                                             "cudaEventCreateWithFlags, no timing",
                                             "cudaEventRecord",
                                             "cudaStreamWaitEvent",
                                             "cudaEventRecordWithFlags",
                                             "cudaStreamWaitEvent, external",
                                             "cudaEventDestroy",
                                             "cudaEventCreateWithFlags",
                                             "cudaEventElapsedTime"};
  EXPECT_EQ(runtimeCalls(), expected);
}

TEST_F(BoundTableTest, NamesTheDevice) {
  char text[64];
  EXPECT_EQ(table_->deviceName(text, sizeof text), 0);
  EXPECT_STREQ(text, "the emulated device (compute capability 9.0)");
}

// One of each kind of launch, and each launch asks for its own.
TEST_F(BoundTableTest, LoadsWhatLaunchesAskFor) {
  SmShare share{1, 1};
  EXPECT_EQ(table_->loadKernels(25, &share), 0);
  EXPECT_EQ(share.nThere, 0u);
  const std::set<const void*> kernels = loadedKernels();
  EXPECT_EQ(kernels.size(), 6u);
  const TallyLaunch nothing = {.values = nullptr,
                               .others = nullptr,
                               .count = 0,
                               .type = ElementType::fp32,
                               .tallies = nullptr};
  EXPECT_EQ(table_->tally(&nothing, nullptr), 0);
  EXPECT_EQ(loadedKernels(), kernels);
}

TEST_F(BoundTableTest, OnlyCapturesHaveIds) {
  uint64_t id = 1;
  EXPECT_EQ(table_->captureId(nullptr, &id), 0);
  EXPECT_EQ(id, 0u);
  EXPECT_EQ(table_->captureId(kCapturingStream, &id), 0);
  EXPECT_EQ(id, kFakeCapture);
  EXPECT_EQ(table_->captureId(kBrokenStream, &id), 0);
  EXPECT_NE(id, 0u);
  EXPECT_NE(id, kFakeCapture);
}

TEST_F(BoundTableTest, ClearsNowOnAStreamOfItsOwn) {
  char memory[] = "full";
  EXPECT_EQ(table_->clearNow(memory, sizeof memory), 0);
  EXPECT_EQ(std::string(memory, sizeof memory), std::string(sizeof memory, '\0'));
  const std::vector<std::string> expected = {"cudaStreamCreateWithFlags", "cudaMemsetAsync",
                                             "cudaStreamSynchronize", "cudaStreamDestroy"};
  EXPECT_EQ(runtimeCalls(), expected);
}

TEST_F(BoundTableTest, CopiesNowOnAStreamOfItsOwn) {
  const char from[] = "full";
  char to[sizeof from] = {};
  EXPECT_EQ(table_->copyNow(to, from, sizeof from), 0);
  EXPECT_STREQ(to, from);
  const std::vector<std::string> expected = {"cudaStreamCreateWithFlags", "cudaMemcpyAsync",
                                             "cudaStreamSynchronize", "cudaStreamDestroy"};
  EXPECT_EQ(runtimeCalls(), expected);
}

// There is no profiler to see them, and nothing to fail.
TEST_F(BoundTableTest, RangesAreQuiet) {
  table_->rangePush("ncclAllReduce");
  table_->rangePop();
  EXPECT_TRUE(runtimeCalls().empty());
}

TEST_F(BoundTableTest, APendingEventLeavesNoErrorBehind) {
  EXPECT_EQ(table_->eventQuery(nullptr), kNotReady);
  EXPECT_EQ(runtimeCalls(), std::vector<std::string>{"cudaGetLastError"});
}

TEST_F(BoundTableTest, MemoryIsUsable) {
  void *device, *pinned;
  ASSERT_EQ(table_->allocate(&device, 100), 0);
  ASSERT_EQ(table_->allocateHost(&pinned, 100), 0);
  std::memset(pinned, 7, 100);
  EXPECT_EQ(table_->copyAsync(device, pinned, 100, nullptr), 0);
  EXPECT_EQ(static_cast<char*>(device)[99], 7);
  EXPECT_EQ(table_->clearAsync(device, 100, nullptr), 0);
  EXPECT_EQ(static_cast<char*>(device)[99], 0);
  EXPECT_EQ(table_->release(device), 0);
  EXPECT_EQ(table_->releaseHost(pinned), 0);
}

// One rank's allreduce through the table equals the one of direct calls.
TEST_F(BoundTableTest, LaunchesRunTheCodec) {
  constexpr uint64_t kCount = 2500;
  VirtualRanks expected({.count = kCount, .nRanks = 1}, host::fastestHostCodec());
  expected.setInput(0, gaussian(kCount, 1));
  expected.run();

  VirtualRanks ranks({.count = kCount, .nRanks = 1}, host::fastestHostCodec());
  ranks.setInput(0, gaussian(kCount, 1));
  VirtualRank& rank = ranks[0];
  const CallContext call{ranks.layout(), ElementType::fp32, 0x1234, 5, &rank.state, &rank.fault};
  const EncodeLaunch encode{.call = call,
                            .input = rank.input.data(),
                            .residual = nullptr,
                            .output = rank.encoded.data(),
                            .skipShard = 0};
  const ReduceLaunch reduce{.call = call,
                            .shard = 0,
                            .peers = rank.received.data(),
                            .ownInput = rank.input.data(),
                            .ownResidual = nullptr,
                            .residual = nullptr,
                            .factor = 1.0f,
                            .output = rank.reduced.data()};
  const DecodeLaunch decode{call, rank.reduced.data(), rank.output.data()};
  EXPECT_EQ(table_->encode(&encode, 1, nullptr), 0);
  EXPECT_EQ(table_->reduce(&reduce, 1, nullptr), 0);
  EXPECT_EQ(table_->decode(&decode, 1, nullptr), 0);
  EXPECT_EQ(runtimeCalls(), std::vector<std::string>(3, "cudaLaunchHostFunc"));
  EXPECT_EQ(rank.output, expected[0].output);
  EXPECT_EQ(rank.state.ordinal, 2u);
}

TEST_F(BoundTableTest, ProbesTalliesAndSumsReachTheCodec) {
  const auto values = gaussian(2500, 1);
  SlotState state{};
  state.ordinal = 1;
  ProbeState probe{};
  const std::vector<float> residual(2500, 100.0f);
  uint32_t fault = 0;
  const ProbeLaunch probing{
      .call = {{2500, 1, codec::formatOf("q4")}, ElementType::fp32, 1, 2, &state, &fault},
      .input = values.data(),
      .residual = residual.data(),
      .probe = &probe};
  std::vector<TileTally> found(3);
  const TallyLaunch tallying{.values = values.data(),
                             .others = residual.data(),
                             .count = 2500,
                             .type = ElementType::fp32,
                             .tallies = found.data()};
  EXPECT_EQ(table_->probe(&probing, nullptr), 0);
  std::vector<float> sum(2500);
  const SumLaunch summing{.own = values.data(),
                          .others = residual.data(),
                          .strideBytes = 0,
                          .nParts = 2,
                          .ownPosition = 1,
                          .count = 2500,
                          .type = ElementType::fp32,
                          .sum = sum.data()};
  EXPECT_EQ(table_->tally(&tallying, nullptr), 0);
  EXPECT_EQ(table_->sum(&summing, nullptr), 0);
  EXPECT_EQ(runtimeCalls(), std::vector<std::string>(3, "cudaLaunchHostFunc"));
  EXPECT_EQ(sum[2499], 100.0f + values[2499]);
  EXPECT_EQ(probe.nCalls, 1u);
  EXPECT_EQ(probe.nOverflows, 1u);
  EXPECT_EQ(state.poisonOrdinal, 1u);
  EXPECT_EQ(found[0].otherPower, 1024 * 1e4f);
  EXPECT_GT(found[2].power, 0.0f);
}

#else

TEST(DeviceTable, WithoutAnEmulatedRuntimeItSaysSo) {
  const DeviceTable* table = loadTable();
  ASSERT_NE(table, nullptr);
  const int error = table->initialise();
  EXPECT_EQ(error, 302);
  EXPECT_STREQ(table->errorName(error), "cudaErrorSharedObjectSymbolNotFound");
  EXPECT_STREQ(table->name, "host");
}

#endif

}  // namespace
}  // namespace cinch::test
