// The CUDA codec on a device: every byte as the reference writes it, and what only a device can
// show (graph capture and replay). Skips, with the reason, where there is no device.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/gpu/cuda_codec.h"
#include "tests/unit/kernels/codec_differential.h"
#include "tests/unit/kernels/golden_vectors.h"
#include "tests/unit/kernels/statistics_differential.h"

namespace cinch::test {
namespace {

constexpr Backend kBackend = Backend::cuda;
const host::HostCodec kBoth[] = {kCudaCodec, kCudaBatchCodec};

// How often random tests draw each codec. CINCH_GPU_TEST_ROUNDS sets it, to few for runs under a
// memory checker.
uint32_t rounds() {
  const char* const given = getenv("CINCH_GPU_TEST_ROUNDS");
  return given ? static_cast<uint32_t>(strtoul(given, nullptr, 10)) : 100;
}

// Seeds, of which those that follow one another take the codecs in turn.
uint32_t seedsForAll(uint32_t nRounds) {
  return nRounds * static_cast<uint32_t>(codec::kCodecs.size());
}

// Which part of the work is this process's: CINCH_GPU_TEST_SHARE=2/16 says so of the third of
// sixteen.
struct Share {
  uint32_t index = 0, count = 1;

  bool has(uint32_t number) const { return number % count == index; }

  static Share own() {
    Share share;
    const char* const given = getenv("CINCH_GPU_TEST_SHARE");
    if (given &&
        (sscanf(given, "%u/%u", &share.index, &share.count) != 2 || share.index >= share.count))
      ADD_FAILURE() << "CINCH_GPU_TEST_SHARE=" << given << " is no share";
    return share;
  }
};

// Runs check(seed) for this process's share of the seeds below `n`, up to the first that fails.
template <class Check>
void forEachSeed(uint32_t n, const Check& check) {
  const Share share = Share::own();
  for (uint32_t seed = 0; seed < n && !testing::Test::HasFailure(); ++seed)
    if (share.has(seed)) check(seed);
}

class CudaCodec : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    table_ = cudaTable(&reason);
    if (!table_) GTEST_SKIP() << reason;
  }

  const DeviceTable* table_ = nullptr;
};

TEST_F(CudaCodec, GoldenVectors) {
  if (!Share::own().has(0)) GTEST_SKIP() << "another process's";
  for (const host::HostCodec& codec : kBoth) expectGoldenVectors(codec);
}

// Every kernel: each codec and type, with each residual and without, measured and not.
TEST_F(CudaCodec, EveryCodecEqualsTheReference) {
  constexpr uint32_t kKinds = 5;
  forEachSeed(seedsForAll(3 * kKinds), [](uint32_t seed) {
    const codec::CodecInfo& codec = codec::kCodecs[seed / (3 * kKinds)];
    const ElementType type = kTypes[seed / kKinds % 3];
    const uint32_t kind = seed % kKinds;
    SCOPED_TRACE(std::string(codec.name) + ", " + nameOf(type) + ", " + std::to_string(kind));
    Collective settings = {.count = 5003,
                           .nRanks = 2,
                           .codec = codec.format,
                           .type = type,
                           .feedback = kind > 0,
                           .factor = 0.5f};
    settings.rule.residualType = kResidualTypes[kind % 3];
    settings.rule.measure = kind == 4;
    if (kind == 3 && codec.dithers) settings.rule.rounding = Rounding::stochastic;
    expectAllReducesLikeReference(kCudaCodec, settings, 2);
  });
}

TEST_F(CudaCodec, SmallBucketsEqualTheReference) {
  forEachSeed(seedsForAll(rounds()), [](uint32_t seed) {
    expectLikeReference(kBoth, kBackend, {seed * 61 % 9000, 1 + seed % 9, seed});
  });
}

TEST_F(CudaCodec, HostileBytesAreHandledAsByTheReference) {
  forEachSeed(seedsForAll((rounds() + 2) / 3), [](uint32_t seed) {
    expectHostileBytesLikeReference(kBoth, kBackend, {1 + seed * 997 % 4000, 1 + seed % 5, seed});
  });
}

