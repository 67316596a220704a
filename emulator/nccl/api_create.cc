// Exported functions: how communicators are made.
#include <atomic>

#include "emulator/nccl/api.h"
#include "emulator/nccl/unique_id.h"

namespace cinch::emulator {
namespace {

void logVersionOnce() {
  static std::atomic<bool> logged{false};
  if (!logged.exchange(true)) logVersion();
}

// The settings of a rank on the current device.
Result<CommunicatorSettings> settingsOf(const char* function, int nRanks, int rank,
                                        const ncclConfig_t* config) {
  if (nRanks < 1 || rank < 0 || rank >= nRanks) {
    return errorf(Status::invalidArgument, "%s: rank %d of %d does not exist", function, rank,
                  nRanks);
  }
  CommunicatorSettings settings{.rank = rank, .nRanks = nRanks};
  CINCH_TRY(readConfig(config, function, &settings));
  CINCH_TRY(cudaResult(function, cudaGetDevice(&settings.device)));
  return settings;
}

Result<void> addInitialisation(Group& group, const char* function, ncclComm_t* comm, int nRanks,
                               const ncclUniqueId& packed, int rank, const ncclConfig_t* config) {
  CINCH_TRY(checkPointer(comm, function, "comm"));
  *comm = nullptr;
  Result<CommunicatorSettings> settings = settingsOf(function, nRanks, rank, config);
  if (!settings) return settings.error();
  const Result<UniqueId> id = unpackUniqueId(packed);
  if (!id) return id.error();
  if (rank == 0) logVersionOnce();
  const auto communicator = std::make_shared<Communicator>(std::move(settings.value()));
  CINCH_TRY(group.addJob({communicator, true, [communicator, id = id.value()] {
                            return communicator->initialise(id);
                          }}));
  *comm = enlist(communicator);
  return {};
}

// Outside a group waits for the other ranks; inside, GroupEnd does.
ncclResult_t initRank(const char* function, ncclComm_t* comm, int nRanks, const ncclUniqueId& id,
                      int rank, const ncclConfig_t* config) {
  return guarded([&] {
    const Result<void> result = inGroup([&](Group& group) {
      return addInitialisation(group, function, comm, nRanks, id, rank, config);
    });
    const bool failed = !result && result.error().status != Status::inProgress;
    if (failed && comm != nullptr) *comm = nullptr;
    return result;
  });
}

// One rank for each device; all belong to this thread.
Result<void> initAll(ncclComm_t* comms, int nDevices, const int* devices) {
  CINCH_TRY(checkPointer(comms, "ncclCommInitAll", "comm"));
  int nPresent = 0, before = 0;
  CINCH_TRY(cudaResult("ncclCommInitAll", cudaGetDeviceCount(&nPresent)));
  CINCH_TRY(cudaResult("ncclCommInitAll", cudaGetDevice(&before)));
  if (nDevices < 1 || nPresent < 1) {
    return errorf(Status::invalidArgument, "ncclCommInitAll: %d devices asked for, %d there",
                  nDevices, nPresent);
  }
  ncclUniqueId id;
  // By its public name, as NCCL does: who overrides that one sees this call too.
  if (const ncclResult_t made = ncclGetUniqueId(&id); made != ncclSuccess) {
    return errorf(static_cast<Status>(made), "ncclCommInitAll: there is no unique id");
  }
  const Result<void> result = inGroup([&](Group& group) -> Result<void> {
    for (int rank = 0; rank < nDevices; ++rank) {
      const int device = devices == nullptr ? rank % nPresent : devices[rank];
      const cudaError_t chosen = cudaSetDevice(device);
      if (chosen != cudaSuccess) {
        return errorf(Status::invalidArgument, "ncclCommInitAll: there is no device %d", device);
      }
      CINCH_TRY(
          addInitialisation(group, "ncclCommInitAll", &comms[rank], nDevices, id, rank, nullptr));
    }
    return {};
  });
  cudaSetDevice(before);
  return result;
}

// A new communicator of some of the ranks of another one. *comm stays null until it is there.
Result<void> addChild(Group& group, const std::shared_ptr<Communicator>& parent,
                      ChildRequest request, ncclComm_t* comm) {
  *comm = nullptr;
  return group.addJob({parent, false, [parent, comm, request = std::move(request)]() {
                         auto child = parent->makeChild(request);
                         if (!child) return Result<void>(child.error());
                         if (child.value() != nullptr) *comm = enlist(std::move(child.value()));
                         return Result<void>();
                       }});
}

// The parent's settings where the caller gives none.
Result<CommunicatorSettings> childSettings(const Communicator& parent, const char* function,
                                           const ncclConfig_t* config) {
  if (config == nullptr) return parent.settings();
  CommunicatorSettings settings{.device = parent.device()};
  CINCH_TRY(readConfig(config, function, &settings));
  return settings;
}

Result<void> split(const std::shared_ptr<Communicator>& parent, Choice choice, ncclComm_t* comm,
                   const ncclConfig_t* config) {
  CINCH_TRY(checkPointer(comm, "ncclCommSplit", "newcomm"));
  const auto settings = childSettings(*parent, "ncclCommSplit", config);
  if (!settings) return settings.error();
  CINCH_TRY(parent->checkReady("ncclCommSplit"));
  return inGroup([&](Group& group) {
    const ChildRequest request{remainingRanks(parent->nRanks(), {}), choice, settings.value(),
                               parent->nextSplitNonce()};
    return addChild(group, parent, request, comm);
  });
}

Result<void> checkExcluded(const Communicator& parent, const std::vector<int>& excluded) {
  for (const int rank : excluded) {
    if (rank == parent.rank() || rank < 0 || rank >= parent.nRanks()) {
      return errorf(Status::invalidArgument,
                    "ncclCommShrink: rank %d of %d cannot exclude rank %d: excluded ranks exist "
                    "and do not call",
                    parent.rank(), parent.nRanks(), rank);
    }
  }
  if (!excluded.empty()) return {};
  return errorf(Status::invalidArgument, "ncclCommShrink: no rank is excluded");
}

Result<void> shrink(const std::shared_ptr<Communicator>& parent, const std::vector<int>& excluded,
                    ncclComm_t* comm, const ncclConfig_t* config, int flags) {
  CINCH_TRY(checkExcluded(*parent, excluded));
  const auto settings = childSettings(*parent, "ncclCommShrink", config);
  if (!settings) return settings.error();
  if (parent->state() == ncclInProgress || flags == NCCL_SHRINK_DEFAULT) {
    CINCH_TRY(parent->checkReady("ncclCommShrink"));
  }
  if (flags == NCCL_SHRINK_ABORT) parent->stop();
  const std::vector<int> remaining = remainingRanks(parent->nRanks(), excluded);
  return inGroup([&](Group& group) {
    const Choice sameOrder{0, 0};
    return addChild(group, parent,
                    {remaining, sameOrder, settings.value(), parent->shrinkNonce(remaining)}, comm);
  });
}

}  // namespace
}  // namespace cinch::emulator

