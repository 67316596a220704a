// All ranks of a collective in one process.
#pragma once

#include "kernels/wire/mixed_layout.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {

// An AllReduce, or a ReduceScatter where the shards are fixed.
struct Collective {
  uint64_t count = 0;
  uint64_t fixedShard = 0;  // values per rank, instead of `count`
  uint32_t nRanks = 1;
  wire::CodecFormat codec = codec::formatOf("q4");
  ElementType type = ElementType::fp32;
  bool feedback = false;
  CodingRule rule = {.gain = 0.1f};  // the ranks' seeds follow one another
  InputFactor inputFactor = {};
  float factor = 1.0f;
  bool inPlace = false;                      // ReduceScatter and pairs only
  const wire::MixedLayout* mixed = nullptr;  // instead of `codec`; outlives the ranks
  uint32_t nChunks = 1;                      // AllReduce only; those of `mixed` if there is one
  bool isPair = false;  // an AllReduce of two ranks that exchange whole buckets: one shard
};

// One rank's buffers and device state.
struct VirtualRank {
  std::vector<uint8_t> input, output, encoded, received, reduced;
  std::vector<uint8_t> residual, ownerResidual;  // as stored
  SlotState state{};
  uint32_t fault = 0;
};

// All ranks of one communicator; messages are copies.
class VirtualRanks {
 public:
  VirtualRanks(const Collective& settings, const host::HostCodec& codec);

  // One whole AllReduce on all ranks: encode, exchange, reduce, gather, decode; chunk by chunk.
  void run();
  // One whole AllReduce of a pair: encode, exchange, reduce two codes; chunk by chunk.
  void runPair();
  // One whole ReduceScatter: encode, exchange, reduce into values.
  void runReduceScatter();
  // The parts of them, for tests that step in between.
  void encode();
  void exchange();
  void reduce();
  void reduceIntoValues();
  void reducePair();
  void gatherAndDecode();

  const wire::ShardLayout& layout() const { return whole_; }
  size_t size() const { return ranks_.size(); }
  VirtualRank& operator[](size_t rank) { return ranks_[rank]; }
  void setInput(size_t rank, const std::vector<float>& values);
  std::vector<float> inputOf(size_t rank) const;
  // What an AllReduce left on a rank, or a ReduceScatter.
  std::vector<float> outputOf(size_t rank) const;
  // Residuals as values: of the bucket, and the owner's of its shard.
  std::vector<float> residualOf(size_t rank) const;
  std::vector<float> ownerResidualOf(size_t rank) const;

 private:
  void enterChunk(uint32_t chunk);
  CallContext callOf(VirtualRank& rank);
  CodingRule ruleOf(size_t rank) const;
  // Stage 2 of a rank, with neither codes nor values as its output yet.
  ReduceLaunch reduceLaunch(uint32_t rank);

  Collective settings_;
  const host::HostCodec& codec_;
  const wire::ShardLayout whole_;
  wire::ShardLayout layout_;  // of what is under way: `whole_`, or a chunk of it
  bool endsCall_ = true;
  std::vector<VirtualRank> ranks_;
};

}  // namespace cinch::test
