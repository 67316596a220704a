// Exported functions: the end of a communicator, and questions about it.
#include "emulator/nccl/api.h"

namespace cinch::emulator {
namespace {

void logEnd(const Communicator& communicator, const char* what) {
  logInfo("comm %p rank %d nranks %d - %s COMPLETE", static_cast<const void*>(&communicator),
          communicator.rank(), communicator.nRanks(), what);
}

template <class Getter>
ncclResult_t query(ncclComm_t comm, const char* function, int* out, Getter getter) {
  return withCommunicator(comm, function,
                          [&](const std::shared_ptr<Communicator>& communicator) -> Result<void> {
                            CINCH_TRY(checkPointer(out, function, "the result pointer"));
                            if (communicator->state() == ncclInProgress)
                              return communicator->checkReady(function);
                            *out = getter(*communicator);
                            return {};
                          });
}

Result<void> finalize(const std::shared_ptr<Communicator>& communicator) {
  CINCH_TRY(communicator->checkReady("ncclCommFinalize"));
  if (!communicator->checkOpen("ncclCommFinalize") || !communicator->finalize()) {
    return errorf(Status::invalidArgument,
                  "ncclCommFinalize: comm was finalized or revoked before");
  }
  return inGroup([&](Group& group) {
    return group.addJob({communicator, false, [communicator] {
                           communicator->flush();
                           return Result<void>();
                         }});
  });
}

}  // namespace
}  // namespace cinch::emulator

using namespace cinch;
using namespace cinch::emulator;

CINCH_NCCL_API(ncclResult_t, ncclGetVersion, int* version) {
  return guarded([&]() -> Result<void> {
    CINCH_TRY(checkPointer(version, "ncclGetVersion", "version"));
    *version = NCCL_VERSION_CODE;
    return {};
  });
}

CINCH_NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  return withCommunicator(comm, "ncclCommFinalize", finalize);
}

CINCH_NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return withCommunicator(comm, "ncclCommDestroy",
                          [](const std::shared_ptr<Communicator>& communicator) -> Result<void> {
                            if (communicator->state() == ncclInProgress) {
                              return communicator->checkReady("ncclCommDestroy");
                            }
                            communicator->flush();
                            communicator->stop();
                            forget(*communicator);
                            logEnd(*communicator, "Destroy");
                            return {};
                          });
}

CINCH_NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return withCommunicator(comm, "ncclCommAbort",
                          [](const std::shared_ptr<Communicator>& communicator) {
                            communicator->abort();
                            forget(*communicator);
                            logEnd(*communicator, "Abort");
                            return Result<void>();
                          });
}

CINCH_NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int revokeFlags) {
  if (comm == nullptr) return ncclSuccess;
  return withCommunicator(
      comm, "ncclCommRevoke",
      [&](const std::shared_ptr<Communicator>& communicator) -> Result<void> {
        if (communicator->state() == ncclInProgress) {
          return communicator->checkReady("ncclCommRevoke");
        }
        const bool allowed = revokeFlags == NCCL_REVOKE_DEFAULT &&
                             communicator->checkOpen("ncclCommRevoke") && communicator->revoke();
        if (allowed) return {};
        return errorf(Status::invalidArgument,
                      "ncclCommRevoke: unknown flags, or comm was finalized or revoked before");
      });
}

CINCH_NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError) {
  return withCommunicator(
      comm, "ncclCommGetAsyncError",
      [&](const std::shared_ptr<Communicator>& communicator) -> Result<void> {
        CINCH_TRY(checkPointer(asyncError, "ncclCommGetAsyncError", "asyncError"));
        *asyncError = communicator->state();
        return {};
      });
}

CINCH_NCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count) {
  return query(comm, "ncclCommCount", count, [](const Communicator& it) { return it.nRanks(); });
}

CINCH_NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  return query(comm, "ncclCommCuDevice", device,
               [](const Communicator& it) { return it.device(); });
}

CINCH_NCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank) {
  return query(comm, "ncclCommUserRank", rank, [](const Communicator& it) { return it.rank(); });
}

CINCH_NCCL_API(const char*, ncclGetErrorString, ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "a CUDA call failed (NCCL_DEBUG=INFO tells more)";
    case ncclSystemError:
      return "a system call failed (NCCL_DEBUG=INFO tells more)";
    case ncclInternalError:
      return "internal error of the emulator";
    case ncclInvalidArgument:
      return "invalid argument (NCCL_DEBUG=WARN tells which)";
    case ncclInvalidUsage:
      return "invalid usage (NCCL_DEBUG=WARN tells more)";
    case ncclRemoteError:
      return "a remote process exited, or the network failed";
    case ncclInProgress:
      return "operation in progress";
    default:
      return "unknown result code";
  }
}

CINCH_NCCL_API(const char*, ncclGetLastError, ncclComm_t) {
  return lastError();
}
