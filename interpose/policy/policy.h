// Compress or pass, and why. Pure: no clock, environment, CUDA or randomness, and only facts that
// are equal on every rank of the communicator, so that ranks can never disagree.
#pragma once

#include <cstdint>

#include "common/param.h"
#include "interpose/policy/reason.h"
#include "interpose/policy/rules.h"
#include "interpose/policy/sequence.h"
#include "interpose/policy/signature.h"
#include "kernels/codec/registry.h"
#include "kernels/device_table.h"

namespace cinch {

// What the policy knows of a communicator.
struct CommFacts {
  int nRanks = 0;
  bool agreed = false;
  bool severalHosts = false;
  bool isOnPcie = false;  // on one host: not all are joined by NVLink, as all ranks know
};

// What the policy knows of a call's past on its communicator.
struct History {
  uint64_t seenBefore = 0;     // how often its signature was seen
  Place place{};               // with CINCH_SLOTS=sequence
  const Rule* rule = nullptr;  // of the user, that speaks of the call
  uint32_t timesPerStep = 1;   // that its signature occurs, where known
};

// Reason::none: compress it (as soon as the slot is ready on all ranks); else pass, and why.
Reason decide(const Params& params, const CommFacts& comm, const Signature& signature,
              const History& history);

// Whether the ranks of a host sum a call up among themselves first, where they can. The scalars of
// a PreMulSum may differ from rank to rank.
bool sumsInHosts(const Params& params, const Signature& signature);

// Where each host has one rank, encoded shards are gathered by messages from each to each, as they
// were exchanged, and not by NCCL's AllGather: for that NCCL chooses among a ring, whose hops grow
// with the hosts, and PAT, by the size of a message, and makes the host wait for the other ranks'
// programs when it first takes one (docs/decisions/017-many-hosts.md). Where hosts have several
// there is the ring alone, which leaves each host once.
constexpr bool gathersDirectly(uint32_t nRanks, uint32_t nHosts) {
  return nHosts == nRanks;
}

// Whether a call moves enough bytes to be worth compressing.
bool isLarge(const Params& params, const CommFacts& comm, const Signature& signature);

// Error feedback of a codec: low-gain where codes are coarse. Without rounding.
CodingRule feedbackOf(const Params& params, const wire::CodecFormat& codec);

// All that must be equal on the ranks before they may compress, readable, so that a difference can
// be named: settings, wire format, what the rules say, `plan` for what is replayed, and a number
// for everything else.
std::string agreedSettings(const Params& params, const Rules& rules = {},
                           const std::string& plan = "none");

// The codec's element type; valid for the types that decide() compresses.
ElementType elementTypeOf(ncclDataType_t type);

// How calls of a kind are coded: AllReduce as the parameters say; the rest without error feedback,
// unless a rule names another codec: a ReduceScatter at 5 bits or more, AllGather at 8, an
// AllReduce at an ambiguous place at 8 or more. Only the seed of stochastic rounding differs by
// rank.
struct Coding {
  const codec::CodecInfo& codec;
  CodingRule rule;
  bool isAdaptive = false;  // CINCH_CODEC=auto: `codec` is what adaptive precision begins with

  const char* name() const { return isAdaptive ? "auto" : codec.name; }
};
Coding codingOf(const Params& params, CallKind kind, const Place& place, uint32_t rank,
                const Rule* rule = nullptr);

// Of stateless calls of a known position: coded in little time, since nothing is rotated, and with
// a third of the error that adaptive precision aims at (that of h3), so that no feedback is needed.
const codec::CodecInfo& statelessCodec();
// Whether some calls may be stateless, which only those are that could be adaptive.
bool hasStatelessCalls(const Params& params);
// Whether some may have feedback, as rules may have it, too.
bool mayHaveFeedback(const Params& params);

// True for a call that marks a new layout of the buckets to come, as PyTorch DDP's integer
// broadcasts of bucket order do: residuals must not outlive it.
bool marksNewLayout(const Signature& signature);

}  // namespace cinch
