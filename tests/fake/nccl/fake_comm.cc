#include "tests/fake/nccl/fake_comm.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/fake/nccl/fake_nccl.h"

struct ncclComm {
  int rank;
  int nRanks;
};

namespace cinch::fake {
namespace {

// The ranks that wait for each other, by hash of their id.
struct Rendezvous {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint64_t, int> arrived;
};

std::atomic<bool> waitForRanks{false};
Rendezvous rendezvous;

void awaitRanks(uint64_t id, int nRanks) {
  std::unique_lock lock(rendezvous.mutex);
  ++rendezvous.arrived[id];
  rendezvous.changed.notify_all();
  rendezvous.changed.wait(lock, [&] { return rendezvous.arrived[id] >= nRanks; });
}

}  // namespace

void fillId(ncclUniqueId* id) {
  static std::atomic<uint32_t> next{1};
  const uint32_t words[7] = {0xfa4e, static_cast<uint32_t>(getpid()), next++};
  memcpy(id->internal, words, sizeof words);
}

ncclComm_t makeComm(int rank, int nRanks) {
  return new ncclComm{rank, nRanks};
}

ncclComm_t copyComm(ncclComm_t comm) {
  return new ncclComm(*comm);
}

void makeAll(ncclComm_t* comms, int nRanks) {
  for (int rank = 0; rank < nRanks; ++rank) comms[rank] = makeComm(rank, nRanks);
}

void destroyComm(ncclComm_t comm) {
  delete comm;
}

void joinComm(ncclComm_t* comm, int nRanks, const ncclUniqueId& id, int rank) {
  if (waitForRanks) awaitRanks(fakeNcclIdHash(&id), nRanks);
  *comm = makeComm(rank, nRanks);
}

int countOf(ncclComm_t comm) {
  return comm->nRanks;
}
int rankOf(ncclComm_t comm) {
  return comm->rank;
}
int deviceOf(ncclComm_t comm) {
  return comm->rank;
}

}  // namespace cinch::fake

extern "C" __attribute__((visibility("default"))) void fakeNcclWaitForRanks(bool wait) {
  cinch::fake::waitForRanks = wait;
}