TEST_F(CudaCodec, EmptyBucketsEndTheCall) {
  for (uint32_t seed = 0; seed < 9; ++seed)
    expectLikeReference(kBoth, kBackend, {0, 1 + seed % 4, seed});
}

TEST_F(CudaCodec, TalliesEqualTheHost) {
  forEachSeed(9 * rounds(),
              [](uint32_t seed) { expectTalliesLikeHost(kCudaCodec, seed * 997 % 20000, seed); });
}

TEST_F(CudaCodec, SumsEqualTheReference) {
  forEachSeed(9 * rounds(),
              [](uint32_t seed) { expectSumsLikeReference(kCudaCodec, seed * 997 % 20000, seed); });
}

TEST_F(CudaCodec, ProbesEqualTheHost) {
  forEachSeed(9 * rounds(), [](uint32_t seed) {
    expectProbesLikeHost(kCudaCodec, seed % 2 ? seed * 997 % 9000 : 65536 + seed * 1009, seed);
  });
}

class LargeBuckets : public CudaCodec {};

// Several tiles for each warp.
TEST_F(LargeBuckets, EqualTheReference) {
  forEachSeed(seedsForAll(1), [](uint32_t seed) {
    expectLikeReference(kBoth, kBackend, {300000 + seed * 777, 1 + seed % 4, seed});
  });
}

// Each by its own kernel.
TEST_F(LargeBuckets, DefaultsEqualTheReference) {
  forEachSeed(36, [](uint32_t seed) {
    expectLikeReference(kBoth, kBackend, {300000 + seed * 777, 1 + seed % 4, seed, true});
  });
}

// More tiles than the device holds warps for.
TEST_F(LargeBuckets, VeryLargeOnesEqualTheReference) {
  forEachSeed(3, [](uint32_t seed) {
    expectLikeReference(kBoth, kBackend, {5000000 + seed * 12345, 1, seed * 2});
  });
}

TEST_F(LargeBuckets, TalliesProbesAndSumsEqualTheHost) {
  forEachSeed(9, [](uint32_t seed) {
    expectSumsLikeReference(kCudaCodec, 3000000 + seed * 12345, seed);
    expectTalliesLikeHost(kCudaCodec, 5000000 + seed * 12345, seed);
    expectProbesLikeHost(kCudaCodec, 3000000 + seed * 12345, seed);
  });
}

TEST_F(LargeBuckets, CarryResidualsOverManyCalls) {
  constexpr const char* kNames[] = {"q4", "q3", "h2", "sign", "fp8"};
  forEachSeed(15, [&](uint32_t seed) {
    expectAllReducesLikeReference(kCudaCodec,
                                  {.count = 50003,
                                   .nRanks = 5,
                                   .codec = codec::findCodec(kNames[seed / 3])->format,
                                   .type = kTypes[seed % 3],
                                   .feedback = true,
                                   .factor = 0.2f},
                                  8);
  });
}

TEST_F(CudaCodec, RefusesMisalignedEncodedBuffers) {
  const CallContext call{
      {1000, 1, codec::formatOf("q4")}, ElementType::fp32, 1, 2, nullptr, nullptr};
  uint8_t* const odd = reinterpret_cast<uint8_t*>(8);
  const EncodeLaunch encode{.call = call, .input = nullptr, .residual = nullptr, .output = odd};
  EXPECT_EQ(table_->encode(&encode, 1, nullptr), cudaErrorMisalignedAddress);
  const DecodeLaunch decode{call, odd, nullptr};
  EXPECT_EQ(table_->decode(&decode, 1, nullptr), cudaErrorMisalignedAddress);
}

TEST_F(CudaCodec, RefusesUnknownCodecs) {
  const CallContext call{{1000, 1, {250, 4, 4}}, ElementType::fp32, 1, 2, nullptr, nullptr};
  const DecodeLaunch decode{call, nullptr, nullptr};
  EXPECT_EQ(table_->decode(&decode, 1, nullptr), cudaErrorInvalidValue);
}

