// A real NCCL that records what is asked of it, fails where told, and moves nothing.
#pragma once

#include <string>
#include <vector>

#include "interpose/real/real_nccl.h"

namespace cinch::test {

struct FakeReal {
  std::vector<std::string> calls;  // "Send 1", "GroupStart", ...
  int failAt = -1;                 // index of the call that fails

  ncclResult_t record(const std::string& call) {
    calls.push_back(call);
    return static_cast<int>(calls.size()) - 1 == failAt ? ncclSystemError : ncclSuccess;
  }
};

inline FakeReal& fakeReal() {
  static FakeReal real;
  return real;
}

inline const RealNccl& fakeRealTable() {
  static const RealNccl table = [] {
    RealNccl t;
    t.path = "fake";
    t.emulator = true;
    t.GroupStart = [] { return fakeReal().record("GroupStart"); };
    t.GroupEnd = [] { return fakeReal().record("GroupEnd"); };
    t.Send = [](const void*, size_t, ncclDataType_t, int peer, ncclComm_t, CUstream_st*) {
      return fakeReal().record("Send " + std::to_string(peer));
    };
    t.Recv = [](void*, size_t, ncclDataType_t, int peer, ncclComm_t, CUstream_st*) {
      return fakeReal().record("Recv " + std::to_string(peer));
    };
    t.AllGather = [](const void*, void*, size_t, ncclDataType_t, ncclComm_t, CUstream_st*) {
      return fakeReal().record("AllGather");
    };
    t.AllReduce = [](const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                     CUstream_st*) { return fakeReal().record("AllReduce"); };
    return t;
  }();
  return table;
}

}  // namespace cinch::test
