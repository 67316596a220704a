#include "tools/cinch/codec_speed.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/core/residual_layout.h"
#include "kernels/host/host_codec.h"
#include "tools/cinch/predict/cost_fit.h"

namespace cinch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kCounts[] = {1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20};  // values
constexpr uint32_t kRanks = 4;  // whose parts a reduce sums up
constexpr double kSecondsPerSize = 0.03;
constexpr int kFewestRuns = 3, kMostRuns = 200;

// Its least time: what it takes where nothing else runs.
template <class Run>
double leastSeconds(const Run& run) {
  double least = HUGE_VAL, total = 0;
  for (int i = 0; i < kMostRuns && (i < kFewestRuns || total < kSecondsPerSize); ++i) {
    const auto start = Clock::now();
    run();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    least = std::min(least, seconds);
    total += seconds;
  }
  return least;
}

// Values as gradients have them, in any type: small, of both signs, none of them special.
std::vector<uint8_t> valuesOf(ElementType type, uint64_t count) {
  std::vector<uint8_t> bytes(count * elementBytes(type));
  uint32_t state = 1;
  for (uint64_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    if (type == ElementType::fp32) {
      const float value = (static_cast<float>(state >> 8) * 0x1p-23f - 1) * 1e-3f;
      memcpy(&bytes[4 * i], &value, sizeof value);
    } else {
      // Sign and fraction at random, an exponent that makes a normal number.
      const auto bits = static_cast<uint16_t>((state >> 16 & 0x83ff) | 0x2000);
      memcpy(&bytes[2 * i], &bits, sizeof bits);
    }
  }
  return bytes;
}

// Empty where nothing is fed back.
std::vector<uint8_t> residualOf(const CodingRule& rule, uint64_t count) {
  const uint64_t nBytes = rule.gain > 0 ? core::residualBytes(rule.residualType, count) : 0;
  return std::vector<uint8_t>(nBytes);
}

// What encodes and decodes `count` values.
class Bucket {
 public:
  Bucket(wire::CodecFormat codec, ElementType type, const CodingRule& rule, uint64_t count)
      : rule_(rule),
        call_{{count, 1, codec}, type, 1, 0, &state_, &fault_},
        values_(valuesOf(type, count)),
        encoded_(call_.layout.totalBytes()),
        decoded_(values_.size()),
        residual_(residualOf(rule, call_.layout.count)) {
    state_.ordinal = 1;
  }

  double inputBytes() const { return static_cast<double>(values_.size()); }

  void encode() {
    host().encodeShards({.call = call_,
                         .input = values_.data(),
                         .residual = residual_.empty() ? nullptr : residual_.data(),
                         .rule = rule_,
                         .output = encoded_.data()});
  }
  void decode() {
    state_.ordinal = 1;  // which ends a call, and so counts on
    host().decodeShards({.call = call_, .input = encoded_.data(), .output = decoded_.data()});
  }

 private:
  static const host::HostCodec& host() { return host::fastestHostCodec(); }

  CodingRule rule_;
  SlotState state_{};
  uint32_t fault_ = 0;
  CallContext call_;
  std::vector<uint8_t> values_, encoded_, decoded_, residual_;
};

// The parts of kRanks ranks, `count` values in all, and their sum.
class Parts {
 public:
  Parts(wire::CodecFormat codec, ElementType type, const CodingRule& rule, uint64_t count)
      : rule_(rule),
        call_{wire::ShardLayout{count, kRanks, codec}, type, 1, 0, &state_, &fault_},
        values_(valuesOf(type, count)),
        encoded_(call_.layout.totalBytes()),
        sum_(call_.layout.strideBytes()),
        residual_(residualOf(rule, call_.layout.shardElems(0))) {
    state_.ordinal = 1;
    host::fastestHostCodec().encodeShards(
        {.call = call_, .input = values_.data(), .residual = nullptr, .output = encoded_.data()});
  }

  double inputBytes() const { return static_cast<double>(values_.size()); }

  void reduce() {
    host::fastestHostCodec().reduceShard(
        {.call = call_,
         .shard = 0,
         .peers = encoded_.data(),
         .ownInput = values_.data(),
         .ownResidual = nullptr,
         .residual = residual_.empty() ? nullptr : residual_.data(),
         .rule = rule_,
         .factor = 1,
         .output = sum_.data()});
  }

 private:
  CodingRule rule_;
  SlotState state_{};
  uint32_t fault_ = 0;
  CallContext call_;
  std::vector<uint8_t> values_, encoded_, sum_, residual_;
};

}  // namespace

CodecCost measureCodec(wire::CodecFormat codec, ElementType type, const CodingRule& rule) {
  std::vector<CostSample> encode, reduce, decode;
  for (uint64_t count : kCounts) {
    Bucket bucket(codec, type, rule, count);
    Parts parts(codec, type, rule, count);
    encode.push_back({bucket.inputBytes(), leastSeconds([&] { bucket.encode(); })});
    decode.push_back({bucket.inputBytes(), leastSeconds([&] { bucket.decode(); })});
    reduce.push_back({parts.inputBytes(), leastSeconds([&] { parts.reduce(); })});
  }
  return {fitLinear(encode).value_or(LinearCost{}), fitLinear(reduce).value_or(LinearCost{}),
          fitLinear(decode).value_or(LinearCost{})};
}

const char* measuredCodecName() {
  return host::fastestHostCodec().name;
}

}  // namespace cinch
