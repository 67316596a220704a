#include "interpose/policy/policy.h"

namespace cinch {

const char* const kReasonNames[kReasonCount] = {
    "compressed", "unknown_communicator",
    "one_rank",   "not_agreed",
    "same_host",  "kind",
    "operation",  "data_type",
    "small",      "many_kinds",
    "warmup",     "unplaced",
    "ambiguous",  "observe",
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

// Every rank sends whole tiles to every other, so many ranks and few values can cost more than
// NCCL.
bool savesBytes(const Params& params, const CommFacts& comm, const Signature& signature,
                const Place& place) {
  const auto nRanks = static_cast<uint32_t>(comm.nRanks);
  const wire::CodecFormat codec = codingOf(params, signature.kind, place, 0).codec.format;
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

// An average is one of gradients: activations have no use for it.
Reason reasonOfPlace(const Signature& signature, const Place& place) {
  if (place.kind == Place::Kind::unknown) return Reason::unplaced;
  const bool averages = signature.op == OpClass::avg || signature.op == OpClass::preMulSum;
  return place.kind == Place::Kind::known || averages ? Reason::none : Reason::ambiguous;
}

constexpr const char* kDefaultCodec = "q8";
constexpr uint8_t kBitsWithoutFeedback = 8;

ResidualType residualTypeOf(ResidualChoice choice) {
  switch (choice) {
    case ResidualChoice::bf16:
      return ResidualType::bf16;
    case ResidualChoice::int8:
      return ResidualType::int8;
    default:
      return ResidualType::fp32;
  }
}

// Low-gain feedback where codes are coarse. A one-bit code cannot work off what piles up, and has
// to forget.
CodingRule feedbackOf(const Params& params, const wire::CodecFormat& codec) {
  constexpr float kLowGain = 0.1f, kForgetting = 0.8f;
  const bool forgets = codec.bits == 1;
  CodingRule rule;
  rule.gain = errorFeedbackGain(params, codec.bits >= 8 ? 0.0f : forgets ? kForgetting : kLowGain);
  rule.decay = forgets ? kForgetting : 1.0f;
  rule.residualType = residualTypeOf(params.residual);
  return rule;
}

}  // namespace

bool isLarge(const Params& params, const CommFacts& comm, const Signature& signature) {
  return signature.count <= kMaxCount &&
         valuesOf(comm, signature) * bytesOf(signature.dataType) >= params.minBytes;
}

Reason decide(const Params& params, const CommFacts& comm, const Signature& signature,
              const History& history) {
  if (comm.nRanks == 1) return Reason::oneRank;
  if (!comm.agreed) return Reason::notAgreed;
  if (!comm.severalHosts) return Reason::sameHost;
  if (!isWanted(params, signature.kind)) return Reason::kind;
  if (!isSum(signature)) return Reason::operation;
  if (!isCompressibleType(signature.dataType)) return Reason::dataType;
  if (!isLarge(params, comm, signature)) return Reason::small;
  if (!savesBytes(params, comm, signature, history.place)) return Reason::small;
  if (history.seenBefore + kCallsToGetReady < static_cast<uint64_t>(params.warmupCalls))
    return Reason::warmup;
  if (params.slots == SlotChoice::sequence)
    if (const Reason reason = reasonOfPlace(signature, history.place); reason != Reason::none)
      return reason;
  return params.mode == Mode::observe ? Reason::observe : Reason::none;
}

std::string agreedSettings(const Params& params) {
  // Raise it whenever the same calls with the same settings could lead to other messages.
  constexpr int kBehaviour = 3;
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

Coding codingOf(const Params& params, CallKind kind, const Place& place, uint32_t rank) {
  const Coding stateless{*codec::findCodec(kDefaultCodec), {}};
  const codec::CodecInfo* chosen = codec::findCodec(params.codec);
  if (kind != CallKind::allReduce || chosen == nullptr) return stateless;
  const bool isAmbiguous = place.kind == Place::Kind::ambiguous;
  if (isAmbiguous && chosen->format.bits < kBitsWithoutFeedback) return stateless;
  Coding coding{*chosen, {}};
  if (isAmbiguous) return coding;
  coding.rule = feedbackOf(params, coding.codec.format);
  coding.rule.seed = rank;
  const bool isStateless = coding.rule.gain == 0;
  if (params.rounding == RoundingChoice::stochastic && coding.codec.dithers && isStateless)
    coding.rule.rounding = Rounding::stochastic;
  return coding;
}

bool marksNewLayout(const Signature& signature) {
  return signature.kind == CallKind::broadcast &&
         (signature.dataType == ncclInt32 || signature.dataType == ncclInt64);
}

}  // namespace cinch
