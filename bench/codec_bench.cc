// Throughput of the CPU codec, one core: every launch kind x compilation x codec x element type.
// bytes_per_second counts values at fp32 size, whatever their type, so that rows compare; "copy" is
// a streaming copy of as many bytes in the same run.
//
//   codec_bench --benchmark_filter='^copy|/avx512/q4/fp32' [--mib=64]
//
//   encode    without feedback
//   encode_ef with int8 residuals; encode_ef_fp32, encode_ef_bf16: with those
//   encode_sr with stochastic rounding, where the codec can
//   decode
//   reduce    4 ranks: decodes three peers' codes, adds them and the own part, encodes; counts what
//             comes out
//   reduce_ef with the residuals of both stages
//   reduce_into_values
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/codec/registry.h"
#include "kernels/core/residual_layout.h"
#include "kernels/host/host_codec.h"

namespace cinch {
namespace {

constexpr uint32_t kRanks = 4;
constexpr uint32_t kOwnShard = 0;

uint64_t nMiB = 64;
uint64_t valueCount() {
  return (nMiB << 20) / sizeof(float);
}

// Gaussian values, a million of them over and over.
float valueAt(uint64_t index) {
  static const std::vector<float> values = [] {
    std::vector<float> made(1 << 20);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : made) value = normal(random);
    return made;
  }();
  return values[index % values.size()];
}

template <ElementType type>
void fillAs(std::vector<uint8_t>& elements) {
  auto* to = reinterpret_cast<ElementTraits<type>::Storage*>(elements.data());
  for (uint64_t i = 0; i < valueCount(); ++i) to[i] = ElementTraits<type>::fromFloat(valueAt(i));
}

std::vector<uint8_t> elementsOf(ElementType type) {
  std::vector<uint8_t> elements(valueCount() * elementBytes(type));
  switch (type) {
    case ElementType::fp32:
      fillAs<ElementType::fp32>(elements);
      break;
    case ElementType::fp16:
      fillAs<ElementType::fp16>(elements);
      break;
    case ElementType::bf16:
      fillAs<ElementType::bf16>(elements);
      break;
  }
  return elements;
}

// What a row measures.
struct Row {
  const host::HostCodec& host;
  const codec::CodecInfo& codec;
  ElementType type;
};

// One shard of values and all that the launches of a rank need of it.
class Shard {
 public:
  Shard(const Row& row, uint32_t nRanks)
      : layout_(wire::ShardLayout::fixed(valueCount(), nRanks, row.codec.format)),
        call_{layout_, row.type, 7, 3, &state_, &fault_},
        values_(elementsOf(row.type)),
        encoded_(layout_.strideBytes()) {
    rewind();
  }

  EncodeLaunch encodeLaunch(const CodingRule& rule, void* residual) {
    CallContext call = call_;
    call.layout = oneShard();
    return {.call = call,
            .input = values_.data(),
            .residual = residual,
            .rule = rule,
            .output = encoded_.data()};
  }

  DecodeLaunch decodeLaunch() {
    CallContext call = call_;
    call.layout = oneShard();
    return {call, encoded_.data(), values_.data()};
  }

  // The peers' parts are the own shard's codes, over and over.
  ReduceLaunch reduceLaunch(const host::HostCodec& host) {
    host.encodeShards(encodeLaunch({}, nullptr));
    peers_.clear();
    for (uint32_t rank = 0; rank < layout_.nShards; ++rank)
      peers_.insert(peers_.end(), encoded_.begin(), encoded_.end());
    return {.call = call_,
            .shard = kOwnShard,
            .peers = peers_.data(),
            .ownInput = values_.data(),
            .ownResidual = nullptr,
            .residual = nullptr,
            .factor = 1.0f,
            .output = encoded_.data()};
  }

  void rewind() { state_.ordinal = 1; }

  // Each row checks that it measured accepted shards, not the refusal of bad ones.
  void finish(benchmark::State& state) const {
    state.SetBytesProcessed(
        static_cast<int64_t>(state.iterations() * valueCount() * sizeof(float)));
    if (fault_) state.SkipWithError("a header was refused");
  }

 private:
  wire::ShardLayout oneShard() const {
    return wire::ShardLayout::fixed(layout_.fixedShard, 1, layout_.codec);
  }

