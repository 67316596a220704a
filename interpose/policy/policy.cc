#include "interpose/policy/policy.h"

namespace cinch {

namespace {

// Of the calls that pass before the first compressed one, the last two get the ranks ready.
constexpr uint64_t kCallsToGetReady = 2;

// The user's word stands against what is only a default.
bool isAskedFor(const History& history) {
  return history.rule != nullptr && history.rule->isWanted;
}

// Every rank sends whole tiles to every other, so many ranks and few values can cost more than
// NCCL.
bool savesBytes(const Params& params, const CommFacts& comm, const Signature& signature,
                const History& history) {
  if (signature.count == 0 || signature.count > kMaxCount) return false;
  const auto nRanks = static_cast<uint32_t>(comm.nRanks);
  const wire::CodecFormat codec =
      codingOf(params, signature.kind, history.place, 0, history.rule).codec.format;
  const auto layout = signature.kind == CallKind::allReduce
                          ? wire::ShardLayout{signature.count, nRanks, codec}
                          : wire::ShardLayout::fixed(signature.count, nRanks, codec);
  const uint64_t plain = layout.count * bytesOf(signature.dataType);
  return layout.totalBytes() <= plain - plain / 4;
}

// NVLink is faster than any codec, and what is not known may be NVLink.
bool isSlowEnough(const Params& params, const CommFacts& comm) {
  if (comm.severalHosts || params.sameHost == SameHostChoice::compress) return true;
  return params.sameHost == SameHostChoice::automatic && comm.isOnPcie;
}

bool isWanted(const Params& params, CallKind kind, bool isAsked) {
  if (kind == CallKind::reduceScatter) return isAsked || params.reduceScatter;
  if (kind == CallKind::allGather) return isAsked || params.allGather;
  return kind == CallKind::allReduce;
}

bool isSum(const Signature& signature) {
  return signature.kind == CallKind::allGather || signature.op == OpClass::sum ||
         signature.op == OpClass::avg || signature.op == OpClass::preMulSum;
}

// The last calls of the warm-up are not part of it: they get the ranks ready.
bool isWarmingUp(const Params& params, const History& history) {
  const auto isYoung = [](uint64_t seen, int64_t enough) {
    return seen + kCallsToGetReady < static_cast<uint64_t>(enough);
  };
  return isYoung(history.seenBefore, params.warmupCalls) ||
         isYoung(history.seenBefore / history.timesPerStep, params.warmupSteps);
}

// What an ambiguous place may hold is found out by the exam. A user may know more.
Reason reasonOfPlace(const History& history) {
  const bool isNamed = history.rule != nullptr && history.rule->isGradient;
  return history.place.kind == Place::Kind::unknown && !isNamed ? Reason::unplaced : Reason::none;
}

// Where slots are places, no other place can keep a residual from step to step.
bool isInDoubt(const Params& params, const Place& place) {
  return place.kind == Place::Kind::ambiguous ||
         (params.slots == SlotChoice::sequence && place.kind == Place::Kind::unknown);
}

constexpr const char* kAutoCodec = "auto";
// Found by the compiler: every call asks for them, also those that pass.
constexpr const codec::CodecInfo* kFirstAutoCodec = codec::findCodec("h3");
// Without feedback: of sums that are coded twice, and of gathers; of a ReduceScatter, which is
// coded once (decision 021 has the losses).
constexpr const codec::CodecInfo* kStatelessCodec = codec::findCodec("q8");
constexpr const codec::CodecInfo* kScatterCodec = codec::findCodec("q5");
constexpr const codec::CodecInfo* kPlacedStatelessCodec = codec::findCodec("q4");

const codec::CodecInfo& atLeast(const codec::CodecInfo& least, const codec::CodecInfo& wanted) {
  return wanted.format.bits < least.format.bits ? least : wanted;
}

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

}  // namespace

// A one-bit code cannot work off what piles up, and has to forget.
CodingRule feedbackOf(const Params& params, const wire::CodecFormat& codec) {
  constexpr float kLowGain = 0.1f, kForgetting = 0.8f;
  const bool forgets = codec.bits == 1;
  CodingRule rule;
  rule.gain = errorFeedbackGain(params, codec.bits >= 8 ? 0.0f : forgets ? kForgetting : kLowGain);
  rule.decay = forgets ? kForgetting : 1.0f;
  rule.residualType = residualTypeOf(params.residual);
  return rule;
}

bool sumsInHosts(const Params& params, const Signature& signature) {
  return params.hierarchy == HierarchyChoice::automatic && signature.kind == CallKind::allReduce &&
         (signature.op == OpClass::sum || signature.op == OpClass::avg);
}

bool isLarge(const Params& params, const CommFacts& comm, const Signature& signature) {
  return signature.count <= kMaxCount && bufferBytes(signature, comm.nRanks) >= params.minBytes;
}

Reason decide(const Params& params, const CommFacts& comm, const Signature& signature,
              const History& history) {
  if (comm.nRanks == 1) return Reason::oneRank;
  if (!comm.agreed) return Reason::notAgreed;
  if (!isSlowEnough(params, comm)) return Reason::sameHost;
  if (history.rule != nullptr && history.rule->passes) return Reason::ruled;
  const bool isAsked = isAskedFor(history);
  const bool isOfWantedKind = isWanted(params, signature.kind, isAsked);
  if (!isOfWantedKind && signature.kind != CallKind::allGather) return Reason::kind;
  if (!isSum(signature)) return Reason::operation;
  if (!isCompressibleType(signature.dataType)) return Reason::dataType;
  if (!isAsked && !isLarge(params, comm, signature)) return Reason::small;
  if (!savesBytes(params, comm, signature, history)) return Reason::small;
  if (!isOfWantedKind) return Reason::gathered;
  if (isWarmingUp(params, history)) return Reason::warmup;
  if (params.slots == SlotChoice::sequence)
    if (const Reason reason = reasonOfPlace(history); reason != Reason::none) return reason;
  return params.mode == Mode::observe ? Reason::observe : Reason::none;
}

std::string agreedSettings(const Params& params, const Rules& rules, const std::string& plan) {
  // Raise it whenever the same calls with the same settings could lead to other messages.
  constexpr int kBehaviour = 32;
  return "behaviour=" + std::to_string(kBehaviour) +
         " wire-format=" + std::to_string(wire::kVersion) + " " + settingsText(params) +
         " CINCH_RULES-hash=" + rules.fingerprint() + " CINCH_PLAN-hash=" + plan;
}

ElementType elementTypeOf(ncclDataType_t type) {
  if (type == ncclFloat16) return ElementType::fp16;
  return type == ncclBfloat16 ? ElementType::bf16 : ElementType::fp32;
}

Coding codingOf(const Params& params, CallKind kind, const Place& place, uint32_t rank,
                const Rule* rule) {
  const codec::CodecInfo* const ruled = rule == nullptr ? nullptr : rule->codec;
  const bool isAuto = ruled == nullptr && params.codec == kAutoCodec;
  const codec::CodecInfo* const chosen = ruled != nullptr ? ruled
                                         : isAuto         ? kFirstAutoCodec
                                                          : codec::findCodec(params.codec);
  if (chosen == nullptr) return {*kStatelessCodec, {}};
  if (kind == CallKind::reduceScatter)
    return {ruled != nullptr ? *ruled : atLeast(*kScatterCodec, *chosen), {}};
  if (kind != CallKind::allReduce) return {ruled != nullptr ? *ruled : *kStatelessCodec, {}};
  if (isInDoubt(params, place)) {
    const bool isTrusted = ruled != nullptr && rule->isGradient;
    return {isTrusted ? *ruled : atLeast(*kStatelessCodec, *chosen), {}};
  }
  Coding coding{*chosen, {}};
  coding.isAdaptive = isAuto;
  coding.rule = feedbackOf(params, coding.codec.format);
  coding.rule.seed = rank;
  const bool isStateless = coding.rule.gain == 0;
  if (params.rounding == RoundingChoice::stochastic && coding.codec.dithers && isStateless)
    coding.rule.rounding = Rounding::stochastic;
  return coding;
}

bool hasStatelessCalls(const Params& params) {
  return params.codec == kAutoCodec;
}

bool mayHaveFeedback(const Params& params) {
  return errorFeedbackGain(params, 1.0f) > 0;
}

const codec::CodecInfo& statelessCodec() {
  return *kPlacedStatelessCodec;
}

bool marksNewLayout(const Signature& signature) {
  return signature.kind == CallKind::broadcast &&
         (signature.dataType == ncclInt32 || signature.dataType == ncclInt64);
}

}  // namespace cinch