// One rank's encode, reduce and decode, on a bucket of zeros.
class CapturedCall {
 public:
  CapturedCall(const DeviceTable& table, wire::CodecFormat codec) : table_(table), codec_(codec) {
    allocate(&input_, kCount * 4);
    allocate(&output_, kCount * 4);
    allocate(&coded_, layout().totalBytes());
    allocate(&state_, sizeof(SlotState));
    void* fault = nullptr;
    EXPECT_EQ(table_.allocateHost(&fault, 4), 0);
    fault_ = static_cast<uint32_t*>(fault);
    *fault_ = 0;
    SlotState start{};
    start.ordinal = 1;
    EXPECT_EQ(cudaMemcpy(state_, &start, sizeof start, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaMemset(input_, 0, kCount * 4), cudaSuccess);
    // A cleared buffer may still be dirty, and streams of their own do not wait for the default
    // one.
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  ~CapturedCall() {
    for (void* each : {input_, output_, coded_, state_}) table_.release(each);
    table_.releaseHost(fault_);
  }
  CapturedCall(const CapturedCall&) = delete;

  // An allreduce: encode, reduce into codes, decode.
  void enqueueAllReduce(cudaStream_t stream) const {
    enqueueEncode(stream);
    ReduceLaunch reduce = reduceLaunch();
    reduce.output = coded();
    EXPECT_EQ(table_.reduce(&reduce, 1, stream), 0);
    const DecodeLaunch decode{call(), coded(), output_};
    EXPECT_EQ(table_.decode(&decode, 1, stream), 0);
  }

  // A reduce-scatter: encode, reduce into values.
  void enqueueReduceScatter(cudaStream_t stream) const {
    enqueueEncode(stream);
    ReduceLaunch reduce = reduceLaunch();
    reduce.values = output_;
    EXPECT_EQ(table_.reduce(&reduce, 1, stream), 0);
  }

  SlotState state() const {
    SlotState state{};
    EXPECT_EQ(cudaMemcpy(&state, state_, sizeof state, cudaMemcpyDeviceToHost), cudaSuccess);
    return state;
  }
  uint32_t fault() const { return *fault_; }

 private:
  static constexpr uint64_t kCount = 100000;

  wire::ShardLayout layout() const { return {kCount, 1, codec_}; }
  CallContext call() const {
    return {layout(), ElementType::fp32, 1, 2, static_cast<SlotState*>(state_), fault_};
  }
  uint8_t* coded() const { return static_cast<uint8_t*>(coded_); }

  void enqueueEncode(cudaStream_t stream) const {
    const EncodeLaunch encode{
        .call = call(), .input = input_, .residual = nullptr, .output = coded()};
    EXPECT_EQ(table_.encode(&encode, 1, stream), 0);
  }

  ReduceLaunch reduceLaunch() const {
    return {.call = call(),
            .shard = 0,
            .peers = coded(),
            .ownInput = input_,
            .ownResidual = nullptr,
            .residual = nullptr,
            .factor = 1,
            .output = nullptr};
  }

  void allocate(void** memory, size_t nBytes) { EXPECT_EQ(table_.allocate(memory, nBytes), 0); }

  const DeviceTable& table_;
  wire::CodecFormat codec_;
  void *input_ = nullptr, *output_ = nullptr, *coded_ = nullptr, *state_ = nullptr;
  uint32_t* fault_ = nullptr;
};

// Captures what `enqueue` does, and runs it five times.
template <class Enqueue>
void captureAndReplay(const DeviceTable& table, const Enqueue& enqueue) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  enqueue(stream);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (int replay = 0; replay < 5; ++replay)
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  ASSERT_EQ(table.streamSynchronize(stream), 0);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

// The ordinal is counted on the device, so that every replay of a graph is a call of its own, and
// the capture is none.
TEST_F(CudaCodec, CapturesAndReplays) {
  for (const codec::CodecInfo& codec : codec::kCodecs) {
    SCOPED_TRACE(codec.name);
    const CapturedCall allReduce(*table_, codec.format), reduceScatter(*table_, codec.format);
    captureAndReplay(*table_, [&](cudaStream_t stream) { allReduce.enqueueAllReduce(stream); });
    captureAndReplay(*table_,
                     [&](cudaStream_t stream) { reduceScatter.enqueueReduceScatter(stream); });
    for (const CapturedCall* call : {&allReduce, &reduceScatter}) {
      EXPECT_EQ(call->state().ordinal, 6u);
      EXPECT_EQ(call->fault(), 0u);
    }
  }
}

// Nor do probes and tallies wait or allocate; each replay is a call to them too.
TEST_F(CudaCodec, CapturesAndReplaysProbesAndTallies) {
  struct Memory {
    SlotState state;
    ProbeState probe;
    TileTally tally;
    float values[1024], residual[1024];
  };
  void* raw = nullptr;
  ASSERT_EQ(table_->allocate(&raw, sizeof(Memory)), 0);
  auto* const memory = static_cast<Memory*>(raw);
  Memory host{};
  host.state.ordinal = 1;
  for (float& value : host.values) value = 2.0f;
  ASSERT_EQ(cudaMemcpy(memory, &host, sizeof host, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // streams of their own do not wait for a copy
  captureAndReplay(*table_, [&](cudaStream_t stream) {
    const ProbeLaunch probe{
        .call =
            {{1024, 1, codec::formatOf("q4")}, ElementType::fp32, 1, 2, &memory->state, nullptr},
        .input = memory->values,
        .residual = memory->residual,
        .probe = &memory->probe};
    EXPECT_EQ(table_->probe(&probe, stream), 0);
    const TallyLaunch tally{.values = memory->values,
                            .others = memory->residual,
                            .count = 1024,
                            .type = ElementType::fp32,
                            .tallies = &memory->tally};
    EXPECT_EQ(table_->tally(&tally, stream), 0);
  });
  ASSERT_EQ(cudaMemcpy(&host, memory, sizeof host, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(host.probe.nCalls, 5u);
  EXPECT_EQ(host.probe.levels[0], 12.0f);
  EXPECT_EQ(host.tally.power, 4096.0f);
  EXPECT_EQ(host.tally.error, 4096.0f);
  EXPECT_EQ(table_->release(raw), 0);
}

TEST_F(CudaCodec, CapturesHaveIds) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  uint64_t none = 1, first = 0, second = 0;
  ASSERT_EQ(table_->captureId(stream, &none), 0);
  EXPECT_EQ(none, 0u);
  for (uint64_t* id : {&first, &second}) {
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    ASSERT_EQ(table_->captureId(stream, id), 0);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    cudaGraphDestroy(graph);
  }
  EXPECT_NE(first, 0u);
  EXPECT_NE(second, 0u);
  EXPECT_NE(first, second);
  cudaStreamDestroy(stream);
}

// Graphs and streams order each other through external events, and memory is cleared and copied
// while another stream captures.
TEST_F(CudaCodec, ExternalEventsClearingAndCopyingWorkInACapture) {
  void *memory = nullptr, *event = nullptr;
  uint32_t word = 0, copied = 1;
  int mode = cudaStreamCaptureModeRelaxed;
  ASSERT_EQ(table_->allocate(&memory, sizeof word), 0);
  ASSERT_EQ(table_->eventCreate(&event), 0);
  ASSERT_EQ(cudaMemset(memory, 0xff, sizeof word), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // clearNow() waits for nothing of others
  ASSERT_EQ(table_->eventRecord(event, nullptr), 0);
  captureAndReplay(*table_, [&](cudaStream_t stream) {
    EXPECT_EQ(table_->exchangeCaptureMode(&mode), 0);
    EXPECT_EQ(table_->clearNow(memory, sizeof word), 0);
    EXPECT_EQ(table_->copyNow(&copied, memory, sizeof word), 0);
    EXPECT_EQ(table_->exchangeCaptureMode(&mode), 0);
    EXPECT_EQ(table_->streamWaitEventInGraph(stream, event), 0);
    EXPECT_EQ(table_->eventRecordInGraph(event, stream), 0);
  });
  EXPECT_EQ(table_->eventQuery(event), 0);
  word = 1;
  ASSERT_EQ(cudaMemcpy(&word, memory, sizeof word, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(word, 0u);
  EXPECT_EQ(copied, 0u);
  EXPECT_EQ(table_->eventDestroy(event), 0);
  EXPECT_EQ(table_->release(memory), 0);
}

}  // namespace
}  // namespace cinch::test
