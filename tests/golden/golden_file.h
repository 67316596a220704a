// Golden vectors: what one version of the wire format makes of given inputs, in full. A file per
// codec and element type, and some more, in a folder per wire version. They are committed once,
// never written again, and every later release must still agree with them.
//
// A file is "CINCHGLD", then sections to the end: a name of 24 bytes padded with zeros, the number
// of bytes as 64 bits, the bytes. Everything is little-endian.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "kernels/device_table.h"
#include "kernels/wire/mixed_layout.h"

namespace cinch::test {

// The scalars of the launches, as stored in the section "parameters".
struct GoldenParameters {
  uint64_t count;
  uint32_t nShards;
  uint32_t codec;  // id of the codec
  uint32_t type;   // ElementType
  uint32_t planId;
  uint32_t slot;
  uint32_t ordinal;
  uint32_t ownShard;  // of the reduce launch
  float gain;
  float factor;
  uint32_t fixedShard;  // values per shard; 0: the cut is free
};
static_assert(sizeof(GoldenParameters) == 48);

// What a CodingRule has besides the gain, as stored in the section "rule".
struct GoldenRule {
  float decay;
  uint32_t residualType;  // ResidualType
  uint32_t rounding;      // Rounding
  uint32_t zero;
  uint64_t seed;
};
static_assert(sizeof(GoldenRule) == 24);

// A segment of a mixed layout, as stored in the section "segments".
struct GoldenSegment {
  uint64_t nTiles;
  uint64_t codec;  // id
};

// Sections, besides the parameters:
//   rule                                     none: decay 1, fp32 residuals, rounding to nearest
//   segments                                 none: one codec for all
//   inputFactor                              fp32; none: 1
//   input, residual, encoded, nextResidual   encode of all shards, and what becomes of the
//   residual;
//                                            without residuals, there is no feedback
//   decoded                                  decode of `encoded`
//   peers, ownerResidual, reduced, nextOwnerResidual
//       reduce of shard `ownShard`, whose own part and stage 1 residual are those of `input` and
//       `residual`
//   values                                   the same reduce into values; with fixed shards only
//   pairValues                               reduce of two codes into values: those of rank 0 in
//                                            `peers`, then the own shard of `encoded`
class GoldenFile {
 public:
  static Result<GoldenFile> read(const std::string& path);
  // Fails where the file exists.
  Result<void> writeNew(const std::string& path) const;

  GoldenParameters parameters() const;
  // Of no shards where it has a codec that is no more. Valid while the file lives.
  wire::ShardLayout layout() const;
  ElementType type() const;
  InputFactor inputFactor() const;
  CodingRule rule() const;
  // Empty where there is no such section.
  const std::vector<uint8_t>& section(const std::string& name) const;
  void setParameters(const GoldenParameters& parameters);
  // The gain is one of the parameters.
  void setRule(const CodingRule& rule);
  // After the parameters.
  void setSegments(std::span<const wire::Segment> segments);
  void setSection(const std::string& name, const void* bytes, size_t nBytes);

 private:
  // Makes the mixed layout that the sections describe, if they do.
  void makeMixedLayout();

  std::map<std::string, std::vector<uint8_t>> sections_;
  std::shared_ptr<const wire::MixedLayout> mixed_;
};

}  // namespace cinch::test
