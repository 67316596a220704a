#include "interpose/policy/signature.h"

#include <limits>

#include "common/hash.h"

namespace cinch {
namespace {

const char* nameOf(OpClass op) {
  switch (op) {
    case OpClass::none:
      return "";
    case OpClass::sum:
      return " Sum";
    case OpClass::avg:
      return " Avg";
    case OpClass::preMulSum:
      return " PreMulSum";
    case OpClass::other:
      return " other-op";
  }
  return "?";
}

struct TypeFacts {
  const char* name;
  uint32_t bytes;
};

// Indexed by ncclDataType_t.
constexpr TypeFacts kTypes[ncclNumTypes] = {
    {"int8", 1}, {"uint8", 1}, {"int32", 4}, {"uint32", 4}, {"int64", 8},   {"uint64", 8},
    {"fp16", 2}, {"fp32", 4},  {"fp64", 8},  {"bf16", 2},   {"fp8e4m3", 1}, {"fp8e5m2", 1},
};

bool known(ncclDataType_t type) {
  return type >= 0 && type < ncclNumTypes;
}

// Indexed by CallKind.
constexpr const char* kFunctions[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
                                      "ncclReduce",    "ncclBroadcast", "ncclAlltoAll",
                                      "ncclGather",    "ncclScatter"};
constexpr size_t kPrefix = 4;  // "nccl"

}  // namespace

const char* functionName(CallKind kind) {
  return kFunctions[static_cast<size_t>(kind)];
}

const char* kindName(CallKind kind) {
  return functionName(kind) + kPrefix;
}

const char* opName(OpClass op) {
  static constexpr const char* kNames[] = {"None", "Sum", "Avg", "PreMulSum", "Other"};
  return kNames[static_cast<size_t>(op)];
}

const char* typeName(ncclDataType_t type) {
  return known(type) ? kTypes[type].name : "unknown-type";
}

OpClass opClassOf(ncclRedOp_t op) {
  if (op == ncclSum) return OpClass::sum;
  return op == ncclAvg ? OpClass::avg : OpClass::other;
}

uint32_t bytesOf(ncclDataType_t type) {
  return known(type) ? kTypes[type].bytes : 0;
}

bool isCompressibleType(ncclDataType_t type) {
  return type == ncclFloat32 || type == ncclFloat16 || type == ncclBfloat16;
}

bool isReduction(CallKind kind) {
  return kind == CallKind::allReduce || kind == CallKind::reduceScatter || kind == CallKind::reduce;
}

bool isOfStep(const Signature& signature, bool isLarge) {
  if (!isLarge || signature.kind == CallKind::allGather) return isLarge;
  if (!isCompressibleType(signature.dataType)) return false;
  const OpClass op = signature.op;
  const bool isSum = op == OpClass::sum || op == OpClass::avg || op == OpClass::preMulSum;
  return signature.kind == CallKind::broadcast || (isReduction(signature.kind) && isSum);
}

uint64_t bufferBytes(const Signature& signature, int nRanks) {
  if (signature.count > kMaxCount) return std::numeric_limits<uint64_t>::max();
  const bool isShard =
      signature.kind == CallKind::reduceScatter || signature.kind == CallKind::allGather;
  const uint64_t nShards = isShard ? static_cast<uint64_t>(nRanks) : 1;
  return signature.count * nShards * bytesOf(signature.dataType);
}

std::string describe(const Signature& signature) {
  return std::string(kindName(signature.kind)) + " " + typeName(signature.dataType) +
         nameOf(signature.op) + " x " + std::to_string(signature.count);
}

size_t SignatureHash::operator()(const Signature& signature) const {
  const uint64_t kinds = static_cast<uint64_t>(signature.kind) << 16 |
                         static_cast<uint64_t>(signature.op) << 8 |
                         static_cast<uint64_t>(signature.dataType);
  return std::hash<uint64_t>{}((signature.count * 0x9e3779b97f4a7c15u) ^ kinds);
}

namespace {

// kMaxCount takes one bit more than a shift of as many says.
constexpr int kCountBits = 45, kTypeBits = 8, kOpBits = 4;

}  // namespace

uint64_t packed(const Signature& signature) {
  uint64_t number = static_cast<uint64_t>(signature.kind);
  number = number << kOpBits | static_cast<uint64_t>(signature.op);
  number = number << kTypeBits | (static_cast<uint64_t>(signature.dataType) & 0xff);
  return number << kCountBits | std::min(signature.count, kMaxCount);
}

Signature unpacked(uint64_t number) {
  const auto take = [&number](int bits) {
    const uint64_t taken = number & ((uint64_t{1} << bits) - 1);
    number >>= bits;
    return taken;
  };
  Signature signature{};
  signature.count = take(kCountBits);
  signature.dataType = static_cast<ncclDataType_t>(take(kTypeBits));
  signature.op = static_cast<OpClass>(take(kOpBits));
  signature.kind = static_cast<CallKind>(number);
  return signature;
}

uint64_t identityOf(const Signature& signature, uint32_t codecId, uint32_t place) {
  const uint64_t facts[] = {static_cast<uint64_t>(signature.kind),
                            static_cast<uint64_t>(signature.op),
                            static_cast<uint64_t>(signature.dataType),
                            signature.count,
                            codecId,
                            place};
  return hashBytes(reinterpret_cast<const uint8_t*>(facts), sizeof facts);
}

std::optional<SignatureTable::Seen> SignatureTable::observe(const Signature& signature) {
  auto found = entries_.find(signature);
  if (found == entries_.end()) {
    if (entries_.size() >= kMaxSignatures) return std::nullopt;
    const Entry first{nextIndex_++, 0};
    found = entries_.emplace(signature, first).first;
  }
  return Seen{found->second.index, found->second.times++};
}

void SignatureTable::takeBack(const Signature& signature) {
  const auto found = entries_.find(signature);
  if (found == entries_.end()) return;
  if (found->second.times > 1)
    --found->second.times;
  else
    entries_.erase(found);
}

std::optional<uint32_t> SignatureTable::find(const Signature& signature) const {
  const auto found = entries_.find(signature);
  return found == entries_.end() ? std::nullopt : std::optional(found->second.index);
}

}  // namespace cinch
