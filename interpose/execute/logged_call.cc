#include "interpose/execute/logged_call.h"

#include <cstdlib>
#include <string_view>

#include "interpose/real/codec_library.h"

namespace cinch {
namespace {

// "communicator 3 rank 0 of 4": the report's number.
int numberOf(const CommState& comm) {
  constexpr std::string_view kBefore = "communicator ";
  return std::atoi(comm.name.c_str() + kBefore.size());
}

uint64_t addressOf(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}

// Of a communicator that is not settled, or was made in one process, the device is the current one.
CallPlace placeOf(const CommState& comm, CUstream_st* stream) {
  if (comm.resources.device != nullptr)
    return {comm.resources.device, comm.resources.cudaDevice, stream};
  const auto library = loadCodecLibrary(comm.real.emulator);
  int cudaDevice = 0;
  if (!library.ok() || library.value()->getDevice(&cudaDevice) != 0) return {};
  return {library.value(), cudaDevice, stream};
}

CallRecord recordOf(const CommState& comm, ncclDataType_t type, size_t count, CUstream_st* stream) {
  CallRecord record;
  record.communicator = numberOf(comm);
  record.rank = comm.rank;
  record.nRanks = comm.nRanks;
  record.type = typeName(type);
  record.count = count;
  record.stream = addressOf(stream);
  return record;
}

bool hasRoot(CallKind kind) {
  return kind == CallKind::reduce || kind == CallKind::broadcast || kind == CallKind::gather ||
         kind == CallKind::scatter;
}

// Which kinds have a buffer that is as long as there are ranks.
bool sendsToEach(CallKind kind) {
  return kind == CallKind::reduceScatter || kind == CallKind::allToAll || kind == CallKind::scatter;
}
bool receivesOfEach(CallKind kind) {
  return kind == CallKind::allGather || kind == CallKind::allToAll || kind == CallKind::gather;
}

// What rank `comm.rank` gives; nothing where its buffer is not looked at.
DeviceValues inputOf(const CommState& comm, const Collective& call) {
  const bool isRootsAlone = call.kind == CallKind::broadcast || call.kind == CallKind::scatter;
  const uint64_t nParts = sendsToEach(call.kind) ? static_cast<uint64_t>(comm.nRanks) : 1;
  const bool isThere = call.count <= kMaxCount && (!isRootsAlone || call.root == comm.rank);
  return {isThere ? call.send : nullptr, isThere ? call.count * nParts : 0, call.type};
}

DeviceValues outputOf(const CommState& comm, const Collective& call) {
  const bool isRootsAlone = call.kind == CallKind::reduce || call.kind == CallKind::gather;
  const uint64_t nParts = receivesOfEach(call.kind) ? static_cast<uint64_t>(comm.nRanks) : 1;
  const bool isThere = call.count <= kMaxCount && (!isRootsAlone || call.root == comm.rank);
  return {isThere ? call.recv : nullptr, isThere ? call.count * nParts : 0, call.type};
}

}  // namespace

LoggedCall::LoggedCall(CallLog* log, const CommState& comm, const Collective& call) : log_(log) {
  if (log == nullptr) return;
  CallRecord record = recordOf(comm, call.type, call.count, call.stream);
  record.kind = kindName(call.kind);
  record.op = opName(reduces(call.kind) ? comm.classOf(call.op, call.type) : OpClass::none);
  if (hasRoot(call.kind)) record.root = call.root;
  record.send = addressOf(call.send);
  record.recv = addressOf(call.recv);
  entry_ = log->begin(std::move(record), placeOf(comm, call.stream), inputOf(comm, call),
                      outputOf(comm, call));
}

LoggedCall::LoggedCall(CallLog* log, const CommState& comm, const Message& message) : log_(log) {
  if (log == nullptr) return;
  CallRecord record = recordOf(comm, message.type, message.count, message.stream);
  record.kind = message.isSent ? "Send" : "Recv";
  record.op = opName(OpClass::none);
  record.root = message.peer;
  (message.isSent ? record.send : record.recv) = addressOf(message.buffer);
  const bool isThere = message.count <= kMaxCount;
  const DeviceValues values{isThere ? message.buffer : nullptr, isThere ? message.count : 0,
                            message.type},
      none{nullptr, 0, message.type};
  entry_ = log->begin(std::move(record), placeOf(comm, message.stream),
                      message.isSent ? values : none, message.isSent ? none : values);
}

ncclResult_t LoggedCall::end(ncclResult_t result, Reason reason) const {
  if (log_ != nullptr) log_->end(entry_, result, kReasonNames[static_cast<size_t>(reason)]);
  return result;
}

}  // namespace cinch
