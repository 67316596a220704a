#include "interpose/comm/family.h"

#include "interpose/comm/registry.h"

namespace cinch {
namespace {

std::unique_ptr<Joining> joinFrom(CommState& parent, const Birth& birth, int rank, int nRanks) {
  if (!parent.agreed())
    return Joining::passing("the communicator that it was made from is not compressed");
  int device = parent.resources.cudaDevice;
  parent.real.CommCuDevice(*birth.handle, &device);
  const CurrentDevice current(*parent.resources.device, device);
  return Joining::byParent(parent.real, parent.agreement(), birth.ordinal, birth.part, rank,
                           nRanks);
}

void follow(CommState& parent, const Birth& birth) {
  const ncclComm_t comm = *birth.handle;
  int rank = 0, nRanks = 0;
  if (comm == nullptr || parent.real.CommUserRank(comm, &rank) != ncclSuccess ||
      parent.real.CommCount(comm, &nRanks) != ncclSuccess)
    return;
  Registry::instance().add(std::make_shared<CommState>(parent.real, comm, rank, nRanks,
                                                       joinFrom(parent, birth, rank, nRanks)));
}

}  // namespace

void followBirth(CommState& parent, const Birth& birth, ncclResult_t result) {
  if (result == ncclInProgress) return parent.births.await(birth);
  // After a failure the handle may be gone.
  if (result == ncclSuccess) follow(parent, birth);
}

bool followAwaited(CommState& parent, ncclResult_t result) {
  if (result == ncclInProgress) return true;
  return parent.births.take([&](const Birth& birth) { followBirth(parent, birth, result); });
}

}  // namespace cinch
