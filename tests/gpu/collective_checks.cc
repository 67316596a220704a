#include "tests/gpu/collective_checks.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace cinch::ranks {
namespace {

constexpr uint8_t kPoison = 0xa5;
// Beyond what a rank receives; they must stay as they are.
constexpr size_t kGuardBytes = 256;

struct Named {
  const char* name;
  int value;
};
constexpr Named kTypes[] = {{"int8", ncclInt8},     {"uint8", ncclUint8},  {"int32", ncclInt32},
                            {"uint32", ncclUint32}, {"int64", ncclInt64},  {"uint64", ncclUint64},
                            {"fp16", ncclFloat16},  {"fp32", ncclFloat32}, {"fp64", ncclFloat64},
                            {"bf16", ncclBfloat16}};
constexpr Named kOperations[] = {
    {"sum", ncclSum}, {"prod", ncclProd}, {"max", ncclMax}, {"min", ncclMin}, {"avg", ncclAvg}};

struct Collective;

struct Call {
  const Collective& collective;
  Named type, operation;
  size_t count;
  int rank, ranks;

  ncclDataType_t dataType() const { return static_cast<ncclDataType_t>(type.value); }
  ncclRedOp_t op() const { return static_cast<ncclRedOp_t>(operation.value); }
  // Not the rank that many things begin with.
  int root() const { return ranks - 1; }
};

struct Buffers {
  const void* send;
  void* receive;
  ncclComm_t comm;
  cudaStream_t stream;
};

struct Collective {
  const char* name;
  bool reduces;
  // Whether a rank sends and receives a part of `count` values per rank, or one.
  bool sendsParts, receivesParts;
  bool toRootOnly;
  ncclResult_t (*enqueue)(const Call& call, const Buffers& at);
  double (*expected)(const Call& call, size_t i);  // the value at `i` of what is received
};

// --- values -----------------------------------------------------------------------------------

bool isUnsigned(ncclDataType_t type) {
  return type == ncclUint8 || type == ncclUint32 || type == ncclUint64;
}

bool isFloatingPoint(ncclDataType_t type) {
  return type == ncclFloat16 || type == ncclFloat32 || type == ncclFloat64 || type == ncclBfloat16;
}

double valueOf(const Call& call, int rank, size_t i) {
  const auto bits = static_cast<int>(mix(i * 16 + static_cast<size_t>(rank)) >> 32 & 15);
  if (call.op() == ncclProd) return 1 + bits % 2;
  return isUnsigned(call.dataType()) ? bits : bits - 8;
}

double combine(ncclRedOp_t op, double a, double b) {
  if (op == ncclProd) return a * b;
  if (op == ncclMax) return std::max(a, b);
  if (op == ncclMin) return std::min(a, b);
  return a + b;
}

double reduced(const Call& call, size_t i) {
  double result = valueOf(call, 0, i);
  for (int rank = 1; rank < call.ranks; ++rank)
    result = combine(call.op(), result, valueOf(call, rank, i));
  return call.op() == ncclAvg ? result / call.ranks : result;
}

double valueOfPart(const Call& call, size_t i) {
  return valueOf(call, static_cast<int>(i / call.count), i % call.count);
}

// The place in what others send of place `i` of the part that is this rank's.
size_t inOwnPart(const Call& call, size_t i) {
  return static_cast<size_t>(call.rank) * call.count + i;
}

template <class T>
void put(void* data, size_t i, T value) {
  memcpy(static_cast<uint8_t*>(data) + i * sizeof(T), &value, sizeof(T));
}

uint16_t bfloatBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

void store(ncclDataType_t type, void* data, size_t i, double value) {
  switch (type) {
    case ncclInt8:
      return put(data, i, static_cast<int8_t>(value));
    case ncclUint8:
      return put(data, i, static_cast<uint8_t>(value));
    case ncclInt32:
      return put(data, i, static_cast<int32_t>(value));
    case ncclUint32:
      return put(data, i, static_cast<uint32_t>(value));
    case ncclInt64:
      return put(data, i, static_cast<int64_t>(value));
    case ncclUint64:
      return put(data, i, static_cast<uint64_t>(value));
    case ncclFloat16:
      return put(data, i, static_cast<_Float16>(value));
    case ncclFloat32:
      return put(data, i, static_cast<float>(value));
    case ncclFloat64:
      return put(data, i, value);
    default:
      return put(data, i, bfloatBits(static_cast<float>(value)));
  }
}

size_t bytesOf(ncclDataType_t type) {
  if (type == ncclInt8 || type == ncclUint8) return 1;
  if (type == ncclFloat16 || type == ncclBfloat16) return 2;
  return type == ncclInt32 || type == ncclUint32 || type == ncclFloat32 ? 4 : 8;
}

// --- collectives ------------------------------------------------------------------------------

void* partOf(const Call& call, void* buffer, int rank) {
  return static_cast<uint8_t*>(buffer) +
         static_cast<size_t>(rank) * call.count * bytesOf(call.dataType());
}

const void* partOf(const Call& call, const void* buffer, int rank) {
  return partOf(call, const_cast<void*>(buffer), rank);
}

ncclResult_t sendAndReceive(const Call& call, const Buffers& at) {
  ncclResult_t result = ncclGroupStart();
  for (int peer = 0; peer < call.ranks && result == ncclSuccess; ++peer) {
    result = ncclSend(partOf(call, at.send, peer), call.count, call.dataType(), peer, at.comm,
                      at.stream);
    if (result != ncclSuccess) break;
    result = ncclRecv(partOf(call, at.receive, peer), call.count, call.dataType(), peer, at.comm,
                      at.stream);
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

double exchanged(const Call& call, size_t i) {
  return valueOf(call, static_cast<int>(i / call.count), inOwnPart(call, i % call.count));
}

constexpr Collective kCollectives[] = {
    {"AllReduce", true, false, false, false,
     [](const Call& call, const Buffers& at) {
       return ncclAllReduce(at.send, at.receive, call.count, call.dataType(), call.op(), at.comm,
                            at.stream);
     },
     reduced},
    {"Reduce", true, false, false, true,
     [](const Call& call, const Buffers& at) {
       return ncclReduce(at.send, at.receive, call.count, call.dataType(), call.op(), call.root(),
                         at.comm, at.stream);
     },
     reduced},
    {"ReduceScatter", true, true, false, false,
     [](const Call& call, const Buffers& at) {
       return ncclReduceScatter(at.send, at.receive, call.count, call.dataType(), call.op(),
                                at.comm, at.stream);
     },
     [](const Call& call, size_t i) { return reduced(call, inOwnPart(call, i)); }},
    {"AllGather", false, false, true, false,
     [](const Call& call, const Buffers& at) {
       return ncclAllGather(at.send, at.receive, call.count, call.dataType(), at.comm, at.stream);
     },
     valueOfPart},
    {"Broadcast", false, false, false, false,
     [](const Call& call, const Buffers& at) {
       return ncclBroadcast(at.send, at.receive, call.count, call.dataType(), call.root(), at.comm,
                            at.stream);
     },
     [](const Call& call, size_t i) { return valueOf(call, call.root(), i); }},
    {"Send and Recv", false, true, true, false, sendAndReceive, exchanged},
#if NCCL_VERSION_CODE >= 22800
    {"AlltoAll", false, true, true, false,
     [](const Call& call, const Buffers& at) {
       return ncclAlltoAll(at.send, at.receive, call.count, call.dataType(), at.comm, at.stream);
     },
     exchanged},
    {"Gather", false, false, true, true,
     [](const Call& call, const Buffers& at) {
       return ncclGather(at.send, at.receive, call.count, call.dataType(), call.root(), at.comm,
                         at.stream);
     },
     valueOfPart},
    {"Scatter", false, true, false, false,
     [](const Call& call, const Buffers& at) {
       return ncclScatter(at.send, at.receive, call.count, call.dataType(), call.root(), at.comm,
                          at.stream);
     },
     [](const Call& call, size_t i) { return valueOf(call, call.root(), inOwnPart(call, i)); }},
#endif
};

// --- one call ---------------------------------------------------------------------------------

std::vector<uint8_t> inputOf(const Call& call) {
  const size_t nValues =
      call.count * static_cast<size_t>(call.collective.sendsParts ? call.ranks : 1);
  std::vector<uint8_t> bytes(nValues * bytesOf(call.dataType()));
  for (size_t i = 0; i < nValues; ++i)
    store(call.dataType(), bytes.data(), i, valueOf(call, call.rank, i));
  return bytes;
}

// All bytes of the receiving buffer, with the guard; only those are as before where another rank is
// the only one to receive.
std::vector<uint8_t> outputOf(const Call& call) {
  const size_t nValues =
      call.count * static_cast<size_t>(call.collective.receivesParts ? call.ranks : 1);
  std::vector<uint8_t> bytes(nValues * bytesOf(call.dataType()) + kGuardBytes, kPoison);
  if (call.collective.toRootOnly && call.rank != call.root()) return bytes;
  for (size_t i = 0; i < nValues; ++i)
    store(call.dataType(), bytes.data(), i, call.collective.expected(call, i));
  return bytes;
}

std::vector<uint8_t> execute(const Call& call, const Device& device, ncclComm_t comm,
                             size_t nOutputBytes) {
  const std::vector<uint8_t> input = inputOf(call);
  std::vector<uint8_t> output(nOutputBytes);
  check(cudaMemcpyAsync(device.send, input.data(), input.size(), cudaMemcpyHostToDevice,
                        device.stream),
        "copy to the device");
  check(cudaMemsetAsync(device.receive, kPoison, nOutputBytes, device.stream), "cudaMemsetAsync");
  check(call.collective.enqueue(call, {device.send, device.receive, comm, device.stream}),
        call.collective.name);
  check(cudaMemcpyAsync(output.data(), device.receive, nOutputBytes, cudaMemcpyDeviceToHost,
                        device.stream),
        "copy from the device");
  finish(device.stream, comm);
  return output;
}

std::string inWords(const Call& call, size_t byte) {
  const std::string operation =
      call.collective.reduces ? " " + std::string(call.operation.name) : "";
  return std::string(call.collective.name) + operation + " of " + std::to_string(call.count) + " " +
         call.type.name + ": byte " + std::to_string(byte) + " on rank " +
         std::to_string(call.rank);
}

void checkCall(const Call& call, const Device& device, ncclComm_t comm, CheckResults* results) {
  const std::vector<uint8_t> expected = outputOf(call);
  const std::vector<uint8_t> output = execute(call, device, comm, expected.size());
  CheckResults::Tally& tally = results->collectives[call.collective.name];
  ++tally.calls;
  if (output == expected) return;
  ++tally.wrong;
  if (!results->firstWrong.empty()) return;
  const auto differing = std::mismatch(output.begin(), output.end(), expected.begin()).first;
  results->firstWrong = inWords(call, static_cast<size_t>(differing - output.begin()));
}

// Averages are exact where a division by the number of ranks is.
bool isExact(ncclDataType_t type, ncclRedOp_t op, int ranks) {
  return op != ncclAvg || (isFloatingPoint(type) && (ranks & (ranks - 1)) == 0);
}

}  // namespace

size_t bytesToCheck(const std::vector<size_t>& counts, int ranks) {
  if (counts.empty()) return 0;
  const size_t largest = *std::max_element(counts.begin(), counts.end());
  return largest * sizeof(double) * static_cast<size_t>(ranks) + kGuardBytes;
}

CheckResults checkCollectives(const Place& place, const Device& device, ncclComm_t comm,
                              const std::vector<size_t>& counts) {
  CheckResults results;
  for (const Collective& collective : kCollectives)
    for (const Named& type : kTypes)
      for (const Named& operation : kOperations) {
        if (!collective.reduces && operation.value != ncclSum) continue;
        for (const size_t count : counts) {
          const Call call{collective, type, operation, count, place.rank, place.ranks};
          if (isExact(call.dataType(), call.op(), call.ranks))
            checkCall(call, device, comm, &results);
        }
      }
  return results;
}

}  // namespace cinch::ranks
