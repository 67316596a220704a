// A real NCCL for ranks that are driven by one thread: it records what is asked of it, fails where
// told, and moves the data of a group when its outermost level ends, as far as the other ranks have
// asked for their part.
#pragma once

#include <list>
#include <map>
#include <string>
#include <vector>

#include "interpose/real/real_nccl.h"

namespace cinch::test {

// What a communicator's handle points to.
struct FakeRank {
  int rank = 0;
  int nRanks = 1;
  int world = 0;  // ranks of one world talk to each other
  ncclComm_t handle() { return reinterpret_cast<ncclComm_t>(this); }
};

// One call that moves data.
struct FakeCall {
  const FakeRank* from;
  std::string name;
  int peer;  // -1: a collective
  const void* send;
  void* recv;
  size_t count;
  ncclDataType_t type;
  const void* stream;
};

struct FakeReal {
  std::vector<std::string> calls;  // "Send 1", "GroupStart", ...
  int failAt = -1;                 // index of the call that fails
  ncclResult_t failure = ncclSystemError;

  int depth = 0;  // of the open group
  ncclResult_t groupError = ncclSuccess;
  bool nonBlocking = false;  // the end of a group says ncclInProgress, and
  int pollsUntilDone = 0;    // this many questions later it is done
  ncclResult_t asyncError = ncclSuccess;
  std::vector<FakeCall> recorded;              // in the open group, or in progress
  std::map<int, std::list<FakeCall>> waiting;  // by world: for other ranks

  ncclResult_t record(const std::string& call);
  ncclResult_t move(const FakeCall& call);
  ncclResult_t endGroup();
  ncclResult_t poll(ncclResult_t* state);
  void launch();
  bool isIdle() const;
};

FakeReal& fakeReal();
const RealNccl& fakeRealTable();

}  // namespace cinch::test
