// What the codec tests share: values as elements of a type, data that is hard to code, buffers that
// notice writes outside, and all ranks of a collective in one process.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/device_table.h"
#include "kernels/host/host_codec.h"

namespace cinch::test {

inline constexpr ElementType kTypes[] = {ElementType::fp32, ElementType::fp16, ElementType::bf16};
inline constexpr wire::Codec kCodecs[] = {wire::Codec::q2, wire::Codec::q4, wire::Codec::q8};

std::string nameOf(ElementType type);
std::string nameOf(wire::Codec codec);

// Values rounded to elements of `type`, as bytes, and back.
std::vector<uint8_t> toElements(ElementType type, const std::vector<float>& values);
std::vector<float> fromElements(ElementType type, const void* elements, size_t count);

std::vector<float> gaussian(size_t count, uint32_t seed, float scale = 1.0f);

// Blocks of every awkward kind: constant, zero, -0, subnormal, huge, with NaN or infinities, tiny
// steps, one outlier, random bit patterns; and ordinary ones between them.
std::vector<float> awkward(size_t count, uint32_t seed);

// Sum of squared differences over sum of squares.
double nmse(const std::vector<float>& approximate, const std::vector<double>& exact);

// `size` bytes that begin `offset` bytes after a 64-byte boundary, between guard bytes.
class GuardedBytes {
 public:
  GuardedBytes(size_t size, size_t offset);
  explicit GuardedBytes(const std::vector<uint8_t>& content, size_t offset = 0);

  uint8_t* data() { return storage_.data() + begin_; }
  const uint8_t* data() const { return storage_.data() + begin_; }
  float* floats() { return reinterpret_cast<float*>(data()); }
  size_t size() const { return size_; }
  std::vector<uint8_t> content() const { return {data(), data() + size_}; }
  // True while nothing was written in front of the bytes or behind them.
  bool isIntact() const;

 private:
  static constexpr size_t kGuardBytes = 256;
  static constexpr uint8_t kGuard = 0xa5;

  size_t size_, begin_;
  std::vector<uint8_t> storage_;
};

// An AllReduce, or a ReduceScatter where the shards are fixed.
struct Collective {
  uint64_t count = 0;
  uint64_t fixedShard = 0;  // values per rank, instead of `count`
  uint32_t nRanks = 1;
  wire::Codec codec = wire::Codec::q4;
  ElementType type = ElementType::fp32;
  bool feedback = false;
  float gain = 0.1f;
  InputFactor inputFactor = {};
  float factor = 1.0f;
  bool measure = false;
  bool inPlace = false;  // ReduceScatter only
};

// One rank's buffers and device state.
struct VirtualRank {
  std::vector<uint8_t> input, output, encoded, received, reduced;
  std::vector<float> residual, ownerResidual;
  SlotState state{};
  uint32_t fault = 0;
};

// All ranks of one communicator; messages are copies.
class VirtualRanks {
 public:
  VirtualRanks(const Collective& settings, const host::HostCodec& codec);

  // One whole AllReduce on all ranks: encode, exchange, reduce, gather, decode.
  void run();
  // One whole ReduceScatter: encode, exchange, reduce into values.
  void runReduceScatter();
  // The parts of them, for tests that step in between.
  void encode();
  void exchange();
  void reduce();
  void reduceIntoValues();
  void gatherAndDecode();

  const wire::ShardLayout& layout() const { return layout_; }
  size_t size() const { return ranks_.size(); }
  VirtualRank& operator[](size_t rank) { return ranks_[rank]; }
  void setInput(size_t rank, const std::vector<float>& values);
  std::vector<float> inputOf(size_t rank) const;
  // What an AllReduce left on a rank, or a ReduceScatter.
  std::vector<float> outputOf(size_t rank) const;

 private:
  CallContext callOf(VirtualRank& rank);
  // Stage 2 of a rank, with neither codes nor values as its output yet.
  ReduceLaunch reduceLaunch(uint32_t rank);

  Collective settings_;
  const host::HostCodec& codec_;
  wire::ShardLayout layout_;
  std::vector<VirtualRank> ranks_;
};

}  // namespace cinch::test
