// How long a collective takes and how far its result is off, from a few numbers that describe the
// codec, the links and the ranks. It foretells what nobody has measured: other sizes, links and
// numbers of ranks. Whether a running job compresses is decided by what it measures
// (interpose/policy/selector), never by this. Pure.
//
// A cost is A + B x, neither below 0. docs/scaling.md derives what is added up here, and says how
// far it was off.
#pragma once

#include <cstdint>
#include <optional>

#include "interpose/policy/signature.h"
#include "kernels/codec/registry.h"
#include "kernels/device_table.h"

namespace cinch {

// Of something that has a price for each call of it, and one for each byte.
struct LinearCost {
  double fixedSeconds = 0;
  double secondsPerByte = 0;

  double of(double nBytes) const { return fixedSeconds + secondsPerByte * nBytes; }
};

// Bytes are those of the values before they are coded.
struct CodecCost {
  LinearCost encode;
  LinearCost reduce;  // for each byte of each rank's part of the shard that is summed up
  LinearCost decode;
};

struct LinkCost {
  // Of the network: a hop, and a byte of the link that all ranks of a host share, which carries as
  // much in the other direction at the same time.
  LinearCost network;
  // Inside a host: a hop, and a byte that one rank sends; all of them send at once.
  LinearCost local;
  // What each message of a rank costs beside that, where it sends to all others at once.
  double secondsPerMessage = 0;
};

// Every host has as many ranks.
struct Topology {
  uint32_t ranks = 1;
  uint32_t hosts = 1;

  uint32_t ranksPerHost() const { return ranks / hosts; }
  bool isValid() const { return hosts > 0 && ranks >= hosts && ranks % hosts == 0; }
};

// The hosts as rows x columns, as square as may be; 1 row where no square-like one exists.
struct HostGrid {
  uint32_t rows;
  uint32_t columns;
};
HostGrid gridOf(uint32_t hosts);

// With fewer there is nothing to gain. Not in this version: docs/decisions/017-many-hosts.md.
inline constexpr uint32_t kSmallestGrid = 33;  // hosts

// AllReduce or ReduceScatter of a bucket.
struct CostedCall {
  CallKind kind = CallKind::allReduce;
  ElementType type = ElementType::fp32;
  uint64_t count = 0;  // values that a rank hands in

  double inputBytes() const { return static_cast<double>(count) * elementBytes(type); }
};

// What is known of the machines.
struct CostFacts {
  wire::CodecFormat codec;
  CodecCost codecCost;
  LinkCost link;
  Topology topology;
};

enum class Scheme : uint8_t {
  ring,          // NCCL's, exact
  tree,          // NCCL's double binary tree, exact
  flat,          // scatter-reduce-allgather over all ranks
  pair,          // two ranks send each other everything, coded once
  hierarchical,  // exact inside hosts, scatter-reduce-allgather between them (of two, as pairs), on
                 // all local ranks; AllReduce only
  grid,          // the same with rows and columns of hosts
  count_,
};
inline constexpr size_t kSchemeCount = static_cast<size_t>(Scheme::count_);

struct SchemeInfo {
  const char* name;
  bool isExact;
  bool isExecuted;  // by this version, on some ranks
};
SchemeInfo infoOf(Scheme scheme);

struct Prediction {
  double wireSeconds = 0;     // bytes on links
  double latencySeconds = 0;  // hops and messages
  double codecSeconds = 0;
  double hostLinkBytes = 0;  // that leave a host; as many come in
  // The expected error of the result (NMSE) over that of one round trip through the codec, where
  // the ranks' values are independent of each other and nothing is fed back.
  double quantisations = 0;

  double seconds() const { return wireSeconds + latencySeconds + codecSeconds; }
};

// Null where the scheme cannot do the call on these ranks.
std::optional<Prediction> predict(Scheme scheme, const CostedCall& call, const CostFacts& facts);

// How this version, as it is set by default, does a call on these ranks where it compresses it.
Scheme compressedScheme(const CostedCall& call, const Topology& topology);
// Among all, or among that one and NCCL's own. There is always one for a valid topology.
Scheme fastestScheme(const CostedCall& call, const CostFacts& facts, bool isExecuted);
// The faster of ring and tree.
Prediction predictExact(const CostedCall& call, const CostFacts& facts);

// The fewest bytes from which on the scheme is faster than the exact ones, tried at sizes up to 1
// TB that are a factor of 2 apart. The count of `call` means nothing.
std::optional<double> breakEvenBytes(Scheme scheme, CostedCall call, const CostFacts& facts);
// Up to which rate of the links it is faster, in bytes a second: infinite where there is no end,
// null where it is not even on slow ones.
std::optional<double> breakEvenRate(Scheme scheme, const CostedCall& call, CostFacts facts);

// Squared error over squared signal of one round trip of Gaussian values, by error_model.h; null
// for codecs that it does not know.
std::optional<double> gaussianNmse(const codec::CodecInfo& codec);

}  // namespace cinch
