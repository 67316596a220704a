// The CUDA codec on a device: every byte as the reference writes it, and what only a device can
// show (graph capture and replay). Skips, with the reason, where there is no device.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/gpu/cuda_codec.h"
#include "tests/unit/kernels/codec_differential.h"
#include "tests/unit/kernels/golden_vectors.h"

namespace cinch::test {
namespace {

constexpr Backend kBackend = Backend::cuda;
const std::span<const host::HostCodec> kCodec(&kCudaCodec, 1);

// CINCH_GPU_TEST_SHORT=1: a tenth of the cases, for runs under a memory checker.
uint32_t cases(uint32_t all) {
  return getenv("CINCH_GPU_TEST_SHORT") ? (all + 9) / 10 : all;
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
  expectGoldenVectors(kCudaCodec);
}

TEST_F(CudaCodec, SmallBucketsEqualTheReference) {
  for (uint32_t seed = 0; seed < cases(1000) && !HasFailure(); ++seed)
    expectLikeReference(kCodec, kBackend, {seed * 61 % 9000, 1 + seed % 9, seed});
}

TEST_F(CudaCodec, LargeBucketsEqualTheReference) {
  for (uint32_t seed = 0; seed < cases(36) && !HasFailure(); ++seed)
    expectLikeReference(kCodec, kBackend, {300000 + seed * 7777, 1 + seed % 4, seed});
}

// More blocks than the device holds threads for.
TEST_F(CudaCodec, VeryLargeBucketsEqualTheReference) {
  if (getenv("CINCH_GPU_TEST_SHORT")) GTEST_SKIP() << "left out of the short run";
  for (uint32_t seed = 0; seed < 4 && !HasFailure(); ++seed)
    expectLikeReference(kCodec, kBackend, {8000000 + seed * 12345, 2, seed});
}

TEST_F(CudaCodec, EmptyBucketsEndTheCall) {
  for (uint32_t seed = 0; seed < 9; ++seed)
    expectLikeReference(kCodec, kBackend, {0, 1 + seed % 4, seed});
}

TEST_F(CudaCodec, HostileBytesAreHandledAsByTheReference) {
  for (uint32_t seed = 0; seed < cases(500) && !HasFailure(); ++seed)
    expectHostileBytesLikeReference(kCodec, kBackend, {1 + seed * 997 % 4000, 1 + seed % 5, seed});
}

TEST_F(CudaCodec, AllReducesEqualTheReferenceOverManyCalls) {
  for (const wire::Codec codec : kCodecs)
    for (const ElementType type : kTypes)
      for (const uint32_t nRanks : {2u, 5u})
        expectAllReducesLikeReference(kCudaCodec,
                                      {.count = 50003,
                                       .nRanks = nRanks,
                                       .codec = codec,
                                       .type = type,
                                       .feedback = true,
                                       .factor = 1.0f / static_cast<float>(nRanks),
                                       .measure = true},
                                      cases(10));
}

TEST_F(CudaCodec, RefusesMisalignedEncodedBuffers) {
  const CallContext call{{1000, 1, wire::Codec::q4}, ElementType::fp32, 1, 2, nullptr, nullptr};
  uint8_t* const odd = reinterpret_cast<uint8_t*>(8);
  const EncodeLaunch encode{.call = call,
                            .input = nullptr,
                            .residual = nullptr,
                            .gain = 0,
                            .output = odd,
                            .skipShard = -1,
                            .measure = false};
  EXPECT_EQ(table_->encode(&encode, nullptr), cudaErrorMisalignedAddress);
  const DecodeLaunch decode{call, odd, nullptr};
  EXPECT_EQ(table_->decode(&decode, nullptr), cudaErrorMisalignedAddress);
}

// One rank's encode, reduce and decode, on a bucket of zeros.
class CapturedCall {
 public:
  explicit CapturedCall(const DeviceTable& table) : table_(table) {
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
    EXPECT_EQ(table_.reduce(&reduce, stream), 0);
    const DecodeLaunch decode{call(), coded(), output_};
    EXPECT_EQ(table_.decode(&decode, stream), 0);
  }