  SlotState state_{};
  uint32_t fault_ = 0;
  wire::ShardLayout layout_;
  CallContext call_;
  std::vector<uint8_t> values_, encoded_, peers_;
};

std::vector<uint8_t> residualOf(ResidualType type) {
  return std::vector<uint8_t>(core::residualBytes(type, valueCount()));
}

void encodeRow(benchmark::State& state, const Row& row, const CodingRule& rule, void* residual) {
  Shard shard(row, 1);
  const EncodeLaunch launch = shard.encodeLaunch(rule, residual);
  for (auto _ : state) row.host.encodeShards(launch);
  shard.finish(state);
}

void encodePlain(benchmark::State& state, Row row) {
  encodeRow(state, row, {}, nullptr);
}

void encodeWithFeedback(benchmark::State& state, Row row, ResidualType type) {
  std::vector<uint8_t> residual = residualOf(type);
  encodeRow(state, row, {.gain = 0.1f, .residualType = type}, residual.data());
}

void encodeStochastic(benchmark::State& state, Row row) {
  encodeRow(state, row, {.rounding = Rounding::stochastic}, nullptr);
}

void decode(benchmark::State& state, Row row) {
  Shard shard(row, 1);
  row.host.encodeShards(shard.encodeLaunch({}, nullptr));
  const DecodeLaunch launch = shard.decodeLaunch();
  for (auto _ : state) {
    shard.rewind();
    row.host.decodeShards(launch);
  }
  shard.finish(state);
}

void reducePlain(benchmark::State& state, Row row) {
  Shard shard(row, kRanks);
  const ReduceLaunch launch = shard.reduceLaunch(row.host);
  for (auto _ : state) row.host.reduceShard(launch);
  shard.finish(state);
}

void reduceWithFeedback(benchmark::State& state, Row row) {
  Shard shard(row, kRanks);
  std::vector<uint8_t> own = residualOf(ResidualType::int8), owner = own;
  ReduceLaunch launch = shard.reduceLaunch(row.host);
  launch.rule = {.gain = 0.1f, .residualType = ResidualType::int8};
  launch.ownResidual = own.data();
  launch.residual = owner.data();
  for (auto _ : state) row.host.reduceShard(launch);
  shard.finish(state);
}

void reduceIntoValues(benchmark::State& state, Row row) {
  Shard shard(row, kRanks);
  std::vector<uint8_t> values = elementsOf(row.type);
  ReduceLaunch launch = shard.reduceLaunch(row.host);
  launch.output = nullptr;
  launch.values = values.data();
  for (auto _ : state) {
    shard.rewind();
    row.host.reduceShard(launch);
  }
  shard.finish(state);
}

void copy(benchmark::State& state) {
  const std::vector<uint8_t> from = elementsOf(ElementType::fp32);
  std::vector<uint8_t> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * from.size()));
}

void registerRows(const Row& row, const char* typeName) {
  const std::string suffix =
      std::string("/") + row.host.name + "/" + row.codec.name + "/" + typeName;
  const auto add = [&](const char* kind, const auto& run, auto... arguments) {
    benchmark::RegisterBenchmark((kind + suffix).c_str(), run, row, arguments...);
  };
  add("encode", encodePlain);
  add("encode_ef", encodeWithFeedback, ResidualType::int8);
  add("encode_ef_fp32", encodeWithFeedback, ResidualType::fp32);
  add("encode_ef_bf16", encodeWithFeedback, ResidualType::bf16);
  if (row.codec.dithers) add("encode_sr", encodeStochastic);
  add("decode", decode);
  add("reduce", reducePlain);
  add("reduce_ef", reduceWithFeedback);
  add("reduce_into_values", reduceIntoValues);
}

void registerAll() {
  benchmark::RegisterBenchmark("copy", copy);
  // The last is the reference, which is not meant to be fast.
  const auto compilations = host::hostCodecs().first(host::hostCodecs().size() - 1);
  for (const host::HostCodec& host : compilations)
    for (const codec::CodecInfo& codec : codec::kCodecs) {
      if (!codec::isForCalls(codec)) continue;
      registerRows({host, codec, ElementType::fp32}, "fp32");
      registerRows({host, codec, ElementType::fp16}, "fp16");
      registerRows({host, codec, ElementType::bf16}, "bf16");
    }
}

// Takes our own option out of the arguments.
void takeSize(int& argc, char** argv) {
  constexpr const char* kOption = "--mib=";
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], kOption, std::strlen(kOption)) == 0) {
      nMiB = std::strtoull(argv[i] + std::strlen(kOption), nullptr, 10);
      std::rotate(argv + i, argv + i + 1, argv + argc);
      --argc;
    }
}

}  // namespace
}  // namespace cinch

int main(int argc, char** argv) {
  cinch::takeSize(argc, argv);
  cinch::registerAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
