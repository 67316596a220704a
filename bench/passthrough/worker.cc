#include "bench/passthrough/worker.h"

#include <dlfcn.h>

#include <chrono>
#include <memory>

#include "bench/passthrough/allocation_count.h"
#include "common/hash.h"
#include "common/param.h"
#include "emulator/include/cuda_runtime_api.h"
#include "interpose/agree/agreement.h"
#include "interpose/policy/policy.h"
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

// A buffer as programs have it. It is never read: the NCCL below moves nothing.
void* deviceBuffer() {
  void* memory = nullptr;
  cudaMalloc(&memory, kElems * sizeof(float));
  return memory;
}

// Neither inlined nor cloned: a program's calls come from the same place again and again, and the
// first one from each place looks up whose they are.
[[gnu::noipa]] void call(ncclComm_t comm, uint64_t nCalls) {
  static void* const buffer = deviceBuffer();
  for (uint64_t i = 0; i < nCalls; ++i) {
    ncclAllReduce(buffer, buffer, kElems, ncclFloat32, ncclSum, comm, nullptr);
  }
}

// Speaks for a rank on another host, so that rank 0's communicator may compress and the small calls
// take the whole way through the policy. Null without Cinch.
std::unique_ptr<Agreement> greetAsRankOne(const ncclUniqueId& id) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(id.internal);
  if (!hasAgreementStamp(bytes)) return nullptr;
  Hello hello;
  hello.rank = 1;
  hello.nRanks = 2;
  hello.host = "another";
  hello.hostId = 1;
  hello.settings = agreedSettings(processParams().params);
  hello.settingsHash = hashText(hello.settings);
  auto greeted = Agreement::greet(bytes, hello, 10);
  return greeted.ok() ? std::move(greeted.value()) : nullptr;
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
  const auto peer = greetAsRankOne(id);
  ncclComm_t comm;
  ncclCommInitRank(&comm, 2, id, 0);
  Measurement result = measureOn(comm, nCalls);
  result.answeredBy = answeringLibrary();
  result.allForwarded = fakeNcclCalls("AllReduce") == static_cast<int64_t>(nCalls + kWarmUpCalls);
  ncclCommDestroy(comm);
  return result;
}

}  // namespace cinch
