// What encode and reduce share: codes a block of values into a shard, with error feedback and, on
// measured calls, the statistics of what coding lost.
#pragma once

#include "kernels/cuda/agent/encoded_shard.cuh"
#include "kernels/cuda/agent/error_tally.cuh"

namespace cinch::cuda {

// What a launch keeps besides the codes. Fixed at compile time: what is not kept takes no
// registers, and registers are what limits the loads in flight.
enum class Kept {
  codes,      // nothing else
  residual,   // the residual, where there is one
  statistics  // the residual, where there is one, and sums of squares
};

// Resident CTAs that the register allocator has to leave room for: 64 registers for each thread, or
// 128 on the few measured calls.
constexpr uint32_t ctasForRegisters(Kept kept) {
  return kept == Kept::statistics ? 2 : 4;
}

template <wire::Codec codec, Kept kept>
class BlockWriter {
 public:
  // `residual` belongs to the shard's first value, or is null; `ignoresResidual` takes it as 0.
  __device__ BlockWriter(uint8_t* shard, float* residual, float gain, bool ignoresResidual)
      : shard_(shard), residual_(residual), gain_(gain), ignoresResidual_(ignoresResidual) {}

  // The residual of this lane's first `n` values of a block.
  __device__ Values loadResidual(uint32_t block, uint32_t n) const {
    return hasResidual() && !ignoresResidual_ ? loadOctet(residual_ + firstOfLane(block), n)
                                              : Values{};
  }

  // Codes a block, of which this lane has the first `n` of eight values. All lanes of a warp call
  // it together.
  __device__ void write(uint32_t block, uint32_t n, const Values& values, const Values& residual) {
    const Values wanted = padded(hasResidual() ? compensated(values, residual) : values, n);
    const core::StoredPair pair = core::pairOf(codec, rangeOfBlock(rangeOf(wanted)));
    const core::BlockScale scale(codec, pair);
    const Word word = encoded(scale, wanted, n);
    storeCoded<codec>({pair, word}, shard_, block);
    if (hasResidual()) updateResidual(block, n, values, residual, scale, word);
    if (measures()) addStatistics(n, wanted, scale, word);
  }

  // Once, at the end, by every thread.
  __device__ void finish(SlotState* state, int stage) const {
    if (measures()) tally_.addTo(state, stage);
  }

 private:
  using Word = typename CodeWord<codec>::Type;

  __device__ bool hasResidual() const { return kept != Kept::codes && residual_; }
  __device__ static constexpr bool measures() { return kept == Kept::statistics; }

  __device__ Values compensated(const Values& values, const Values& residual) const {
    Values sum;
#pragma unroll
    for (uint32_t i = 0; i < kValuesPerLane; ++i)
      sum.at[i] = core::compensate(values.at[i], gain_, residual.at[i]);
    return sum;
  }

  // Values that do not exist repeat the block's first, which leaves its range alone; a block
  // without values is all zero.
  __device__ static Values padded(Values values, uint32_t n) {
    const float first = __shfl_sync(kAllLanes, n > 0 ? values.at[0] : 0.0f, 0, kLanesPerBlock);
    if (n == kValuesPerLane) return values;
#pragma unroll
    for (uint32_t i = 0; i < kValuesPerLane; ++i) values.at[i] = i < n ? values.at[i] : first;
    return values;
  }

  __device__ static core::ValueRange rangeOf(const Values& values) {
    core::ValueRange range;
#pragma unroll
    for (uint32_t i = 0; i < kValuesPerLane; ++i) range.include(values.at[i]);
    return range;
  }

  // In a marked block every code comes out as 0: the inverse is 0 and no NaN passes the clamp.
  __device__ static Word encoded(const core::BlockScale& scale, const Values& values, uint32_t n) {
    Word word = 0;
#pragma unroll
    for (uint32_t i = 0; i < kValuesPerLane; ++i)
      word |= static_cast<Word>(scale.encode(values.at[i])) << i * wire::bitsOf(codec);
    const Word all = static_cast<Word>(~Word{0});
    return n == kValuesPerLane ? word : word & ~static_cast<Word>(all << n * wire::bitsOf(codec));
  }

  // A marked block decodes to NaN here, of which nextResidual() makes 0.
  __device__ void updateResidual(uint32_t block, uint32_t n, const Values& values, Values residual,
                                 const core::BlockScale& scale, Word word) const {
#pragma unroll
    for (uint32_t i = 0; i < kValuesPerLane; ++i) {
      const float decoded = scale.decode(codeAt<codec>(word, i));
      residual.at[i] = core::nextResidual(residual.at[i], values.at[i], decoded);
    }
    storeOctet(residual, residual_ + firstOfLane(block), n);
  }

  // A marked block has no measurable error.
  __device__ void addStatistics(uint32_t n, const Values& wanted, const core::BlockScale& scale,
                                Word word) {
    if (scale.isMarked()) return;
#pragma unroll
    for (uint32_t i = 0; i < kValuesPerLane; ++i)
      if (i < n) tally_.add(wanted.at[i], scale.decode(codeAt<codec>(word, i)));
  }

  uint8_t* shard_;
  float* residual_;
  float gain_;
  bool ignoresResidual_;
  ErrorTally tally_;
};

}  // namespace cinch::cuda
