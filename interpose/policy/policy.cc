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
    "voted_no",
};

namespace {

// Of the calls that pass before the first compressed one, the last two get the ranks ready.
constexpr uint64_t kCallsToGetReady = 2;

// Every rank sends whole tiles to every other, so many ranks and few values can cost more than
// NCCL.
bool savesBytes(const Params& params, const CommFacts& comm, const Signature& signature) {
  const wire::ShardLayout layout{signature.count, static_cast<uint32_t>(comm.nRanks),
                                 codecOf(params.codec)};
  const uint64_t plain = signature.count * bytesOf(signature.dataType);
  return layout.totalBytes() <= plain - plain / 4;
}

}  // namespace

Reason decide(const Params& params, const CommFacts& comm, const Signature& signature,
              uint64_t seenBefore) {
  if (comm.nRanks == 1) return Reason::oneRank;
  if (!comm.agreed) return Reason::notAgreed;
  if (!comm.severalHosts) return Reason::sameHost;
  if (signature.kind != CallKind::allReduce) return Reason::kind;
  if (signature.op != OpClass::sum && signature.op != OpClass::avg) return Reason::operation;
  if (!isCompressibleType(signature.dataType)) return Reason::dataType;
  if (signature.count < params.minBytes / bytesOf(signature.dataType)) return Reason::small;
  if (!savesBytes(params, comm, signature)) return Reason::small;
  if (seenBefore + kCallsToGetReady < static_cast<uint64_t>(params.warmupCalls))
    return Reason::warmup;
  return params.mode == Mode::observe ? Reason::observe : Reason::none;
}

std::string agreedSettings(const Params& params) {
  // Raise it whenever the same calls with the same settings could lead to other messages.
  constexpr int kBehaviour = 1;
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

wire::Codec codecOf(CodecChoice choice) {
  switch (choice) {
    case CodecChoice::q2:
      return wire::Codec::q2;
    case CodecChoice::q4:
      return wire::Codec::q4;
    case CodecChoice::q8:
      return wire::Codec::q8;
  }
  return wire::Codec::q8;
}

bool marksNewLayout(const Signature& signature) {
  return signature.kind == CallKind::broadcast &&
         (signature.dataType == ncclInt32 || signature.dataType == ncclInt64);
}

}  // namespace cinch
