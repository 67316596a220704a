// Exported functions: communication.
#include "emulator/nccl/api.h"
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
                  "reduced)",
                  function, operation.op, operation.type);
  }
  return checkBuffers(operation, communicator.rank());
}

// Puts what the user made in the place of its handle: it may be gone before the group ends.
Result<Operation> resolved(Operation operation, const Communicator& communicator) {
  if (!reduces(operation.kind) || operation.op < ncclNumOps) return operation;
  const auto made = communicator.userOperations().find(operation.op);
  if (!made || made->type != operation.type) {
    return errorf(Status::invalidArgument,
                  "%s: reduction operation %d was not made on this communicator for type %d",
                  nameOf(operation.kind), operation.op, operation.type);
  }
  operation.op = kPreMulSum;
  operation.scalar = made->scalar;
  return operation;
}

// A communicator that takes communication now.
Result<std::shared_ptr<Communicator>> openCommunicator(const char* function, ncclComm_t comm) {
  std::shared_ptr<Communicator> communicator = find(comm);
  if (communicator == nullptr) {
    return errorf(Status::invalidArgument,
                  "%s: comm is not a communicator, or was destroyed before", function);
  }
  CINCH_TRY(communicator->checkOpen(function));
  CINCH_TRY(communicator->checkReady(function));
  return communicator;
}

Result<void> record(Group& group, const Operation& operation, ncclComm_t comm,
                    cudaStream_t stream) {
  const auto communicator = openCommunicator(nameOf(operation.kind), comm);
  if (!communicator) return communicator.error();
  const Result<Operation> meant = resolved(operation, *communicator.value());
  if (!meant) return meant.error();
  CINCH_TRY(checkOperation(meant.value(), *communicator.value()));
  // An empty collective does nothing; an empty message is a message.
  if (operation.count == 0 && !isPointToPoint(operation.kind)) return {};
  return group.addOperation(communicator.value(), meant.value(), stream);
}

ncclResult_t call(const Operation& operation, ncclComm_t comm, cudaStream_t stream) {
  return guarded([&] {
    return inGroup([&](Group& group) { return record(group, operation, comm, stream); });
  });
}

// The arguments of a collective that is made of messages.
struct Exchange {
  const char* function;
  const void* input;
  void* output;
  size_t count;  // per message
  ncclDataType_t type;
  int root;  // 0 where there is none

  const char* inputOf(int rank) const { return static_cast<const char*>(input) + offset(rank); }
  char* outputOf(int rank) const { return static_cast<char*>(output) + offset(rank); }
  size_t offset(int rank) const { return static_cast<size_t>(rank) * count * elementBytes(type); }
  Operation send(const void* from, int peer) const {
    return {Kind::send, from, nullptr, count, type, ncclSum, peer};
  }
  Operation receive(void* into, int peer) const {
    return {Kind::receive, nullptr, into, count, type, ncclSum, peer};
  }
};

