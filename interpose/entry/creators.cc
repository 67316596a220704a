#include "common/hash.h"
#include "common/log.h"
#include "interpose/comm/family.h"
#include "interpose/comm/report_writer.h"
#include "interpose/entry/entry.h"
#include "interpose/real/nccl_try.h"

namespace cinch {
namespace {

// What makes communicators from another one: every Split is one kind, whose parts are the colours;
// every list of excluded ranks is a kind of its own, with one part.
constexpr int64_t kSplit = 0;

int64_t shrinkKind(const int* excludedRanks, int nExcluded) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(excludedRanks);
  const bool isSound = excludedRanks != nullptr && nExcluded > 0;
  const size_t nBytes = isSound ? static_cast<size_t>(nExcluded) * sizeof(int) : 0;
  return static_cast<int64_t>(hashBytes(bytes, nBytes) | uint64_t{1}
                                                             << 63);  // no colour is negative
}

bool isOff() {
  return processParams().params.mode == Mode::off;
}

bool isFollowed(const EntryGuard& guard, const RealNccl* real) {
  return guard.outermost() && real != nullptr && !isOff();
}

ncclResult_t refuse(const RealNccl& real, ncclComm_t* comm, const Error& error) {
  CINCH_WARN("AGREE", "%s", error.message.c_str());
  real.CommAbort(*comm);
  *comm = nullptr;
  return static_cast<ncclResult_t>(error.status);
}

// Runs `init` (the real one) after the hello. In a group, and on a non-blocking communicator, the
// real init is still to come when it returns: the verdict is then heard at the first call.
template <class Init>
ncclResult_t initialise(const RealNccl& real, ncclComm_t* comm, int nRanks, const ncclUniqueId& id,
                        int rank, Init init) {
  arm();
  CommResources::loadKernels(real.emulator);
  auto joining = Joining::byId(real, id, rank, nRanks);
  const ncclResult_t result = init();
  // Without a communicator there is nothing to follow; the ranks hear it as this one's leaving.
  if (!isFine(result) || comm == nullptr || *comm == nullptr) return result;
  auto state = std::make_shared<CommState>(real, *comm, rank, nRanks, std::move(joining));
  if (result == ncclSuccess && OpenGroup::of(real) == nullptr)
    if (const auto settled = state->settle(); !settled.ok())
      return refuse(real, comm, settled.error());
  Registry::instance().add(std::move(state));
  return result;
}

void followPassing(const RealNccl& real, ncclComm_t comm, int rank, int nRanks, const char* why) {
  arm();
  CommResources::loadKernels(real.emulator);
  Registry::instance().add(
      std::make_shared<CommState>(real, comm, rank, nRanks, Joining::passing(why)));
}

// Runs `make` (the real Split or Shrink), which makes a communicator from `parent` at `handle`.
template <class Make>
ncclResult_t beget(const std::shared_ptr<CommState>& parent, int64_t kind, int64_t part,
                   ncclComm_t* handle, Make make) {
  if (parent == nullptr) return make();
  if (const auto settled = parent->settle(); !settled.ok())
    return static_cast<ncclResult_t>(settled.error().status);
  const ncclResult_t result = make();
  if (!isFine(result) || handle == nullptr) return result;
  if (OpenGroup* group = OpenGroup::of(parent->real)) {
    group->expectBirth({parent, handle, kind, part});
    return result;
  }
  followBirth(*parent, parent->births.number(handle, kind, part), result);
  return result;
}

}  // namespace
}  // namespace cinch

using namespace cinch;

CINCH_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const EntryGuard guard;
  const ncclResult_t result = CINCH_FORWARD(CINCH_REAL(), GetUniqueId, id);
  if (result != ncclSuccess || !guard.outermost() || isOff()) return result;
  // Every process makes this id itself, and NCCL wants all of them equal: it hashes all bytes, to
  // tell hosts apart and to connect what is split (2.30, init.cc: commHash). A stamp would part
  // them.
  if (areIdsFixed()) return result;
  arm();
  const auto served = serveAgreement(reinterpret_cast<uint8_t*>(id->internal));
  if (!served.ok())
    CINCH_WARN("AGREE", "communicators of this id will not be compressed: %s",
               served.error().message.c_str());
  return result;
}

CINCH_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nRanks, ncclUniqueId id,
                                           int rank) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  const auto init = [&] { return CINCH_FORWARD(real, CommInitRank, comm, nRanks, id, rank); };
  if (!isFollowed(guard, real)) return init();
  return judged(guard, real, initialise(*real, comm, nRanks, id, rank, init));
}

CINCH_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nRanks, ncclUniqueId id,
                                                 int rank, ncclConfig_t* config) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  const auto init = [&] {
    return CINCH_FORWARD(real, CommInitRankConfig, comm, nRanks, id, rank, config);
  };
  if (!isFollowed(guard, real)) return init();
  return judged(guard, real, initialise(*real, comm, nRanks, id, rank, init));
}

// All ranks are given all ids; the first one names the agreement.
CINCH_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int nRanks, int rank, int nIds,
                                                   ncclUniqueId* ids, ncclConfig_t* config) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  const auto init = [&] {
    return CINCH_FORWARD(real, CommInitRankScalable, comm, nRanks, rank, nIds, ids, config);
  };
  if (!isFollowed(guard, real) || nIds < 1 || ids == nullptr) return init();
  return judged(guard, real, initialise(*real, comm, nRanks, ids[0], rank, init));
}

CINCH_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int nDevices, const int* devices) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  const ncclResult_t result = CINCH_FORWARD(real, CommInitAll, comms, nDevices, devices);
  if (result != ncclSuccess || !isFollowed(guard, real)) return result;
  for (int rank = 0; rank < nDevices; ++rank)
    followPassing(*real, comms[rank], rank, nDevices, "one process holds all of its ranks");
  return result;
}

CINCH_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newComm,
                                        ncclConfig_t* config) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  const auto split = [&] {
    return CINCH_FORWARD(real, CommSplit, comm, color, key, newComm, config);
  };
  return judged(guard, real, beget(followed(guard, comm), kSplit, color, newComm, split));
}

CINCH_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludedRanks, int nExcluded,
                                         ncclComm_t* newComm, ncclConfig_t* config, int flags) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  const auto shrink = [&] {
    return CINCH_FORWARD(real, CommShrink, comm, excludedRanks, nExcluded, newComm, config, flags);
  };
  const auto parent = followed(guard, comm);
  const int64_t kind = parent == nullptr ? 0 : shrinkKind(excludedRanks, nExcluded);
  return judged(guard, real, beget(parent, kind, kind, newComm, shrink));
}

// Ranks that join were told of the communicator by means that carry no agreement.
CINCH_EXPORT ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* id,
                                       int rank, ncclComm_t* newComm, ncclConfig_t* config) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  const ncclResult_t result =
      judged(guard, real, CINCH_FORWARD(real, CommGrow, comm, nRanks, id, rank, newComm, config));
  if (isFine(result) && isFollowed(guard, real) && newComm != nullptr && *newComm != nullptr)
    followPassing(*real, *newComm, rank, nRanks, "it was made by ncclCommGrow");
  return result;
}
