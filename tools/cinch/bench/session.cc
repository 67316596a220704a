#include "tools/cinch/bench/session.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "tools/cinch/bench/id_exchange.h"

namespace cinch::bench {
namespace {

constexpr size_t kMaxFigures = 64;
constexpr size_t kTextBytes = 256;
constexpr int kPollsPerCheck = 64;  // of the stream, for each of the communicator

}  // namespace

Session::Session(const Library& library, const World& world, const std::string& idFile,
                 int timeoutSeconds)
    : library_(library), world_(world), timeoutSeconds_(timeoutSeconds) {
  useDevice();
  IdExchange exchange(world, idFile, timeoutSeconds);
  const std::string bytes = exchange.exchange([&] {
    ncclUniqueId made;
    library_.check(library_.ncclGetUniqueId(&made), "ncclGetUniqueId");
    return std::string(made.internal, sizeof made.internal);
  });
  ncclUniqueId id;
  if (bytes.size() != sizeof id.internal)
    throw std::runtime_error(
        fmt::format("the communicator's id has {} bytes instead of {}: is --id-file a file of "
                    "something else?",
                    bytes.size(), sizeof id.internal));
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  library_.check(library_.ncclCommInitRank(&comm_, world.ranks, id, world.rank),
                 "ncclCommInitRank");
  library_.check(library_.cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                 "cudaStreamCreateWithFlags");
  library_.check(library_.cudaMalloc(&figures_dev_, kMaxFigures * sizeof(double)), "cudaMalloc");
  barrier();  // all have read the id before its file goes
}

Session::~Session() = default;

void Session::useDevice() {
  int count = 0;
  library_.check(library_.cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count == 0) throw std::runtime_error("this machine has no CUDA device");
  device_ = world_.localRank % count;
  library_.check(library_.cudaSetDevice(device_), "cudaSetDevice");
}

void Session::wait(const char* what) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeoutSeconds_);
  for (int poll = 1;; ++poll) {
    const cudaError_t status = library_.cudaStreamQuery(stream_);
    if (status != cudaSuccess && status != cudaErrorNotReady) library_.check(status, what);
    if (status == cudaSuccess || poll % kPollsPerCheck == 0) {
      ncclResult_t error = ncclSuccess;
      library_.check(library_.ncclCommGetAsyncError(comm_, &error), "ncclCommGetAsyncError");
      if (error != ncclInProgress) library_.check(error, what);
      if (std::chrono::steady_clock::now() > deadline)
        throw std::runtime_error(
            fmt::format("{} did not end within {} s: a rank is missing or stuck (-T waits longer)",
                        what, timeoutSeconds_));
    }
    if (status == cudaSuccess) return;
    sched_yield();  // ranks may outnumber the cores
  }
}

void Session::combine(std::span<double> values, ncclRedOp_t operation) {
  const size_t nBytes = values.size_bytes();
  if (values.size() > kMaxFigures) throw std::runtime_error("too many figures at a time");
  library_.check(
      library_.cudaMemcpyAsync(figures_dev_, values.data(), nBytes, cudaMemcpyDefault, stream_),
      "cudaMemcpyAsync");
  library_.check(library_.ncclAllReduce(figures_dev_, figures_dev_, values.size(), ncclFloat64,
                                        operation, comm_, stream_),
                 "ncclAllReduce");
  library_.check(
      library_.cudaMemcpyAsync(values.data(), figures_dev_, nBytes, cudaMemcpyDefault, stream_),
      "cudaMemcpyAsync");
  wait("the exchange of figures");
}

void Session::barrier() {
  double nothing = 0;
  combine({&nothing, 1}, ncclSum);
}

std::vector<std::string> Session::gather(const std::string& mine) {
  const auto ranks = static_cast<size_t>(world_.ranks);
  std::vector<char> texts(ranks * kTextBytes);
  std::memcpy(texts.data(), mine.data(), std::min(mine.size(), kTextBytes - 1));
  void* memory = nullptr;
  library_.check(library_.cudaMalloc(&memory, texts.size() + kTextBytes), "cudaMalloc");
  char* own = static_cast<char*>(memory) + texts.size();
  library_.check(
      library_.cudaMemcpyAsync(own, texts.data(), kTextBytes, cudaMemcpyDefault, stream_),
      "cudaMemcpyAsync");
  library_.check(library_.ncclAllGather(own, memory, kTextBytes, ncclInt8, comm_, stream_),
                 "ncclAllGather");
  library_.check(
      library_.cudaMemcpyAsync(texts.data(), memory, texts.size(), cudaMemcpyDefault, stream_),
      "cudaMemcpyAsync");
  wait("the exchange of names");
  library_.check(library_.cudaFree(memory), "cudaFree");
  std::vector<std::string> all;
  for (size_t rank = 0; rank < ranks; ++rank) all.emplace_back(texts.data() + rank * kTextBytes);
  return all;
}

void Session::close() {
  library_.check(library_.cudaFree(figures_dev_), "cudaFree");
  library_.check(library_.ncclCommDestroy(comm_), "ncclCommDestroy");
  library_.check(library_.cudaStreamDestroy(stream_), "cudaStreamDestroy");
}

}  // namespace cinch::bench