using namespace cinch;
using namespace cinch::emulator;

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
  return initRank("ncclCommInitRank", comm, nranks, commId, rank, nullptr);
}

CINCH_NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int nranks,
               ncclUniqueId commId, int rank, ncclConfig_t* config) {
  return initRank("ncclCommInitRankConfig", comm, nranks, commId, rank, config);
}

// All ranks meet at the first id; there are never so many here that one root would be slow.
CINCH_NCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank,
               int nId, ncclUniqueId* commIds, ncclConfig_t* config) {
  if (commIds == nullptr || nId < 1 || nId > nranks) {
    return report(errorf(Status::invalidArgument,
                         "ncclCommInitRankScalable: %d ids for %d ranks: from one in all to one "
                         "per rank",
                         commIds == nullptr ? 0 : nId, nranks));
  }
  return initRank("ncclCommInitRankScalable", newcomm, nranks, commIds[0], myrank, config);
}

CINCH_NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t* comm, int ndev, const int* devlist) {
  return guarded([&] { return initAll(comm, ndev, devlist); });
}

CINCH_NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key,
               ncclComm_t* newcomm, ncclConfig_t* config) {
  return withCommunicator(comm, "ncclCommSplit", [&](const std::shared_ptr<Communicator>& parent) {
    return split(parent, {color, key}, newcomm, config);
  });
}

CINCH_NCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int* excludeRanksList,
               int excludeRanksCount, ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  return withCommunicator(
      comm, "ncclCommShrink", [&](const std::shared_ptr<Communicator>& parent) -> Result<void> {
        CINCH_TRY(checkPointer(newcomm, "ncclCommShrink", "newcomm"));
        CINCH_TRY(checkPointer(excludeRanksList, "ncclCommShrink", "excludeRanksList"));
        const std::vector<int> excluded(excludeRanksList,
                                        excludeRanksList + std::max(0, excludeRanksCount));
        return shrink(parent, excluded, newcomm, config, shrinkFlags);
      });
}
