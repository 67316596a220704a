// Calls every function that Cinch overrides with arguments of its own, and checks that the library
// underneath saw exactly those, once, and that its answer came back. Exits 0 if so.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "emulator/include/nccl.h"
#include "tests/fake/nccl/fake_nccl.h"

namespace {

int failures = 0;

// An argument as the fake records it.
uint64_t word(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

void expect(bool good, const char* name, const char* what) {
  if (good) return;
  printf("%s: %s\n", name, what);
  ++failures;
}

void expectArrived(const char* name, const std::vector<uint64_t>& wanted) {
  uint64_t seen[16] = {};
  const int n = fakeNcclLastCall(name, seen, 16);
  expect(n == static_cast<int>(wanted.size()), name, "wrong number of arguments arrived");
  for (size_t i = 0; i < wanted.size() && n > 0; ++i)
    expect(seen[i] == wanted[i], name, "an argument changed on the way");
}

// Calls `call` twice: the real library first succeeds, then fails.
template <class Call>
void check(const char* name, const std::vector<uint64_t>& arguments, Call call) {
  const int64_t before = fakeNcclCalls(name);
  expect(call() == ncclSuccess, name, "a success was not returned");
  expect(fakeNcclCalls(name) == before + 1, name, "did not arrive exactly once");
  expectArrived(name, arguments);
  fakeNcclSetResult(name, ncclInvalidUsage);
  expect(call() == ncclInvalidUsage, name, "an error was not returned");
  fakeNcclSetResult(name, ncclSuccess);
}

}  // namespace

int main() {
  ncclUniqueId id;
  check("GetUniqueId", {word(&id)}, [&] { return ncclGetUniqueId(&id); });
  ncclComm_t comm = nullptr;
  if (ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) return printf("no communicator\n"), 1;
  expectArrived("CommInitRank", {word(&comm), 1, fakeNcclIdHash(&id), 0});

  char a[64], b[64];
  auto* stream = reinterpret_cast<CUstream_st*>(0x1230);
  const uint64_t s = word(stream), c = word(comm);
  check("AllReduce", {word(a), word(b), 5, ncclFloat64, ncclMax, c, s},
        [&] { return ncclAllReduce(a, b, 5, ncclFloat64, ncclMax, comm, stream); });
  check("AllGather", {word(a), word(b), 6, ncclInt8, c, s},
        [&] { return ncclAllGather(a, b, 6, ncclInt8, comm, stream); });
  check("ReduceScatter", {word(a), word(b), 7, ncclInt32, ncclMin, c, s},
        [&] { return ncclReduceScatter(a, b, 7, ncclInt32, ncclMin, comm, stream); });
  check("Reduce", {word(a), word(b), 8, ncclFloat16, ncclProd, 0, c, s},
        [&] { return ncclReduce(a, b, 8, ncclFloat16, ncclProd, 0, comm, stream); });
  check("Broadcast", {word(a), word(b), 9, ncclUint64, 0, c, s},
        [&] { return ncclBroadcast(a, b, 9, ncclUint64, 0, comm, stream); });
  check("Bcast", {word(a), 10, ncclUint8, 0, c, s},
        [&] { return ncclBcast(a, 10, ncclUint8, 0, comm, stream); });
  check("Send", {word(a), 11, ncclBfloat16, 0, c, s},
        [&] { return ncclSend(a, 11, ncclBfloat16, 0, comm, stream); });
  check("Recv", {word(b), 12, ncclFloat32, 0, c, s},
        [&] { return ncclRecv(b, 12, ncclFloat32, 0, comm, stream); });
  check("GroupStart", {}, [] { return ncclGroupStart(); });
  check("GroupEnd", {}, [] { return ncclGroupEnd(); });
  ncclResult_t error = ncclSuccess;
  check("CommGetAsyncError", {c, word(&error)},
        [&] { return ncclCommGetAsyncError(comm, &error); });
  expect(ncclCommFinalize(comm) == ncclSuccess, "CommFinalize", "a success was not returned");
  expectArrived("CommFinalize", {c});
  expect(ncclCommDestroy(comm) == ncclSuccess, "CommDestroy", "a success was not returned");
  expectArrived("CommDestroy", {c});
  printf(failures == 0 ? "forwarded\n" : "failed\n");
  return failures;
}
