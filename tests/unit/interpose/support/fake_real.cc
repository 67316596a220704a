#include "tests/unit/interpose/support/fake_real.h"

#include <algorithm>
#include <cstring>

#include "interpose/policy/signature.h"
#include "tests/unit/interpose/support/fake_device.h"

namespace cinch::test {
namespace {

using Calls = std::list<FakeCall>;

const FakeRank* rankOf(ncclComm_t comm) {
  return reinterpret_cast<const FakeRank*>(comm);
}

size_t bytesOf(const FakeCall& call) {
  return call.count * cinch::bytesOf(call.type);
}

// The first call of `rank` in `calls` that `wanted` accepts; its end where there is none.
template <class Wanted>
Calls::iterator firstOf(Calls& calls, int rank, Wanted wanted) {
  return std::find_if(calls.begin(), calls.end(), [&](const FakeCall& call) {
    return call.from->rank == rank && wanted(call);
  });
}

bool matchMessage(Calls& calls, Calls::iterator send) {
  const int from = send->from->rank;
  const auto receive = firstOf(calls, send->peer, [&](const FakeCall& call) {
    return call.name == "Recv" && call.peer == from;
  });
  if (receive == calls.end()) return false;
  memcpy(receive->recv, send->send, std::min(bytesOf(*send), bytesOf(*receive)));
  calls.erase(send);
  calls.erase(receive);
  return true;
}

// Sums in rank order, of fp32 only.
void reduceInto(const std::vector<FakeCall>& ranks, size_t count, size_t offset, float* out) {
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (const FakeCall& call : ranks) sum += static_cast<const float*>(call.send)[offset + i];
    out[i] = sum;
  }
}

void finish(const std::vector<FakeCall>& ranks) {
  std::vector<std::vector<float>> results;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const FakeCall& call = ranks[rank];
    if (call.name == "AllGather")
      for (const FakeCall& peer : ranks)
        memmove(static_cast<char*>(call.recv) + bytesOf(call) * peer.from->rank, peer.send,
                bytesOf(call));
    if (call.name != "AllReduce" && call.name != "ReduceScatter") continue;
    if (call.type != ncclFloat32) continue;
    const size_t offset = call.name == "AllReduce" ? 0 : rank * call.count;
    results.emplace_back(call.count);
    reduceInto(ranks, call.count, offset, results.back().data());
  }
  for (size_t rank = 0; rank < results.size(); ++rank)
    memcpy(ranks[rank].recv, results[rank].data(), bytesOf(ranks[rank]));
}

bool matchCollective(Calls& calls, const FakeRank& any) {
  std::vector<Calls::iterator> found;
  for (int rank = 0; rank < any.nRanks; ++rank) {
    found.push_back(firstOf(calls, rank, [](const FakeCall& call) { return call.peer < 0; }));
    if (found.back() == calls.end()) return false;
  }
  // Ranks that make different calls wait for each other for ever.
  const FakeCall& first = *found.front();
  for (const auto& call : found)
    if (call->name != first.name || call->count != first.count || call->type != first.type)
      return false;
  std::vector<FakeCall> ranks;
  for (const auto& call : found) {
    ranks.push_back(*call);
    calls.erase(call);
  }
  finish(ranks);
  return true;
}

// Carries out one call for which all parts are there.
bool matchOne(Calls& calls) {
  for (auto call = calls.begin(); call != calls.end(); ++call) {
    if (call->name == "Recv") continue;
    if (call->peer >= 0 ? matchMessage(calls, call) : matchCollective(calls, *call->from))
      return true;
  }
  return false;
}

template <class Value>
ncclResult_t answer(const char* name, Value value, Value* out) {
  const ncclResult_t result = fakeReal().record(name);
  if (result == ncclSuccess) *out = value;
  return result;
}

void addMessages(RealNccl& t) {
  t.Send = [](const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
              CUstream_st* stream) {
    return fakeReal().move({rankOf(comm), "Send", peer, send, nullptr, count, type, stream});
  };
  t.Recv = [](void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
              CUstream_st* stream) {
    return fakeReal().move({rankOf(comm), "Recv", peer, nullptr, recv, count, type, stream});
  };
}

