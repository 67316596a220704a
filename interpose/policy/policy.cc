#include "interpose/policy/policy.h"

namespace cinch {

const char* const kReasonNames[kReasonCount] = {
    "compressed", "unknown_communicator",
    "one_rank",   "not_agreed",
    "same_host",  "kind",
    "operation",  "data_type",
    "small",      "many_kinds",
    "warmup",     "observe",
    "capturing",  "preparing",
    "voted_no",   "incomplete",
};

namespace {

// Of the calls that pass before the first compressed one, the last two get the ranks ready.
constexpr uint64_t kCallsToGetReady = 2;

// ReduceScatter and AllGather name the values of one shard.
uint64_t valuesOf(const CommFacts& comm, const Signature& signature) {
  const bool whole = signature.kind == CallKind::allReduce;
  return whole ? signature.count : signature.count * static_cast<uint64_t>(comm.nRanks);
}

// Beyond this a count cannot be that of a real buffer, and sums of sizes could overflow.
constexpr uint64_t kMaxCount = uint64_t{1} << 44;

bool isBig(const Params& params, const CommFacts& comm, const Signature& signature) {
  return signature.count <= kMaxCount &&
         valuesOf(comm, signature) * bytesOf(signature.dataType) >= params.minBytes;
}

// Every rank sends whole tiles to every other, so many ranks and few values can cost more than
// NCCL.
bool savesBytes(const Params& params, const CommFacts& comm, const Signature& signature) {
  const auto nRanks = static_cast<uint32_t>(comm.nRanks);
  const wire::Codec codec = codecOf(params, signature.kind);
  const auto layout = signature.kind == CallKind::allReduce
                          ? wire::ShardLayout{signature.count, nRanks, codec}
                          : wire::ShardLayout::fixed(signature.count, nRanks, codec);
  const uint64_t plain = layout.count * bytesOf(signature.dataType);
  return layout.totalBytes() <= plain - plain / 4;
}

bool isWanted(const Params& params, CallKind kind) {
  return kind == CallKind::allReduce || (kind == CallKind::reduceScatter && params.reduceScatter) ||
         (kind == CallKind::allGather && params.allGather);
}

bool isSum(const Signature& signature) {
  return signature.kind == CallKind::allGather || signature.op == OpClass::sum ||
         signature.op == OpClass::avg || signature.op == OpClass::preMulSum;
}

}  // namespace

Reason decide(const Params& params, const CommFacts& comm, const Signature& signature,
              uint64_t seenBefore) {
  if (comm.nRanks == 1) return Reason::oneRank;
  if (!comm.agreed) return Reason::notAgreed;
  if (!comm.severalHosts) return Reason::sameHost;
  if (!isWanted(params, signature.kind)) return Reason::kind;
  if (!isSum(signature)) return Reason::operation;
  if (!isCompressibleType(signature.dataType)) return Reason::dataType;
  if (!isBig(params, comm, signature)) return Reason::small;
  if (!savesBytes(params, comm, signature)) return Reason::small;
  if (seenBefore + kCallsToGetReady < static_cast<uint64_t>(params.warmupCalls))
    return Reason::warmup;
  return params.mode == Mode::observe ? Reason::observe : Reason::none;
}

std::string agreedSettings(const Params& params) {
  // Raise it whenever the same calls with the same settings could lead to other messages.
  constexpr int kBehaviour = 2;
  return "behaviour=" + std::to_string(kBehaviour) +
         " wire-format=" + std::to_string(wire::kVersion) + " " + settingsText(params);
}

bool isCompressibleType(ncclDataType_t type) {
  return type == ncclFloat32 || type == ncclFloat16 || type == ncclBfloat16;
}

ElementType elementTypeOf(ncclDataType_t type) {
  if (type == ncclFloat16) return ElementType::fp16;
  return type == ncclBfloat16 ? ElementType::bf16 : ElementType::fp32;
}

wire::Codec codecOf(const Params& params, CallKind kind) {
  if (kind != CallKind::allReduce) return wire::Codec::q8;
  switch (params.codec) {
    case CodecChoice::q2:
      return wire::Codec::q2;
    case CodecChoice::q4:
      return wire::Codec::q4;
    case CodecChoice::q8:
      return wire::Codec::q8;
  }
  return wire::Codec::q8;
}

float errorFeedbackGainOf(const Params& params, CallKind kind) {
  if (kind != CallKind::allReduce) return 0.0f;
  return errorFeedbackGain(params, wire::bitsOf(codecOf(params, kind)));
}

bool marksNewLayout(const Signature& signature) {
  return signature.kind == CallKind::broadcast &&
         (signature.dataType == ncclInt32 || signature.dataType == ncclInt64);
}

}  // namespace cinch
