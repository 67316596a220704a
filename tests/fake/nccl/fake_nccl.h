// What a test asks the fake libnccl.so.2: which calls arrived, with which arguments, and what they
// should answer. Plain C ABI, so that it can also be found with dlsym.
//
// The fake exports the public functions of NCCL 2.18 to 2.32 as the real library does (weak ncclX,
// strong pncclX, unversioned). It never moves data and never waits. Names are given without prefix:
// "AllReduce". Thread-safe.
#pragma once

#include <cstdint>

#include "common/nccl_types.h"

extern "C" {

// How often the function was called, by either name; -1 where NCCL has no such function.
int64_t fakeNcclCalls(const char* name);

// The arguments of the last call, each widened to 64 bits (an id by value: fakeNcclIdHash()), at
// most `maxArgs` of them. Returns how many the function has; -1 where NCCL has no such function or
// it was never called.
int fakeNcclLastCall(const char* name, uint64_t* args, int maxArgs);

// What an ncclUniqueId passed by value looks like among the arguments.
uint64_t fakeNcclIdHash(const ncclUniqueId* id);

// What the function answers from now on instead of ncclSuccess. A call that fails has no effect.
// Returns false where NCCL has no such function.
bool fakeNcclSetResult(const char* name, ncclResult_t result);

// With true, CommInitRank and CommInitRankConfig return once all ranks of the id have entered them
// in this process, as the real ones do. Off at first: one process can then play a single rank.
void fakeNcclWaitForRanks(bool wait);
}