// Makes the messages that `messagesOf(rank, nRanks)` lists.
template <class MessagesOf>
ncclResult_t exchange(const Exchange& arguments, ncclComm_t comm, cudaStream_t stream,
                      MessagesOf messagesOf) {
  const auto add = [&](Group& group) -> Result<void> {
    const auto communicator = openCommunicator(arguments.function, comm);
    if (!communicator) return communicator.error();
    const int nRanks = communicator.value()->nRanks();
    if (arguments.root < 0 || arguments.root >= nRanks || elementBytes(arguments.type) == 0) {
      return errorf(Status::invalidArgument, "%s: root %d or type %d does not exist",
                    arguments.function, arguments.root, arguments.type);
    }
    if (arguments.count == 0) return {};
    for (const Operation& message : messagesOf(communicator.value()->rank(), nRanks)) {
      CINCH_TRY(record(group, message, comm, stream));
    }
    return {};
  };
  return guarded([&] { return inGroup(add); });
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

static ncclResult_t allToAll(const void* sendbuff, void* recvbuff, size_t count,
                             ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  const Exchange arguments{"ncclAlltoAll", sendbuff, recvbuff, count, datatype, 0};
  return exchange(arguments, comm, stream, [&](int, int nRanks) {
    std::vector<Operation> messages;
    for (int peer = 0; peer < nRanks; ++peer) {
      messages.push_back(arguments.send(sendbuff ? arguments.inputOf(peer) : nullptr, peer));
      messages.push_back(arguments.receive(recvbuff ? arguments.outputOf(peer) : nullptr, peer));
    }
    return messages;
  });
}
CINCH_NCCL_API(ncclResult_t, ncclAlltoAll, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return allToAll(sendbuff, recvbuff, count, datatype, comm, stream);
}

static ncclResult_t gather(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  const Exchange arguments{"ncclGather", sendbuff, recvbuff, count, datatype, root};
  return exchange(arguments, comm, stream, [&](int rank, int nRanks) {
    std::vector<Operation> messages{arguments.send(sendbuff, root)};
    for (int peer = 0; peer < (rank == root ? nRanks : 0); ++peer) {
      messages.push_back(arguments.receive(recvbuff ? arguments.outputOf(peer) : nullptr, peer));
    }
    return messages;
  });
}
CINCH_NCCL_API(ncclResult_t, ncclGather, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return gather(sendbuff, recvbuff, count, datatype, root, comm, stream);
}

static ncclResult_t scatter(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, int root, ncclComm_t comm,
                            cudaStream_t stream) {
  const Exchange arguments{"ncclScatter", sendbuff, recvbuff, count, datatype, root};
  return exchange(arguments, comm, stream, [&](int rank, int nRanks) {
    std::vector<Operation> messages{arguments.receive(recvbuff, root)};
    for (int peer = 0; peer < (rank == root ? nRanks : 0); ++peer) {
      messages.push_back(arguments.send(sendbuff ? arguments.inputOf(peer) : nullptr, peer));
    }
    return messages;
  });
}
CINCH_NCCL_API(ncclResult_t, ncclScatter, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return scatter(sendbuff, recvbuff, count, datatype, root, comm, stream);
}

// Of NCCL 2.31: what they ask for is how a GPU does it.
CINCH_NCCL_API(ncclResult_t, ncclAllReduceConfig, const void* sendbuff, void* recvbuff,
               size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
               cudaStream_t stream, const ncclCollConfig_t*) {
  return call({Kind::allReduce, sendbuff, recvbuff, count, datatype, op, -1}, comm, stream);
}
CINCH_NCCL_API(ncclResult_t, ncclReduceScatterConfig, const void* sendbuff, void* recvbuff,
               size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
               cudaStream_t stream, const ncclCollConfig_t*) {
  return call({Kind::reduceScatter, sendbuff, recvbuff, recvcount, datatype, op, -1}, comm, stream);
}
CINCH_NCCL_API(ncclResult_t, ncclAllGatherConfig, const void* sendbuff, void* recvbuff,
               size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
               const ncclCollConfig_t*) {
  return call({Kind::allGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, -1}, comm,
              stream);
}
CINCH_NCCL_API(ncclResult_t, ncclReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
               cudaStream_t stream, const ncclCollConfig_t*) {
  return call({Kind::reduce, sendbuff, recvbuff, count, datatype, op, root}, comm, stream);
}
CINCH_NCCL_API(ncclResult_t, ncclBroadcastConfig, const void* sendbuff, void* recvbuff,
               size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
               cudaStream_t stream, const ncclCollConfig_t*) {
  return call({Kind::broadcast, sendbuff, recvbuff, count, datatype, ncclSum, root}, comm, stream);
}
CINCH_NCCL_API(ncclResult_t, ncclAlltoAllConfig, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
               const ncclCollConfig_t*) {
  return allToAll(sendbuff, recvbuff, count, datatype, comm, stream);
}
CINCH_NCCL_API(ncclResult_t, ncclGatherConfig, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
               const ncclCollConfig_t*) {
  return gather(sendbuff, recvbuff, count, datatype, root, comm, stream);
}
CINCH_NCCL_API(ncclResult_t, ncclScatterConfig, const void* sendbuff, void* recvbuff, size_t count,
               ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
               const ncclCollConfig_t*) {
  return scatter(sendbuff, recvbuff, count, datatype, root, comm, stream);
}
