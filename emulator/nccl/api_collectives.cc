// Exported functions: communication, groups, memory.
#include "emulator/nccl/api.h"
#include "emulator/nccl/communicator.h"
#include "emulator/nccl/group.h"
#include "emulator/nccl/reduction.h"

namespace cinch::emulator {
namespace {

const char* nameOf(Kind kind) {
  switch (kind) {
    case Kind::allReduce:
      return "ncclAllReduce";
    case Kind::reduceScatter:
      return "ncclReduceScatter";
    case Kind::allGather:
      return "ncclAllGather";
    case Kind::broadcast:
      return "ncclBroadcast";
    case Kind::reduce:
      return "ncclReduce";
    case Kind::send:
      return "ncclSend";
    default:
      return "ncclRecv";
  }
}

bool needsInput(const Operation& operation, int rank) {
  if (operation.kind == Kind::broadcast) return operation.peer == rank;
  return operation.kind != Kind::receive;
}

bool needsOutput(const Operation& operation, int rank) {
  if (operation.kind == Kind::reduce) return operation.peer == rank;
  return operation.kind != Kind::send;
}

bool hasPeer(Kind kind) {
  return isPointToPoint(kind) || kind == Kind::broadcast || kind == Kind::reduce;
}

Result<void> checkBuffers(const Operation& operation, int rank) {
  if (operation.count == 0) return {};
  const char* function = nameOf(operation.kind);
  if (needsInput(operation, rank)) CINCH_TRY(checkPointer(operation.input, function, "sendbuff"));
  if (needsOutput(operation, rank)) CINCH_TRY(checkPointer(operation.output, function, "recvbuff"));
  return {};
}

Result<void> checkOperation(const Operation& operation, const Communicator& communicator) {
  const char* function = nameOf(operation.kind);
  if (elementBytes(operation.type) == 0) {
    return errorf(Status::invalidArgument, "%s: invalid type %d", function, operation.type);
  }
  if (hasPeer(operation.kind) && (operation.peer < 0 || operation.peer >= communicator.nRanks())) {
    return errorf(Status::invalidArgument, "%s: invalid root or peer %d (ranks are 0 to %d)",
                  function, operation.peer, communicator.nRanks() - 1);
  }
  if (reduces(operation.kind) && findReduction(operation.type, operation.op) == nullptr) {
    return errorf(Status::invalidArgument,
                  "%s: operation %d on type %d is not in the emulator (8-bit floats cannot be "
                  "reduced, and there are no user-made operations)",
                  function, operation.op, operation.type);
  }
  return checkBuffers(operation, communicator.rank());
}

Result<void> record(const Operation& operation, ncclComm_t comm, cudaStream_t stream) {
  std::shared_ptr<Communicator> communicator = find(comm);
  if (communicator == nullptr || !communicator->isReady()) {
    return errorf(Status::invalidArgument,
                  "%s: comm is not a communicator, or not initialised, or was destroyed before",
                  nameOf(operation.kind));
  }
  CINCH_TRY(checkOperation(operation, *communicator));
  // An empty collective does nothing; an empty message is a message.
  if (operation.count == 0 && !isPointToPoint(operation.kind)) return {};
  Group::current().addOperation(std::move(communicator), operation, stream);
  return {};
}

ncclResult_t call(const Operation& operation, ncclComm_t comm, cudaStream_t stream) {
  return guarded([&]() -> Result<void> {
    Group& group = Group::current();
    group.start();
    const Result<void> recorded = record(operation, comm, stream);
    if (!recorded) group.fail(recorded.error());
    const Result<void> ended = group.end();
    return recorded ? ended : recorded;
  });
}

Result<void> cudaResult(const char* function, cudaError_t error) {
  if (error == cudaSuccess) return {};
  return errorf(Status::cudaError, "%s: %s", function, cudaGetErrorString(error));
}

}  // namespace
}  // namespace cinch::emulator

using namespace cinch;
using namespace cinch::emulator;

CINCH_NCCL_API(ncclResult_t, ncclAllReduce, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::allReduce, sendbuff, recvbuff, count, datatype, op, -1}, comm, stream);
}

CINCH_NCCL_API(ncclResult_t, ncclReduceScatter, const void* sendbuff, void* recvbuff,
               size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
               cudaStream_t stream) {
  return call({Kind::reduceScatter, sendbuff, recvbuff, recvcount, datatype, op, -1}, comm, stream);
}

CINCH_NCCL_API(ncclResult_t, ncclAllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
               ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::allGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, -1}, comm,
              stream);
}

CINCH_NCCL_API(ncclResult_t, ncclReduce, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
               cudaStream_t stream) {
  return call({Kind::reduce, sendbuff, recvbuff, count, datatype, op, root}, comm, stream);
}

CINCH_NCCL_API(ncclResult_t, ncclBroadcast, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::broadcast, sendbuff, recvbuff, count, datatype, ncclSum, root}, comm, stream);
}

// Like NCCL's, calls ncclBroadcast by its public name: who overrides that one sees this call too.
CINCH_NCCL_API(ncclResult_t, ncclBcast, void* buff, size_t count, ncclDataType_t datatype, int root,
               ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

CINCH_NCCL_API(ncclResult_t, ncclSend, const void* sendbuff, size_t count, ncclDataType_t datatype,
               int peer, ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::send, sendbuff, nullptr, count, datatype, ncclSum, peer}, comm, stream);
}

CINCH_NCCL_API(ncclResult_t, ncclRecv, void* recvbuff, size_t count, ncclDataType_t datatype,
               int peer, ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::receive, nullptr, recvbuff, count, datatype, ncclSum, peer}, comm, stream);
}

CINCH_NCCL_API(ncclResult_t, ncclGroupStart, void) {
  Group::current().start();
  return ncclSuccess;
}

CINCH_NCCL_API(ncclResult_t, ncclGroupEnd, void) {
  return guarded([] { return Group::current().end(); });
}

CINCH_NCCL_API(ncclResult_t, ncclMemAlloc, void** ptr, size_t size) {
  return guarded([&]() -> Result<void> {
    CINCH_TRY(checkPointer(ptr, "ncclMemAlloc", "ptr"));
    return cudaResult("ncclMemAlloc", cudaMalloc(ptr, size));
  });
}

CINCH_NCCL_API(ncclResult_t, ncclMemFree, void* ptr) {
  return guarded([&] { return cudaResult("ncclMemFree", cudaFree(ptr)); });
}

// Tells programs that look for it that this is not NVIDIA's library.
extern "C" [[gnu::visibility("default")]] const int cinchEmulatorMarker = 1;
