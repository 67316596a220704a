// Exported functions of NCCL's device API and of NCCL 2.29 and 2.30, without which programs that
// were built for those do not load. Few of them can work here; the others fail, with the reason in
// the log.
#include "emulator/nccl/api.h"

namespace cinch::emulator {
namespace {

ncclResult_t missing(const char* function, const char* what) {
  return guarded([&]() -> Result<void> {
    return errorf(Status::invalidUsage, "%s: the emulated NCCL has no %s", function, what);
  });
}

constexpr const char* kGrow = "communicators that grow";
constexpr const char* kSuspend = "device memory that a communicator could give back for a while";
constexpr const char* kSignals = "one-sided operations";
constexpr const char* kDevice = "operations that kernels start";

}  // namespace
}  // namespace cinch::emulator

using namespace cinch;
using namespace cinch::emulator;

// A communicator here has no device memory at all.
CINCH_NCCL_API(ncclResult_t, ncclCommMemStats, ncclComm_t comm, ncclCommMemStat_t stat,
               uint64_t* value) {
  return withReadyCommunicator(
      comm, "ncclCommMemStats", [&](const std::shared_ptr<Communicator>&) -> Result<void> {
        CINCH_TRY(checkPointer(value, "ncclCommMemStats", "value"));
        if (stat < ncclStatGpuMemSuspend || stat > ncclStatGpuMemTotal) {
          return errorf(Status::invalidArgument, "ncclCommMemStats: unknown statistic %d", stat);
        }
        *value = 0;
        return {};
      });
}

CINCH_NCCL_API(ncclResult_t, ncclWinGetUserPtr, ncclComm_t comm, ncclWindow_t win,
               void** outUserPtr) {
  return withReadyCommunicator(
      comm, "ncclWinGetUserPtr",
      [&](const std::shared_ptr<Communicator>& communicator) -> Result<void> {
        CINCH_TRY(checkPointer(outUserPtr, "ncclWinGetUserPtr", "outUserPtr"));
        *outUserPtr = communicator->registrations().find(Registrations::Kind::window, win);
        if (*outUserPtr != nullptr) return {};
        return errorf(Status::invalidArgument,
                      "ncclWinGetUserPtr: the window is not, or no longer, registered here");
      });
}

CINCH_NCCL_API(ncclResult_t, ncclCommSuspend, ncclComm_t, int) {
  return missing("ncclCommSuspend", kSuspend);
}

CINCH_NCCL_API(ncclResult_t, ncclCommResume, ncclComm_t) {
  return missing("ncclCommResume", kSuspend);
}

CINCH_NCCL_API(ncclResult_t, ncclCommGetUniqueId, ncclComm_t, ncclUniqueId*) {
  return missing("ncclCommGetUniqueId", kGrow);
}

CINCH_NCCL_API(ncclResult_t, ncclCommGrow, ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*,
               ncclConfig_t*) {
  return missing("ncclCommGrow", kGrow);
}

CINCH_NCCL_API(ncclResult_t, ncclPutSignal, const void*, size_t, ncclDataType_t, int, ncclWindow_t,
               size_t, int, int, unsigned int, ncclComm_t, cudaStream_t) {
  return missing("ncclPutSignal", kSignals);
}

CINCH_NCCL_API(ncclResult_t, ncclSignal, int, int, int, unsigned int, ncclComm_t, cudaStream_t) {
  return missing("ncclSignal", kSignals);
}

CINCH_NCCL_API(ncclResult_t, ncclWaitSignal, int, ncclWaitSignalDesc_t*, ncclComm_t, cudaStream_t) {
  return missing("ncclWaitSignal", kSignals);
}

CINCH_NCCL_API(ncclResult_t, ncclDevCommCreate, ncclComm_t, const ncclDevCommRequirements_t*,
               ncclDevComm_t*) {
  return missing("ncclDevCommCreate", kDevice);
}

CINCH_NCCL_API(ncclResult_t, ncclDevCommDestroy, ncclComm_t, const ncclDevComm_t*) {
  return missing("ncclDevCommDestroy", kDevice);
}

CINCH_NCCL_API(ncclResult_t, ncclGetLsaMultimemDevicePointer, ncclWindow_t, size_t, void**) {
  return missing("ncclGetLsaMultimemDevicePointer", kDevice);
}

CINCH_NCCL_API(ncclResult_t, ncclGetPeerDevicePointer, ncclWindow_t, size_t, int, void**) {
  return missing("ncclGetPeerDevicePointer", kDevice);
}
