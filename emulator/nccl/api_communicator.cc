// Exported functions: the life of a communicator, and questions about it.
#include <atomic>
#include <cstddef>

#include "emulator/nccl/api.h"
#include "emulator/nccl/communicator.h"
#include "emulator/nccl/group.h"
#include "emulator/nccl/unique_id.h"

namespace cinch::emulator {
namespace {

// True where `config`, which may come from an older release, has the field at `offset`.
bool hasField(const ncclConfig_t& config, size_t offset, size_t size) {
  return config.size >= offset + size;
}

Result<void> readConfig(const ncclConfig_t* config, CommunicatorSettings* settings) {
  if (config == nullptr) return {};
  if (config->magic != NCCL_CONFIG_MAGIC) {
    return errorf(Status::invalidArgument,
                  "ncclCommInitRankConfig: config was not made with NCCL_CONFIG_INITIALIZER");
  }
  if (config->blocking == 0) {
    return errorf(
        Status::invalidArgument,
        "ncclCommInitRankConfig: non-blocking communicators (config.blocking = 0) are not "
        "in the emulator yet");
  }
  if (hasField(*config, offsetof(ncclConfig_t, trafficClass), sizeof config->trafficClass)) {
    settings->trafficClass = config->trafficClass;
  }
  if (hasField(*config, offsetof(ncclConfig_t, commName), sizeof config->commName) &&
      config->commName != nullptr) {
    settings->name = config->commName;
  }
  return {};
}

void logVersionOnce() {
  static std::atomic<bool> logged{false};
  if (!logged.exchange(true)) logVersion();
}

Result<void> createCommunicator(ncclComm_t* comm, int nRanks, const ncclUniqueId& packed, int rank,
                                const ncclConfig_t* config) {
  CINCH_TRY(checkPointer(comm, "ncclCommInitRank", "comm"));
  *comm = nullptr;
  if (nRanks < 1 || rank < 0 || rank >= nRanks) {
    return errorf(Status::invalidArgument, "ncclCommInitRank: rank %d of %d does not exist", rank,
                  nRanks);
  }
  const Result<UniqueId> id = unpackUniqueId(packed);
  if (!id) return id.error();
  CommunicatorSettings settings{.rank = rank, .nRanks = nRanks, .name = {}};
  CINCH_TRY(readConfig(config, &settings));
  const cudaError_t error = cudaGetDevice(&settings.device);
  if (error != cudaSuccess) {
    return errorf(Status::cudaError, "ncclCommInitRank: no device: %s", cudaGetErrorString(error));
  }
  if (rank == 0) logVersionOnce();
  const auto communicator = std::make_shared<Communicator>(std::move(settings));
  const ncclComm_t handle = enlist(communicator);
  *comm = handle;
  Group::current().addInitialisation([communicator, handle, id = id.value()] {
    const Result<void> result = communicator->initialise(id);
    if (!result) forget(handle);
    return result;
  });
  return {};
}

// Outside a group waits for the other ranks; inside, GroupEnd does.
ncclResult_t initRank(ncclComm_t* comm, int nRanks, const ncclUniqueId& id, int rank,
                      const ncclConfig_t* config) {
  return guarded([&]() -> Result<void> {
    Group& group = Group::current();
    group.start();
    const Result<void> created = createCommunicator(comm, nRanks, id, rank, config);
    if (!created) group.fail(created.error());
    const Result<void> ended = group.end();
    if (!ended && comm != nullptr) *comm = nullptr;
    return created ? ended : created;
  });
}

Error unknownCommunicator(const char* function) {
  return errorf(Status::invalidArgument, "%s: comm is not a communicator, or was destroyed before",
                function);
}

// Runs `action` on the communicator behind `comm`.
template <class Action>
ncclResult_t withCommunicator(ncclComm_t comm, const char* function, Action action) {
  return guarded([&]() -> Result<void> {
    const std::shared_ptr<Communicator> communicator = find(comm);
    if (communicator == nullptr) return unknownCommunicator(function);
    return action(*communicator);
  });
}

template <class Getter>
ncclResult_t query(ncclComm_t comm, const char* function, int* out, Getter getter) {
  return withCommunicator(comm, function, [&](const Communicator& communicator) -> Result<void> {
    CINCH_TRY(checkPointer(out, function, "the result pointer"));
    *out = getter(communicator);
    return {};
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

CINCH_NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId* uniqueId) {
  return guarded([&]() -> Result<void> {
    CINCH_TRY(checkPointer(uniqueId, "ncclGetUniqueId", "uniqueId"));
    const Result<UniqueId> id = createUniqueId();
    if (!id) return id.error();
    *uniqueId = packUniqueId(id.value());
    return {};
  });
}

CINCH_NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId,
               int rank) {
  return initRank(comm, nranks, commId, rank, nullptr);
}

CINCH_NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int nranks,
               ncclUniqueId commId, int rank, ncclConfig_t* config) {
  return initRank(comm, nranks, commId, rank, config);
}

CINCH_NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  return withCommunicator(comm, "ncclCommFinalize", [](Communicator& communicator) {
    communicator.flush();
    return Result<void>();
  });
}

CINCH_NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return withCommunicator(comm, "ncclCommDestroy", [&](Communicator& communicator) {
    communicator.flush();
    communicator.abort();
    forget(comm);
    logInfo("comm %p rank %d nranks %d - Destroy COMPLETE", static_cast<void*>(comm),
            communicator.rank(), communicator.nRanks());
    return Result<void>();
  });
}

CINCH_NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return withCommunicator(comm, "ncclCommAbort", [&](Communicator& communicator) {
    communicator.abort();
    forget(comm);
    logInfo("comm %p rank %d nranks %d - Abort COMPLETE", static_cast<void*>(comm),
            communicator.rank(), communicator.nRanks());
    return Result<void>();
  });
}

CINCH_NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError) {
  return withCommunicator(
      comm, "ncclCommGetAsyncError", [&](const Communicator& communicator) -> Result<void> {
        CINCH_TRY(checkPointer(asyncError, "ncclCommGetAsyncError", "asyncError"));
        *asyncError = communicator.asyncError();
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
