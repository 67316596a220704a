// Compress or pass, and why. Pure: no clock, environment, CUDA or randomness, and only facts that
// are equal on every rank of the communicator, so that ranks can never disagree.
#pragma once

#include <cstdint>

#include "common/param.h"
#include "interpose/policy/sequence.h"
#include "interpose/policy/signature.h"
#include "kernels/codec/registry.h"
#include "kernels/device_table.h"

namespace cinch {

// Why a call passes. The order is that of kReasonNames.
enum class Reason : uint8_t {
  none,         // it does not: compressed
  unknownComm,  // made in a way that this version does not follow
  oneRank,
  notAgreed,   // the ranks do not all run Cinch with the same settings
  sameHost,    // no network between the ranks
  kind,        // not an AllReduce, or one of the kinds that are switched on
  operation,   // not a Sum, an average or a scaled sum
  dataType,    // not fp32, fp16, bf16
  small,       // below CINCH_MIN_BYTES, or its encoding would not save a quarter
  manyKinds,   // more different calls than the table holds
  warmup,      // its like was not seen often enough yet
  unplaced,    // its place in the step is not known, or not any more
  ambiguous,   // nothing shows that the calls of its period are gradients, and all of them
  observe,     // CINCH_MODE=observe: it would have been compressed
  capturing,   // in a CUDA graph capture that began before the slot was ready
  preparing,   // the ranks are getting ready to compress it from the next call on
  voted,       // a rank could not get ready
  incomplete,  // it lacks a buffer, which NCCL will refuse
  count_,
};

inline constexpr int kReasonCount = static_cast<int>(Reason::count_);
extern const char* const kReasonNames[kReasonCount];

// What the policy knows of a communicator.
struct CommFacts {
  int nRanks = 0;
  bool agreed = false;
  bool severalHosts = false;
};

// What the policy knows of a call's past on its communicator.
struct History {
  uint64_t seenBefore = 0;  // how often its signature was seen
  Place place{};            // with CINCH_SLOTS=sequence
};

// Reason::none: compress it (as soon as the slot is ready on all ranks); else pass, and why.
Reason decide(const Params& params, const CommFacts& comm, const Signature& signature,
              const History& history);

// Whether a call moves enough bytes to be worth compressing.
bool isLarge(const Params& params, const CommFacts& comm, const Signature& signature);

// All that must be equal on the ranks before they may compress, readable, so that a difference can
// be named: settings, wire format, and a number for everything else.
std::string agreedSettings(const Params& params);

// The codec's element type; valid for the types that decide() compresses.
ElementType elementTypeOf(ncclDataType_t type);
bool isCompressibleType(ncclDataType_t type);

// How calls of a kind are coded: AllReduce as the parameters say; ReduceScatter, AllGather and what
// has an ambiguous place without error feedback, at 8 bits or more. Only the seed of stochastic
// rounding differs by rank.
struct Coding {
  const codec::CodecInfo& codec;
  CodingRule rule;
};
Coding codingOf(const Params& params, CallKind kind, const Place& place, uint32_t rank);

// True for a call that marks a new layout of the buckets to come, as PyTorch DDP's integer
// broadcasts of bucket order do: residuals must not outlive it.
bool marksNewLayout(const Signature& signature);

}  // namespace cinch
