#include "bench/passthrough/worker.h"

#include <dlfcn.h>

#include <chrono>
#include <thread>

#include "bench/passthrough/allocation_count.h"
#include "tests/fake/nccl/fake_nccl.h"

extern "C" {
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nRanks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, CUstream_st* stream);
}

namespace cinch {
namespace {

constexpr size_t kElems = 256;
constexpr uint64_t kWarmUpCalls = 10000;

void call(ncclComm_t comm, uint64_t nCalls) {
  static float send[kElems], recv[kElems];
  for (uint64_t i = 0; i < nCalls; ++i) {
    ncclAllReduce(send, recv, kElems, ncclFloat32, ncclSum, comm, nullptr);
  }
}

std::string answeringLibrary() {
  Dl_info info{};
  dladdr(dlsym(RTLD_DEFAULT, "ncclAllReduce"), &info);
  return info.dli_fname == nullptr ? "" : info.dli_fname;
}

Measurement measureOn(ncclComm_t comm, uint64_t nCalls) {
  using Clock = std::chrono::steady_clock;
  call(comm, kWarmUpCalls);
  const uint64_t allocations = allocationCount();
  const Clock::time_point start = Clock::now();
  call(comm, nCalls);
  const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
  Measurement result;
  result.nsPerCall = elapsed.count() / static_cast<double>(nCalls);
  result.allocationsPerCall =
      static_cast<double>(allocationCount() - allocations) / static_cast<double>(nCalls);
  return result;
}

}  // namespace

Measurement measure(uint64_t nCalls) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  fakeNcclWaitForRanks(true);
  ncclComm_t comms[2];
  std::thread other([&] { ncclCommInitRank(&comms[1], 2, id, 1); });
  ncclCommInitRank(&comms[0], 2, id, 0);
  other.join();
  Measurement result = measureOn(comms[0], nCalls);
  result.answeredBy = answeringLibrary();
  result.allForwarded = fakeNcclCalls("AllReduce") == static_cast<int64_t>(nCalls + kWarmUpCalls);
  std::thread otherEnd([&] { ncclCommDestroy(comms[1]); });
  ncclCommDestroy(comms[0]);
  otherEnd.join();
  return result;
}

}  // namespace cinch