void addCollectives(RealNccl& t) {
  t.AllGather = [](const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                   CUstream_st* stream) {
    return fakeReal().move({rankOf(comm), "AllGather", -1, send, recv, count, type, stream});
  };
  t.AllReduce = [](const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t,
                   ncclComm_t comm, CUstream_st* stream) {
    return fakeReal().move({rankOf(comm), "AllReduce", -1, send, recv, count, type, stream});
  };
  t.ReduceScatter = [](const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t,
                       ncclComm_t comm, CUstream_st* stream) {
    return fakeReal().move({rankOf(comm), "ReduceScatter", -1, send, recv, count, type, stream});
  };
}

void addQuestions(RealNccl& t) {
  t.CommCount = [](ncclComm_t comm, int* count) {
    return answer("CommCount", rankOf(comm)->nRanks, count);
  };
  t.CommUserRank = [](ncclComm_t comm, int* rank) {
    return answer("CommUserRank", rankOf(comm)->rank, rank);
  };
  t.CommCuDevice = [](ncclComm_t, int* device) { return answer("CommCuDevice", 0, device); };
  t.CommGetAsyncError = [](ncclComm_t, ncclResult_t* state) { return fakeReal().poll(state); };
}

RealNccl makeRealTable() {
  RealNccl t;
  t.path = "fake";
  t.emulator = true;
  t.GroupStart = [] {
    const ncclResult_t result = fakeReal().record("GroupStart");
    fakeReal().depth += result == ncclSuccess;
    return result;
  };
  t.GroupEnd = [] { return fakeReal().endGroup(); };
  addMessages(t);
  addCollectives(t);
  addQuestions(t);
  return t;
}

}  // namespace

ncclResult_t FakeReal::record(const std::string& call) {
  calls.push_back(call);
  timeline().push_back(call);
  passTime(call);
  const bool fails = static_cast<int>(calls.size()) - 1 == failAt;
  return fails ? failure : ncclSuccess;
}

ncclResult_t FakeReal::move(const FakeCall& call) {
  const std::string peer = call.peer < 0 ? "" : " " + std::to_string(call.peer);
  const ncclResult_t result = record(call.name + peer);
  if (result == ncclSuccess) recorded.push_back(call);
  if (depth > 0 && groupError == ncclSuccess) groupError = result;
  if (depth == 0) launch();
  return result;
}

// A group is closed whatever is wrong with it; one in which a call failed launches nothing.
ncclResult_t FakeReal::endGroup() {
  ncclResult_t result = record("GroupEnd");
  if (depth == 0) return ncclInvalidUsage;
  if (--depth > 0) return result;
  if (groupError != ncclSuccess) result = groupError;
  groupError = ncclSuccess;
  if (result != ncclSuccess) {
    recorded.clear();
    return result;
  }
  if (nonBlocking && pollsUntilDone > 0) return ncclInProgress;
  launch();
  return ncclSuccess;
}

ncclResult_t FakeReal::poll(ncclResult_t* state) {
  const ncclResult_t result = record("CommGetAsyncError");
  if (result != ncclSuccess) return result;
  *state = asyncError;
  if (asyncError != ncclSuccess) return ncclSuccess;
  if (pollsUntilDone > 0 && --pollsUntilDone > 0) {
    *state = ncclInProgress;
    return ncclSuccess;
  }
  if (depth == 0) launch();
  return ncclSuccess;
}

void FakeReal::launch() {
  for (const FakeCall& call : recorded) {
    waiting[call.from->world].push_back(call);
    fakeDevice().orderings.push_back({call.name, call.stream, nullptr, 0});
  }
  recorded.clear();
  for (auto& [world, calls] : waiting)
    while (matchOne(calls)) {
    }
}

bool FakeReal::isIdle() const {
  return depth == 0 && recorded.empty() &&
         std::all_of(waiting.begin(), waiting.end(),
                     [](const auto& it) { return it.second.empty(); });
}

FakeReal& fakeReal() {
  static FakeReal real;
  return real;
}

const RealNccl& fakeRealTable() {
  static const RealNccl table = makeRealTable();
  return table;
}

}  // namespace cinch::test
