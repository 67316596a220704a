// What identifies a recurring collective on a communicator, and how often it has been seen.
// Pure: facts that are equal on every rank go in, the same answer comes out on each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "common/nccl_types.h"

namespace cinch {

// Collectives only: point-to-point calls are one rank's own affair.
enum class CallKind : uint8_t {
  allReduce,
  allGather,
  reduceScatter,
  reduce,
  broadcast,
  allToAll,
  gather,
  scatter,
};
// "ncclAllReduce"
const char* functionName(CallKind kind);
// "AllReduce"
const char* kindName(CallKind kind);

// User-created operations carry a handle that differs between ranks, so only the class counts.
enum class OpClass : uint8_t { none, sum, avg, preMulSum, other };

// The class of an operation that NCCL defines itself.
OpClass opClassOf(ncclRedOp_t op);
// "None" "Sum" "Avg" "PreMulSum" "Other"
const char* opName(OpClass op);

struct Signature {
  CallKind kind;
  OpClass op;
  ncclDataType_t dataType;
  uint64_t count;
  bool operator==(const Signature&) const = default;
};

// "AllReduce fp32 Sum x 4194304", for the log and the report.
std::string describe(const Signature& signature);

// "fp32"; "unknown-type" for one that this version does not know.
const char* typeName(ncclDataType_t type);
// Bytes of one value; 0 for a type that this version does not know.
uint32_t bytesOf(ncclDataType_t type);

// Beyond this a count cannot be that of a real buffer, and sums of sizes could overflow.
inline constexpr uint64_t kMaxCount = uint64_t{1} << 44;

// Bytes of the whole buffer: ReduceScatter and AllGather name the values of one shard. The most
// that there is for counts beyond kMaxCount.
uint64_t bufferBytes(const Signature& signature, int nRanks);

// Floating-point values that gradients have.
bool isCompressibleType(ncclDataType_t type);
// Whether it can be a call of a training step, of those that are large: a sum or an average of
// floating-point values, a gather, or a broadcast of floating-point values.
bool isOfStep(const Signature& signature, bool isLarge);
bool isReduction(CallKind kind);

// So many large calls are more than a step has. What has repeated itself for that long is no
// structure within a step, such as a run of equal layers.
inline constexpr uint32_t kLongerThanStep = 256;

struct SignatureHash {
  size_t operator()(const Signature& signature) const;
};

// All of a signature in one number, the same on all ranks, and back. Counts up to kMaxCount.
uint64_t packed(const Signature& signature);
Signature unpacked(uint64_t number);

// A number that is the same on all ranks, whatever else they have seen; no two signatures of a job
// have the same one, but for an accident of 1 in 2^60.
uint64_t identityOf(const Signature& signature, uint32_t codecId, uint32_t place);

// The signatures of one communicator's collectives.
class SignatureTable {
 public:
  struct Seen {
    uint32_t index;   // private to this rank; never used again
    uint64_t before;  // how often it was seen before this call
  };

  // Counts one call. Null when the table is full and the signature new: such a call passes, on
  // every rank alike.
  std::optional<Seen> observe(const Signature& signature);
  // Undoes one observe(): the call did not take place. Leaves no trace where it was the only one.
  void takeBack(const Signature& signature);
  // The index of a signature that has been seen.
  std::optional<uint32_t> find(const Signature& signature) const;

  static constexpr size_t kMaxSignatures = 4096;
  static constexpr uint32_t kNoIndex = 0;  // of no signature

 private:
  struct Entry {
    uint32_t index;
    uint64_t times;
  };
  std::unordered_map<Signature, Entry, SignatureHash> entries_;
  uint32_t nextIndex_ = kNoIndex + 1;
};

}  // namespace cinch
