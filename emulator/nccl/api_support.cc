// Exported functions: what stands around communication: groups, operations, memory.
#include <algorithm>
#include <cstring>

#include "emulator/nccl/api.h"
#include "emulator/nccl/reduction.h"

namespace cinch::emulator {
namespace {

// As much of the struct as the caller knows is read and written.
Result<void> simulateEnd(ncclSimInfo_t* info) {
  float microseconds = 0;
  CINCH_TRY(Group::current().simulateEnd(&microseconds));
  if (info == nullptr) return {};
  const size_t field = offsetof(ncclSimInfo_t, estimatedTime);
  if (info->magic != NCCL_SIM_INFO_MAGIC) {
    return errorf(Status::invalidArgument,
                  "ncclGroupSimulateEnd: simInfo was not made with NCCL_SIM_INFO_INITIALIZER");
  }
  if (info->size >= field + sizeof microseconds) info->estimatedTime = microseconds;
  return {};
}

Result<UserOperation> preMulSum(const void* scalar, ncclDataType_t type,
                                ncclScalarResidence_t residence) {
  constexpr const char* kFunction = "ncclRedOpCreatePreMulSum";
  CINCH_TRY(checkPointer(scalar, kFunction, "scalar"));
  if (elementBytes(type) == 0) {
    return errorf(Status::invalidArgument, "%s: invalid type %d", kFunction, type);
  }
  UserOperation operation{type, {}};
  if (residence == ncclScalarHostImmediate) {
    memcpy(&operation.scalar.value, scalar, elementBytes(type));
  } else if (residence == ncclScalarDevice) {
    operation.scalar.device = scalar;
  } else {
    return errorf(Status::invalidArgument, "%s: invalid residence %d", kFunction, residence);
  }
  return operation;
}

Result<void> registerMemory(Communicator& communicator, Registrations::Kind kind,
                            const char* function, void* buff, size_t size, void** handle) {
  CINCH_TRY(checkPointer(buff, function, "buff"));
  CINCH_TRY(checkPointer(handle, function, "the result pointer"));
  if (size == 0) return errorf(Status::invalidArgument, "%s: size is 0", function);
  *handle = communicator.registrations().add(kind, buff, size);
  return {};
}

// NULL is what NCCL hands out where it registers nothing.
Result<void> deregisterMemory(Communicator& communicator, Registrations::Kind kind,
                              const char* function, const void* handle) {
  if (handle == nullptr || communicator.registrations().remove(kind, handle)) return {};
  return errorf(Status::invalidArgument, "%s: the handle is not, or no longer, registered here",
                function);
}

}  // namespace
}  // namespace cinch::emulator

using namespace cinch;
using namespace cinch::emulator;

CINCH_NCCL_API(ncclResult_t, ncclGroupStart, void) {
  Group::current().start();
  return ncclSuccess;
}

CINCH_NCCL_API(ncclResult_t, ncclGroupEnd, void) {
  return guarded([] { return Group::current().end(); });
}

CINCH_NCCL_API(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t* simInfo) {
  return guarded([&] { return simulateEnd(simInfo); });
}

CINCH_NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar,
               ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm) {
  return withReadyCommunicator(
      comm, "ncclRedOpCreatePreMulSum",
      [&](const std::shared_ptr<Communicator>& communicator) -> Result<void> {
        CINCH_TRY(checkPointer(op, "ncclRedOpCreatePreMulSum", "op"));
        const Result<UserOperation> operation = preMulSum(scalar, datatype, residence);
        if (!operation) return operation.error();
        *op = communicator->userOperations().add(operation.value());
        return {};
      });
}

CINCH_NCCL_API(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
  return withCommunicator(
      comm, "ncclRedOpDestroy",
      [&](const std::shared_ptr<Communicator>& communicator) -> Result<void> {
        if (communicator->userOperations().remove(op)) return {};
        return errorf(Status::invalidArgument,
                      "ncclRedOpDestroy: operation %d was not made on this communicator", op);
      });
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

CINCH_NCCL_API(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void* buff, size_t size,
               void** handle) {
  return withReadyCommunicator(comm, "ncclCommRegister",
                               [&](const std::shared_ptr<Communicator>& communicator) {
                                 return registerMemory(*communicator, Registrations::Kind::buffer,
                                                       "ncclCommRegister", buff, size, handle);
                               });
}

CINCH_NCCL_API(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void* handle) {
  return withCommunicator(comm, "ncclCommDeregister",
                          [&](const std::shared_ptr<Communicator>& communicator) {
                            return deregisterMemory(*communicator, Registrations::Kind::buffer,
                                                    "ncclCommDeregister", handle);
                          });
}

CINCH_NCCL_API(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void* buff, size_t size,
               ncclWindow_t* win, int winFlags) {
  return withReadyCommunicator(
      comm, "ncclCommWindowRegister",
      [&](const std::shared_ptr<Communicator>& communicator) -> Result<void> {
        if ((winFlags & ~NCCL_WIN_COLL_SYMMETRIC) != 0) {
          return errorf(Status::invalidArgument, "ncclCommWindowRegister: unknown flags 0x%x",
                        static_cast<unsigned>(winFlags));
        }
        return registerMemory(*communicator, Registrations::Kind::window, "ncclCommWindowRegister",
                              buff, size, reinterpret_cast<void**>(win));
      });
}

CINCH_NCCL_API(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t win) {
  return withCommunicator(comm, "ncclCommWindowDeregister",
                          [&](const std::shared_ptr<Communicator>& communicator) {
                            return deregisterMemory(*communicator, Registrations::Kind::window,
                                                    "ncclCommWindowDeregister", win);
                          });
}

// Tells programs that look for it that this is not NVIDIA's library.
extern "C" [[gnu::visibility("default")]] const int cinchEmulatorMarker = 1;
