#include "examples/lm/communicator.h"

#include <sys/prctl.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "examples/lm/deadline.h"

namespace lm {
namespace {

// A rank polls, as the other ranks' processes need the cores; half a millisecond is far below the
// time of a step's reduction.
constexpr auto kPollInterval = std::chrono::microseconds(500);
constexpr int kAbortSeconds = 20;

std::string describe(const std::string& call, ncclResult_t result) {
  return call + " failed: " + ncclGetErrorString(result) + " (" + ncclGetLastError(nullptr) + ")";
}

}  // namespace

void checkNccl(ncclResult_t result, const std::string& call) {
  if (result != ncclSuccess) throw std::runtime_error(describe(call, result));
}

std::string makeUniqueId() {
  ncclUniqueId id;
  checkNccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return {id.internal, sizeof id.internal};
}

Communicator::Communicator(int rank, int ranks, const std::string& uniqueId, int timeoutSeconds)
    : rank_(rank), ranks_(ranks), timeoutSeconds_(timeoutSeconds) {
  // One bucket of gradients could be an average of weights, too: its thread is named as PyTorch
  // names those of its autograd engine.
  prctl(PR_SET_NAME, "pt_autograd_0");
  ncclUniqueId id;
  if (uniqueId.size() != sizeof id.internal)
    throw std::runtime_error("the job's identifier has " + std::to_string(uniqueId.size()) +
                             " bytes instead of " + std::to_string(sizeof id.internal));
  std::memcpy(id.internal, uniqueId.data(), sizeof id.internal);
  const Deadline deadline("ncclCommInitRank", timeoutSeconds);
  checkNccl(ncclCommInitRank(&comm_, ranks, id, rank), "ncclCommInitRank");
}

Communicator::~Communicator() {
  abort();
}

void Communicator::abort() {
  if (comm_ == nullptr) return;
  const Deadline deadline("ncclCommAbort", kAbortSeconds);
  ncclCommAbort(comm_);
  comm_ = nullptr;
}

void Communicator::close() {
  const Deadline deadline("ncclCommDestroy", timeoutSeconds_);
  checkNccl(ncclCommDestroy(comm_), "ncclCommDestroy");
  comm_ = nullptr;
}

void Communicator::fail(const std::string& reason) {
  abort();
  throw std::runtime_error(reason + "; the communicator was aborted");
}

void Communicator::run(const char* name,
                       const std::function<ncclResult_t(ncclComm_t, cudaStream_t)>& call) {
  ncclResult_t result;
  {
    // The first collective connects to its peers before it returns.
    const Deadline deadline(name, timeoutSeconds_);
    result = call(comm_, stream_.get());
  }
  if (result != ncclSuccess) fail(describe(name, result));
  wait(name);
}

void Communicator::wait(const char* name) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeoutSeconds_);
  for (bool finished = false; !finished;) {
    const cudaError_t status = cudaStreamQuery(stream_.get());
    finished = status == cudaSuccess;
    if (!finished && status != cudaErrorNotReady)
      fail(std::string(name) + " failed: " + cudaGetErrorString(status));
    // Asked once more after the end: an error may surface with the last bytes.
    ncclResult_t error = ncclSuccess;
    checkNccl(ncclCommGetAsyncError(comm_, &error), "ncclCommGetAsyncError");
    if (error != ncclSuccess && error != ncclInProgress) fail(describe(name, error));
    if (std::chrono::steady_clock::now() > deadline)
      fail(std::string(name) + " did not end within " + std::to_string(timeoutSeconds_) +
           " s: a rank is missing or stuck");
    if (!finished) std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace lm
