// The fake's communicators: a rank, a number of ranks and a device number that equals the rank.
#pragma once

#include "common/nccl_types.h"

namespace cinch::fake {

// Like NCCL, fills the start of the id only.
void fillId(ncclUniqueId* id);

ncclComm_t makeComm(int rank, int nRanks);
ncclComm_t copyComm(ncclComm_t comm);
void makeAll(ncclComm_t* comms, int nRanks);
void destroyComm(ncclComm_t comm);

// makeComm(), after all ranks of the id have come where that was asked for.
void joinComm(ncclComm_t* comm, int nRanks, const ncclUniqueId& id, int rank);

int countOf(ncclComm_t comm);
int rankOf(ncclComm_t comm);
int deviceOf(ncclComm_t comm);

}  // namespace cinch::fake
