// Throughput of the CPU codec, one core: every launch kind x codec x element type x compilation.
// bytes_per_second counts the values at fp32 size, whatever their type, so that rows compare;
// `memcpy` is the copy bandwidth of the same bucket.
//
//   codec_bench --benchmark_filter='encode/avx512/.*'
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/element/element_traits.h"
#include "kernels/host/host_codec.h"

namespace cinch {
namespace {

constexpr uint64_t kCount = 1 << 20;
constexpr uint32_t kRanks = 4;
constexpr float kGain = 0.1f;

// A bucket of Gaussian values and all that the launches of one rank need.
class Bucket {
 public:
  Bucket(wire::Codec codec, ElementType type)
      : call_{{kCount, kRanks, codec}, type, 7, 3, &state_, &fault_},
        input_(kCount),
        output_(kCount),
        residual_(kCount),
        encoded_(call_.layout.totalBytes()),
        reduced_(call_.layout.strideBytes()) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (uint64_t i = 0; i < kCount; ++i) store(i, normal(random));
    rewind();
  }

  EncodeLaunch encodeLaunch() {
    return {.call = call_,
            .input = input_.data(),
            .residual = residual_.data(),
            .gain = kGain,
            .output = encoded_.data(),
            .skipShard = -1,
            .measure = false};
  }

  // Rank 0 of kRanks; the peers' parts are shard 0 of this bucket, over and over.
  ReduceLaunch reduceLaunch() {
    for (uint32_t rank = 1; rank < kRanks; ++rank)
      std::memcpy(encoded_.data() + rank * call_.layout.strideBytes(), encoded_.data(),
                  call_.layout.strideBytes());
    return {.call = call_,
            .shard = 0,
            .peers = encoded_.data(),
            .ownInput = input_.data(),
            .ownResidual = residual_.data(),
            .residual = residual_.data() + kCount / 2,
            .gain = kGain,
            .factor = 1.0f,
            .output = reduced_.data(),
            .measure = false};
  }

  ReduceLaunch reduceIntoValuesLaunch() {
    ReduceLaunch launch = reduceLaunch();
    launch.ownResidual = launch.residual = nullptr;
    launch.output = nullptr;
    launch.values = output_.data();
    return launch;
  }

  DecodeLaunch decodeLaunch() { return {call_, encoded_.data(), output_.data()}; }

  uint64_t shardElems() const { return call_.layout.shardElems(0); }
  void rewind() { state_.ordinal = 1; }
  const void* input() const { return input_.data(); }
  void* output() { return output_.data(); }
  bool isClean() const { return fault_ == 0; }

 private:
  void store(uint64_t index, float value) {
    auto* halves = reinterpret_cast<uint16_t*>(input_.data());
    switch (call_.type) {
      case ElementType::fp32:
        input_[index] = value;
        break;
      case ElementType::fp16:
        halves[index] = ElementTraits<ElementType::fp16>::fromFloat(value);
        break;
      case ElementType::bf16:
        halves[index] = ElementTraits<ElementType::bf16>::fromFloat(value);
        break;
    }
  }

  SlotState state_{};
  uint32_t fault_ = 0;
  CallContext call_;
  std::vector<float> input_, output_, residual_;
  std::vector<uint8_t> encoded_, reduced_;
};

// Each row checks that it measured accepted shards, not the refusal of bad ones.
void finish(benchmark::State& state, const Bucket& bucket, uint64_t nValues) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * nValues * sizeof(float)));
  if (!bucket.isClean()) state.SkipWithError("a header was refused");
}

void encodeRow(benchmark::State& state, const host::HostCodec& host, wire::Codec codec,
               ElementType type) {
  Bucket bucket(codec, type);
  const EncodeLaunch launch = bucket.encodeLaunch();
  for (auto _ : state) host.encodeShards(launch);
  finish(state, bucket, kCount);
}

void reduceRow(benchmark::State& state, const host::HostCodec& host, wire::Codec codec,
               ElementType type) {
  Bucket bucket(codec, type);
  host.encodeShards(bucket.encodeLaunch());
  const ReduceLaunch launch = bucket.reduceLaunch();
  for (auto _ : state) host.reduceShard(launch);
  finish(state, bucket, bucket.shardElems());
}

void reduceIntoValuesRow(benchmark::State& state, const host::HostCodec& host, wire::Codec codec,
                         ElementType type) {
  Bucket bucket(codec, type);
  host.encodeShards(bucket.encodeLaunch());
  const ReduceLaunch launch = bucket.reduceIntoValuesLaunch();
  for (auto _ : state) {
    bucket.rewind();
    host.reduceShard(launch);
  }
  finish(state, bucket, bucket.shardElems());
}

void decodeRow(benchmark::State& state, const host::HostCodec& host, wire::Codec codec,
               ElementType type) {
  Bucket bucket(codec, type);
  host.encodeShards(bucket.encodeLaunch());
  const DecodeLaunch launch = bucket.decodeLaunch();
  for (auto _ : state) {
    bucket.rewind();
    host.decodeShards(launch);
  }
  finish(state, bucket, kCount);
}

void copyRow(benchmark::State& state) {
  Bucket bucket(wire::Codec::q4, ElementType::fp32);
  for (auto _ : state) {
    std::memcpy(bucket.output(), bucket.input(), kCount * sizeof(float));
    benchmark::ClobberMemory();
  }
  finish(state, bucket, kCount);
}

void registerRows(const host::HostCodec& host, wire::Codec codec, ElementType type,
                  const char* typeName) {
  const std::string row =
      std::string("/") + host.name + "/q" + std::to_string(wire::bitsOf(codec)) + "/" + typeName;
  benchmark::RegisterBenchmark(("encode" + row).c_str(), encodeRow, host, codec, type);
  benchmark::RegisterBenchmark(("reduce" + row).c_str(), reduceRow, host, codec, type);
  benchmark::RegisterBenchmark(("reduce_into_values" + row).c_str(), reduceIntoValuesRow, host,
                               codec, type);
  benchmark::RegisterBenchmark(("decode" + row).c_str(), decodeRow, host, codec, type);
}

void registerAll() {
  benchmark::RegisterBenchmark("memcpy", copyRow);
  for (const host::HostCodec& host : host::hostCodecs())
    for (wire::Codec codec : {wire::Codec::q2, wire::Codec::q4, wire::Codec::q8}) {
      registerRows(host, codec, ElementType::fp32, "fp32");
      registerRows(host, codec, ElementType::fp16, "fp16");
      registerRows(host, codec, ElementType::bf16, "bf16");
    }
}

}  // namespace
}  // namespace cinch

int main(int argc, char** argv) {
  cinch::registerAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
