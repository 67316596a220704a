// Codes the values of one shard behind its header: the end that stages 1 and 2 share.
#pragma once

#include "kernels/core/call_state.h"
#include "kernels/core/shard_header.h"
#include "kernels/host/residual_tiles.h"
#include "kernels/host/shard_tiles.h"

namespace cinch::host {

class ShardEncoder {
 public:
  // `residual` is the shard's, or null; `errors` collects statistics where the rule wants them.
  ShardEncoder(const CallContext& call, uint32_t shard, uint32_t stage, const CodingRule& rule,
               void* residual, core::ErrorSums& errors, TileCodecs codecs)
      : call_(call),
        shard_(shard),
        codecs_(codecs),
        feedback_{rule.gain, rule.decay},
        dither_{rule.seed, shard, stage, call.state->ordinal, call.slot},
        dithers_(rule.rounding == Rounding::stochastic),
        errors_(rule.measure ? &errors : nullptr),
        residuals_(rule.residualType, residual, codecs) {}

  // Writes the encoded shard. valuesOf(tile, buffer) returns the values of a tile, in `buffer` or
  // elsewhere.
  template <class ValuesOf>
  void encode(uint8_t* output, const ValuesOf& valuesOf) {
    const wire::ShardLayout& layout = call_.layout;
    if (residuals_.exist() && core::isPoisoned(*call_.state))
      residuals_.clear(layout.shardElems(shard_));
    const wire::ShardHeader header = core::makeHeader(call_, call_.state->ordinal);
    std::memcpy(output, &header, sizeof header);
    forEachTile(layout, shard_, codecs_, [&](const ShardTile& tile) {
      TileValues buffer;
      if (tile.nValues > 0)
        encodeTile(tile, valuesOf(tile, buffer), output + tile.offset);
      else
        std::memset(output + tile.offset, 0, tile.nBytes);
    });
    std::memset(output + layout.usedBytes(shard_), 0,
                layout.strideBytes() - layout.usedBytes(shard_));
  }

 private:
  void encodeTile(const ShardTile& tile, const float* values, uint8_t* output) {
    TileValues buffer;
    float* residual = nullptr;
    if (residuals_.exist()) residual = residuals_.open(tile.first, tile.nValues, buffer);
    tile.codec.encode({values, tile.nValues, tile.place(call_), feedback_, residual,
                       dithers_ ? &dither_ : nullptr, errors_, output});
    if (residual) residuals_.close(tile.first, tile.nValues, buffer);
  }

  const CallContext& call_;
  uint32_t shard_;
  TileCodecs codecs_;
  core::FeedbackRule feedback_;
  core::DitherKey dither_;
  bool dithers_;
  core::ErrorSums* errors_;
  ResidualTiles residuals_;
};

}  // namespace cinch::host
