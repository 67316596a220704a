// Speed of the CUDA codec: time of encode, reduce and decode on buckets of 64 MiB, as bytes that
// must move (every input read once, every output written once) per second, and as a fraction of
// what a plain device-to-device copy of the same size moves on this device.
//
// Buffers rotate, so that no launch finds its data in the L2 cache. Prints one JSON object per
// line.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/tuning/codec_tuning.h"
#include "kernels/device_table.h"

namespace {

using namespace cinch;

constexpr size_t kBucketBytes = size_t{64} << 20;
constexpr int kSets = 4;  // 256 MiB and more: several times any L2 cache
constexpr int kWarmups = 2;
constexpr int kRepeats = 15;
constexpr uint32_t kRanks = 4;

void check(int error, const char* what) {
  if (error == 0) return;
  fprintf(stderr, "codec_gpu_bench: %s: %s\n", what,
          cudaGetErrorString(static_cast<cudaError_t>(error)));
  exit(1);
}

const DeviceTable& table() {
  static const auto* const loaded = static_cast<const DeviceTable*>(
      dlsym(dlopen(CINCH_CODEC_CUDA_LIBRARY, RTLD_NOW), kDeviceTableSymbol));
  return *loaded;
}

// Words that are ordinary numbers of both signs in every type, fp32 included: of a few powers of
// two, with random mantissas.
std::vector<uint16_t> ordinaryWords(size_t nBytes) {
  std::vector<uint16_t> words(nBytes / 2);
  uint32_t random = 1;
  for (uint16_t& word : words) {
    random = random * 1664525 + 1013904223;
    word = static_cast<uint16_t>((random >> 16 & 0x80ff) | 0x3c00);
  }
  return words;
}

uint32_t capability() {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return static_cast<uint32_t>(10 * properties.major + properties.minor);
}

class Buffer {
 public:
  explicit Buffer(size_t nBytes) {
    static const std::vector<uint16_t> words = ordinaryWords(2 * kBucketBytes);
    check(cudaMalloc(&memory_, nBytes), "cudaMalloc");
    check(cudaMemcpy(memory_, words.data(), nBytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~Buffer() { cudaFree(memory_); }
  Buffer(const Buffer&) = delete;
  uint8_t* bytes() const { return static_cast<uint8_t*>(memory_); }
  float* floats() const { return static_cast<float*>(memory_); }

 private:
  void* memory_ = nullptr;
};

// One of the rotating sets of buffers.
struct Set {
  Buffer values{kBucketBytes}, output{kBucketBytes}, coded{kBucketBytes};
  Buffer residual{2 * kBucketBytes};  // fp32, for buckets of 16-bit types too
};

class Timer {
 public:
  Timer() {
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Timer(const Timer&) = delete;

  // Median time of one call of `launch`, in microseconds.
  double measure(const std::vector<Set>& sets, const std::function<void(const Set&)>& launch) {
    std::vector<double> times;
    for (int repeat = -kWarmups; repeat < kRepeats; ++repeat) {
      check(cudaEventRecord(begin_, nullptr), "cudaEventRecord");
      for (const Set& set : sets) launch(set);
      check(cudaEventRecord(end_, nullptr), "cudaEventRecord");
      check(cudaEventSynchronize(end_), "cudaEventSynchronize");
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
      if (repeat >= 0) times.push_back(1000.0 * milliseconds / static_cast<double>(sets.size()));
    }
    std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
    return times[kRepeats / 2];
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

struct Case {
  ElementType type;
  wire::Codec codec;
  bool feedback;

  uint64_t count() const { return kBucketBytes / elementBytes(type); }
  std::string name(const char* what) const {
    const char* const types[] = {"fp32", "fp16", "bf16"};
    return std::string(what) + " " + types[static_cast<int>(type)] + " q" +
           std::to_string(wire::bitsOf(codec)) + (feedback ? " with residual" : "");
  }
};

class Bench {
 public:
  Bench() : sets_(kSets), states_(kStates * sizeof(SlotState)) {
    void* fault = nullptr;
    check(cudaHostAlloc(&fault, sizeof(uint32_t), cudaHostAllocMapped), "cudaHostAlloc");
    fault_ = static_cast<uint32_t*>(fault);
    *fault_ = 0;
    copyRate_ = 2.0 * kBucketBytes / timer_.measure(sets_, [](const Set& set) {
      check(cudaMemcpyAsync(set.output.bytes(), set.values.bytes(), kBucketBytes,
                            cudaMemcpyDeviceToDevice),
            "copy");
    });
    printf("{\"name\": \"copy\", \"gbps\": %.0f, \"fcb\": 1.0, \"ctas_per_sm\": %u}\n",
           copyRate_ / 1e3, cuda::codecTuning(capability()).ctasPerSm);
  }
  ~Bench() { cudaFreeHost(fault_); }

  void run(const Case& each) {
    resetStates();
    encode(each);
    reduce(each);
    if (!each.feedback) {
      reduceIntoValues(each);
      decode(each);
    }
    check(cudaDeviceSynchronize(), "kernels");
    if (*fault_ == 0) return;
    fprintf(stderr, "codec_gpu_bench: headers were refused, so nothing was decoded\n");
    exit(1);
  }

 private:
  static constexpr size_t kStates = 2 * kSets * (kRepeats + kWarmups);

  // Decode and reduce into values end their call; each launch gets a state of its own, so that all
  // see the same ordinal.
  void resetStates() {
    SlotState start{};
    start.ordinal = 1;
    const std::vector<SlotState> all(kStates, start);
    check(cudaMemcpy(states_.bytes(), all.data(), kStates * sizeof(SlotState),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
    nextState_ = 0;
  }

  CallContext call(const Case& each, size_t state = 0) {
    auto* const states = reinterpret_cast<SlotState*>(states_.bytes());
    return {{each.count(), kRanks, each.codec}, each.type, 1, 2, states + state, fault_};
  }

  void report(const std::string& name, double microseconds, double nBytes) {
    const double rate = nBytes / microseconds;
    printf("{\"name\": \"%s\", \"us\": %.1f, \"gbps\": %.0f, \"fcb\": %.3f}\n", name.c_str(),
           microseconds, rate / 1e3, rate / copyRate_);
  }

  void encode(const Case& each) {
    const CallContext context = call(each);
    const double us = timer_.measure(sets_, [&](const Set& set) {
      const EncodeLaunch launch{.call = context,
                                .input = set.values.bytes(),
                                .residual = each.feedback ? set.residual.floats() : nullptr,
                                .gain = 0.1f,
                                .output = set.coded.bytes(),
                                .skipShard = -1,
                                .measure = false};
      check(table().encode(&launch, nullptr), "encode");
    });
    const double residualBytes = each.feedback ? 8.0 * static_cast<double>(each.count()) : 0;
    report(each.name("encode"), us,
           kBucketBytes + residualBytes + static_cast<double>(context.layout.totalBytes()));
  }

  void reduce(const Case& each) {
    const CallContext context = call(each);
    const double us = timer_.measure(sets_, [&](const Set& set) {
      float* const residual = each.feedback ? set.residual.floats() : nullptr;
      const ReduceLaunch launch{.call = context,
                                .shard = 0,
                                .peers = set.coded.bytes(),
                                .ownInput = set.values.bytes(),
                                .ownResidual = residual,
                                .residual = residual ? residual + each.count() / 2 : nullptr,
                                .gain = 0.1f,
                                .factor = 1.0f,
                                .output = set.output.bytes(),
                                .measure = false};
      check(table().reduce(&launch, nullptr), "reduce");
    });
    const auto shard = static_cast<double>(context.layout.shardElems(0));
    report(each.name("reduce"), us,
           shard * (elementBytes(each.type) + (each.feedback ? 16.0 : 0.0)) +
               static_cast<double>(context.layout.totalBytes()));
  }

  void reduceIntoValues(const Case& each) {
    const double us = timer_.measure(sets_, [&](const Set& set) {
      const ReduceLaunch launch{.call = call(each, nextState_++),
                                .shard = 0,
                                .peers = set.coded.bytes(),
                                .ownInput = set.values.bytes(),
                                .ownResidual = nullptr,
                                .residual = nullptr,
                                .gain = 0,
                                .factor = 1.0f,
                                .output = nullptr,
                                .values = set.output.bytes(),
                                .measure = false};
      check(table().reduce(&launch, nullptr), "reduce into values");
    });
    const wire::ShardLayout layout = call(each).layout;
    report(each.name("reduce into values"), us,
           static_cast<double>(layout.shardElems(0) * 2 * elementBytes(each.type)) +
               static_cast<double>(layout.totalBytes()));
  }

  void decode(const Case& each) {
    const double us = timer_.measure(sets_, [&](const Set& set) {
      const DecodeLaunch launch{call(each, nextState_++), set.coded.bytes(), set.output.bytes()};
      check(table().decode(&launch, nullptr), "decode");
    });
    report(each.name("decode"), us,
           kBucketBytes + static_cast<double>(call(each).layout.totalBytes()));
  }

  Timer timer_;
  std::vector<Set> sets_;
  Buffer states_;
  size_t nextState_ = 0;
  uint32_t* fault_ = nullptr;
  double copyRate_ = 0;  // bytes per microsecond
};

}  // namespace

int main() {
  check(table().initialise(), "initialise");
  Bench bench;
  for (const ElementType type : {ElementType::fp32, ElementType::bf16})
    for (const wire::Codec codec : {wire::Codec::q8, wire::Codec::q4, wire::Codec::q2})
      for (const bool feedback : {false, true}) bench.run({type, codec, feedback});
  return 0;
}
