// Golden vectors: what one version of the wire format makes of given inputs, in full. Two files per
// codec and element type, one of them with fixed shards, in a folder per wire version. They are
// committed once, never written again, and every later release must still agree with them.
//
// A file is "CINCHGLD", then sections to the end: a name of 24 bytes padded with zeros, the number
// of bytes as 64 bits, the bytes. Everything is little-endian.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/result.h"
#include "kernels/device_table.h"

namespace cinch::test {

// The scalars of the launches, as stored in the section "parameters".
struct GoldenParameters {
  uint64_t count;
  uint32_t nShards;
  uint32_t codec;  // wire::Codec
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

// Sections, besides the parameters:
//   inputFactor                              fp32; none: 1
//   input, residual, encoded, nextResidual   encode of all shards, and what becomes of the residual
//   decoded                                  decode of `encoded`
//   peers, ownerResidual, reduced, nextOwnerResidual
//       reduce of shard `ownShard`, whose own part and stage 1 residual are those of `input` and
//       `residual`
//   values                                   the same reduce into values; with fixed shards only
class GoldenFile {
 public:
  static Result<GoldenFile> read(const std::string& path);
  // Fails where the file exists.
  Result<void> writeNew(const std::string& path) const;

  GoldenParameters parameters() const;
  wire::ShardLayout layout() const;
  ElementType type() const;
  InputFactor inputFactor() const;
  // Empty where there is no such section.
  const std::vector<uint8_t>& section(const std::string& name) const;
  void setParameters(const GoldenParameters& parameters);
  void setSection(const std::string& name, const void* bytes, size_t nBytes);

 private:
  std::map<std::string, std::vector<uint8_t>> sections_;
};

}  // namespace cinch::test
