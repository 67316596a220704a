// Speed of the CUDA codec: every kernel and codec on buckets of several sizes, as values per
// second, and as the bytes that must move (every input read once, every output written once) per
// second; "fcb" is the latter as a fraction of what the fastest plain device-to-device copy of this
// run moves.
//
//   codec_gpu_bench [MIB ...]      sizes of buckets; without any: 1 8 64 512
//
// Buffers rotate over more than three times the L2 cache, so that no launch finds its data there.
// Times are medians of graph replays. Prints one JSON object per line: the numbers that
// kernels are launched with, the copies, the kernels.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/codec/registry.h"
#include "kernels/core/residual_layout.h"
#include "tests/gpu/device_timer.h"

namespace cinch::bench {
namespace {

constexpr uint32_t kRanks = 4;
constexpr float kGain = 0.1f;
constexpr size_t kMib = size_t{1} << 20;
// The size at which everything is measured; at others, what is most used.
constexpr size_t kMainMib = 64;
// Headers, and the rounding up to tiles of every shard, of 16 to 32 bits per value.
constexpr size_t kSpareBytes = kRanks * 8192;

const DeviceTable& table() {
  static const auto* const loaded = static_cast<const DeviceTable*>(
      dlsym(dlopen(CINCH_CODEC_CUDA_LIBRARY, RTLD_NOW), kDeviceTableSymbol));
  return *loaded;
}

cudaDeviceProp device() {
  int index = 0;
  cudaDeviceProp properties;
  check(cudaGetDevice(&index), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return properties;
}

// How many buckets take three times the L2 cache.
size_t setsToRotate(size_t bucketBytes) {
  static const auto l2Bytes = static_cast<size_t>(device().l2CacheSize);
  return std::max<size_t>(2, 3 * l2Bytes / bucketBytes + 1);
}

// What a row of the results is about: a codec, and how it is used.
struct Case {
  const codec::CodecInfo& codec;
  ElementType type;
  bool feedback = false;
  CodingRule rule = {.gain = kGain, .residualType = ResidualType::int8};
};

// Buckets of one size, enough of them to rotate, and all that launches on them need.
class Buckets {
 public:
  explicit Buckets(size_t mib)
      : nBytes(mib * kMib),
        nSets(setsToRotate(nBytes)),
        values(nSets, nBytes),
        output(nSets, nBytes),
        coded(nSets, nBytes + kSpareBytes),
        residual(nSets, 2 * nBytes + kSpareBytes),
        ownerResidual(nSets, nBytes / 2 + kSpareBytes),
        states(nSets, sizeof(SlotState)),
        freshStates_(nSets, sizeof(SlotState)) {
    values.fillWithNumbers();
    SlotState fresh{};
    fresh.ordinal = 1;
    for (size_t set = 0; set < nSets; ++set)
      check(cudaMemcpy(freshStates_[set], &fresh, sizeof fresh, cudaMemcpyHostToDevice), "copy");
  }

  // The device memory that such buckets take.
  static size_t footprint(size_t mib) {
    const size_t nBytes = mib * kMib;
    return (6 * nBytes + 3 * kSpareBytes) * setsToRotate(nBytes);
  }

  // Decode and reduce into values end a call: each set has a state of its own, and all begin anew
  // before each replay.
  void resetStates(cudaStream_t stream) const {
    const size_t nStateBytes = static_cast<size_t>(states[nSets] - states[0]);
    check(
        cudaMemcpyAsync(states[0], freshStates_[0], nStateBytes, cudaMemcpyDeviceToDevice, stream),
        "reset");
  }

  const size_t nBytes, nSets;
  Slices values, output, coded, residual, ownerResidual, states;

 private:
  Slices freshStates_;
};

class Bench {
 public:
  Bench() {
    void* fault = nullptr;
    check(cudaHostAlloc(&fault, sizeof(uint32_t), cudaHostAllocMapped), "cudaHostAlloc");
    fault_ = static_cast<uint32_t*>(fault);
    *fault_ = 0;
  }
  ~Bench() { cudaFreeHost(fault_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // A device that was idle has slow clocks.
  void wakeUp(size_t mib) {
    using Clock = std::chrono::steady_clock;
    const Slices from(1, mib * kMib), to(1, mib * kMib);
    for (const auto end = Clock::now() + std::chrono::milliseconds(300); Clock::now() < end;) {
      check(cudaMemcpy(to[0], from[0], mib * kMib, cudaMemcpyDeviceToDevice), "copy");
      check(cudaDeviceSynchronize(), "copy");
    }
  }

  void measureCopy(size_t mib) {
    const size_t nBytes = mib * kMib, nSets = setsToRotate(nBytes);
    Slices from(nSets, nBytes), to(nSets, nBytes);
    from.fillWithNumbers();
    const double us = timer_.measure(
        nSets, [](cudaStream_t) {},
        [&](size_t set, cudaStream_t stream) {
          check(cudaMemcpyAsync(to[set], from[set], nBytes, cudaMemcpyDeviceToDevice, stream),
                "copy");
        });
    const double rate = 2.0 * static_cast<double>(nBytes) / us;
    copyRate_ = std::max(copyRate_, rate);
    std::printf("{\"kernel\": \"copy\", \"mib\": %zu, \"us\": %.2f, \"gbps\": %.0f}\n", mib, us,
                rate / 1e3);
  }

  void measureCodecs(size_t mib);

 private:
  void run(const Buckets& buckets, const Case& each);
  double encode(const Case& each);
  double reduce(const Case& each, bool intoValues);
  double decode(const Case& each);

  CallContext call(const Case& each, size_t set) const {
    return {layout(each), each.type, 1, 2, reinterpret_cast<SlotState*>(buckets_->states[set]),
            fault_};
  }
  wire::ShardLayout layout(const Case& each) const {
    return {buckets_->nBytes / elementBytes(each.type), kRanks, each.codec.format};
  }
  double measure(const DeviceTimer::Launch& launch) {
    return timer_.measure(
        buckets_->nSets, [this](cudaStream_t stream) { buckets_->resetStates(stream); }, launch);
  }
  void report(const Case& each, const char* kernel, double us, uint64_t nValues, uint64_t nBytes);

  DeviceTimer timer_;
  const Buckets* buckets_ = nullptr;  // of the case that is running
  uint32_t* fault_ = nullptr;
  double copyRate_ = 0;  // bytes per microsecond
};

// Bytes of the residual of `nValues` values, read and written.
uint64_t residualTraffic(const Case& each, uint64_t nValues) {
  return each.feedback ? 2 * core::residualBytes(each.rule.residualType, nValues) : 0;
}

double Bench::encode(const Case& each) {
  return measure([&](size_t set, cudaStream_t stream) {
    const EncodeLaunch launch{.call = call(each, set),
                              .input = buckets_->values[set],
                              .residual = each.feedback ? buckets_->residual[set] : nullptr,
                              .rule = each.rule,
                              .output = buckets_->coded[set]};
    check(table().encode(&launch, 1, stream), "encode");
  });
}

double Bench::reduce(const Case& each, bool intoValues) {
  return measure([&](size_t set, cudaStream_t stream) {
    const ReduceLaunch launch{.call = call(each, set),
                              .shard = 0,
                              .peers = buckets_->coded[set],
                              .ownInput = buckets_->values[set],
                              .ownResidual = each.feedback ? buckets_->residual[set] : nullptr,
                              .residual = each.feedback ? buckets_->ownerResidual[set] : nullptr,
                              .rule = each.rule,
                              .factor = 1.0f,
                              .output = intoValues ? nullptr : buckets_->output[set],
                              .values = intoValues ? buckets_->output[set] : nullptr};
    check(table().reduce(&launch, 1, stream), "reduce");
  });
}

double Bench::decode(const Case& each) {
  return measure([&](size_t set, cudaStream_t stream) {
    const DecodeLaunch launch{call(each, set), buckets_->coded[set], buckets_->output[set]};
    check(table().decode(&launch, 1, stream), "decode");
  });
}

void Bench::report(const Case& each, const char* kernel, double us, uint64_t nValues,
                   uint64_t nBytes) {
  constexpr const char* kTypes[] = {"fp32", "fp16", "bf16"};
  constexpr const char* kResiduals[] = {"fp32", "bf16", "int8"};
  const double rate = static_cast<double>(nBytes) / us;
  std::printf(
      "{\"kernel\": \"%s\", \"codec\": \"%s\", \"type\": \"%s\", \"residual\": \"%s\", "
      "\"rounding\": \"%s\", \"mib\": %zu, \"us\": %.2f, \"gvalues\": %.1f, \"gbps\": %.0f, "
      "\"fcb\": %.3f}\n",
      kernel, each.codec.name, kTypes[static_cast<int>(each.type)],
      each.feedback ? kResiduals[static_cast<int>(each.rule.residualType)] : "none",
      each.rule.rounding == Rounding::stochastic ? "stochastic" : "nearest",
      buckets_->nBytes / kMib, us, static_cast<double>(nValues) / us / 1e3, rate / 1e3,
      rate / copyRate_);
}

void Bench::run(const Buckets& buckets, const Case& each) {
  buckets_ = &buckets;
  if (each.feedback) {
    buckets.residual.fillWithZeros();
    buckets.ownerResidual.fillWithZeros();
  }
  const wire::ShardLayout bucket = layout(each);
  const uint64_t shard = bucket.shardElems(0), valueBytes = elementBytes(each.type);
  report(each, "encode", encode(each), bucket.count,
         buckets.nBytes + bucket.totalBytes() + residualTraffic(each, bucket.count));
  // The peers' parts are read and the sum is written: as many bytes as the bucket's.
  report(each, "reduce", reduce(each, false), shard,
         shard * valueBytes + bucket.totalBytes() + 2 * residualTraffic(each, shard));
  if (!each.feedback) {
    report(each, "reduce into values", reduce(each, true), shard,
           2 * shard * valueBytes + bucket.totalBytes() - bucket.strideBytes());
    report(each, "decode", decode(each), bucket.count, buckets.nBytes + bucket.totalBytes());
  }
  if (*fault_ != 0) {
    std::fprintf(stderr, "headers were refused: nothing was decoded\n");
    std::exit(1);
  }
}

// Fp16, other residuals and dither at the main size only.
std::vector<Case> casesOf(const codec::CodecInfo& codec, bool isMain) {
  std::vector<Case> cases;
  if (!codec::isForCalls(codec)) return cases;
  for (const ElementType type : {ElementType::fp32, ElementType::bf16, ElementType::fp16}) {
    if (!isMain && type == ElementType::fp16) continue;
    cases.push_back({codec, type});
    cases.push_back({codec, type, true});
    if (!isMain || type == ElementType::fp16) continue;
    for (const ResidualType residual : {ResidualType::fp32, ResidualType::bf16})
      cases.push_back({codec, type, true, {.gain = kGain, .residualType = residual}});
    if (codec.dithers)
      cases.push_back({codec, type, false, {.rounding = Rounding::stochastic, .seed = 1}});
  }
  return cases;
}

void Bench::measureCodecs(size_t mib) {
  const Buckets buckets(mib);
  for (const codec::CodecInfo& codec : codec::kCodecs)
    for (const Case& each : casesOf(codec, mib == kMainMib)) run(buckets, each);
}

// Those of the sizes that there is memory for.
std::vector<size_t> sizesToMeasure(int argc, char** argv) {
  std::vector<size_t> wanted;
  for (int i = 1; i < argc; ++i) wanted.push_back(std::strtoul(argv[i], nullptr, 10));
  if (wanted.empty()) wanted = {1, 8, 64, 512};
  size_t nFree = 0, nTotal = 0;
  check(cudaMemGetInfo(&nFree, &nTotal), "cudaMemGetInfo");
  std::vector<size_t> sizes;
  for (size_t mib : wanted)
    if (mib > 0 && Buckets::footprint(mib) < nFree) sizes.push_back(mib);
  return sizes;
}

}  // namespace
}  // namespace cinch::bench

int main(int argc, char** argv) {
  using namespace cinch::bench;
  check(table().initialise(), "initialise");
  cinch::SmShare share;
  check(table().loadKernels(100, &share), "loadKernels");
  Bench bench;
  const std::vector<size_t> sizes = sizesToMeasure(argc, argv);
  if (!sizes.empty()) bench.wakeUp(sizes.back());
  for (size_t mib : sizes) bench.measureCopy(mib);
  for (size_t mib : sizes) bench.measureCodecs(mib);
  return sizes.empty();
}
