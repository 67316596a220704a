// What the three collectives move for a size of the sweep, and the bandwidths that follow from the
// time, all as nccl-tests defines them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "interpose/policy/signature.h"
#include "tools/cinch/bench/element_type.h"

namespace cinch::bench {

struct Collective {
  CallKind kind;
  const char* name;  // "all_reduce"
};
const Collective* findCollective(std::string_view name);

// An operation, or NCCL's lack of one in an AllGather.
struct Operation {
  ncclRedOp_t id;
  const char* name;
};
const Operation* findOperation(std::string_view name);
// "all" stands for each of them.
std::vector<Operation> operationsNamed(std::string_view name);
std::vector<ElementType> typesNamed(std::string_view name);

// Buffers of one rank, in values.
struct Shape {
  CallKind kind;
  int ranks;
  size_t elementBytes;
  uint64_t count;  // that the call names: AllReduce's whole buffer, else one rank's shard

  uint64_t sendCount() const { return kind == CallKind::reduceScatter ? count * ranks : count; }
  uint64_t receiveCount() const { return kind == CallKind::allGather ? count * ranks : count; }
  // Of the larger of the two: the "size" of the table.
  uint64_t bytes() const;
  // Where in the larger buffer the smaller one of `rank` lies, in place: values.
  uint64_t inPlaceOffset(int rank) const;
  // What a rank of a ring sends.
  double ringBytes() const;
};

// `bytes` cut to whole values; shards begin at multiples of 16 bytes.
Shape shapeOf(CallKind kind, uint64_t bytes, size_t elementBytes, int ranks);

struct Bandwidth {
  double algorithm;  // GB/s
  double bus;
};
Bandwidth bandwidthOf(const Shape& shape, double microseconds);

// From `first` to `last`, multiplied by `factor` where that is above 1, else by steps.
struct Sweep {
  uint64_t first;
  uint64_t last;
  uint64_t step;
  double factor;
  std::vector<uint64_t> sizes() const;
};

// "8", "64K", "1.5M", "2G", "1T": bytes, with powers of 1024.
std::optional<uint64_t> parseSize(std::string_view text);

}  // namespace cinch::bench