  // A reduce-scatter: encode, reduce into values.
  void enqueueReduceScatter(cudaStream_t stream) const {
    enqueueEncode(stream);
    ReduceLaunch reduce = reduceLaunch();
    reduce.values = output_;
    EXPECT_EQ(table_.reduce(&reduce, stream), 0);
  }

  SlotState state() const {
    SlotState state{};
    EXPECT_EQ(cudaMemcpy(&state, state_, sizeof state, cudaMemcpyDeviceToHost), cudaSuccess);
    return state;
  }
  uint32_t fault() const { return *fault_; }

 private:
  static constexpr uint64_t kCount = 100000;

  static wire::ShardLayout layout() { return {kCount, 1, wire::Codec::q4}; }
  CallContext call() const {
    return {layout(), ElementType::fp32, 1, 2, static_cast<SlotState*>(state_), fault_};
  }
  uint8_t* coded() const { return static_cast<uint8_t*>(coded_); }

  void enqueueEncode(cudaStream_t stream) const {
    const EncodeLaunch encode{.call = call(),
                              .input = input_,
                              .residual = nullptr,
                              .gain = 0,
                              .output = coded(),
                              .skipShard = -1,
                              .measure = false};
    EXPECT_EQ(table_.encode(&encode, stream), 0);
  }

  ReduceLaunch reduceLaunch() const {
    return {.call = call(),
            .shard = 0,
            .peers = coded(),
            .ownInput = input_,
            .ownResidual = nullptr,
            .residual = nullptr,
            .gain = 0,
            .factor = 1,
            .output = nullptr,
            .measure = false};
  }

  void allocate(void** memory, size_t nBytes) { EXPECT_EQ(table_.allocate(memory, nBytes), 0); }

  const DeviceTable& table_;
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
  const CapturedCall allReduce(*table_), reduceScatter(*table_);
  captureAndReplay(*table_, [&](cudaStream_t stream) { allReduce.enqueueAllReduce(stream); });
  captureAndReplay(*table_,
                   [&](cudaStream_t stream) { reduceScatter.enqueueReduceScatter(stream); });
  for (const CapturedCall* call : {&allReduce, &reduceScatter}) {
    EXPECT_EQ(call->state().ordinal, 6u);
    EXPECT_EQ(call->fault(), 0u);
  }
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

// Graphs and streams order each other through external events, and fresh memory is cleared while
// another stream captures.
TEST_F(CudaCodec, ExternalEventsAndClearingWorkInACapture) {
  void *memory = nullptr, *event = nullptr;
  uint32_t word = 0;
  int mode = cudaStreamCaptureModeRelaxed;
  ASSERT_EQ(table_->allocate(&memory, sizeof word), 0);
  ASSERT_EQ(table_->eventCreate(&event), 0);
  ASSERT_EQ(cudaMemset(memory, 0xff, sizeof word), cudaSuccess);
  ASSERT_EQ(table_->eventRecord(event, nullptr), 0);
  captureAndReplay(*table_, [&](cudaStream_t stream) {
    EXPECT_EQ(table_->exchangeCaptureMode(&mode), 0);
    EXPECT_EQ(table_->clearNow(memory, sizeof word), 0);
    EXPECT_EQ(table_->exchangeCaptureMode(&mode), 0);
    EXPECT_EQ(table_->streamWaitEventInGraph(stream, event), 0);
    EXPECT_EQ(table_->eventRecordInGraph(event, stream), 0);
  });
  EXPECT_EQ(table_->eventQuery(event), 0);
  word = 1;
  ASSERT_EQ(cudaMemcpy(&word, memory, sizeof word, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(word, 0u);
  EXPECT_EQ(table_->eventDestroy(event), 0);
  EXPECT_EQ(table_->release(memory), 0);
}

}  // namespace
}  // namespace cinch::test
