#include "tests/gpu/rank_program.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace cinch::ranks {
namespace {

constexpr auto kDeadline = std::chrono::seconds(60);
// Whoever waits for longer leaves the processor to NCCL's own threads.
constexpr auto kEager = std::chrono::milliseconds(1);
constexpr auto kNap = std::chrono::microseconds(50);

bool takeCommon(const std::string& name, const char* value, Place* place) {
  if (name == "--rank")
    place->rank = atoi(value);
  else if (name == "--ranks")
    place->ranks = atoi(value);
  else if (name == "--device")
    place->device = atoi(value);
  else if (name == "--id-file")
    place->idFile = value;
  else if (name == "--out")
    place->out = value;
  else
    return false;
  return true;
}

// Renames a complete file, so that nobody reads half of one.
void publish(const ncclUniqueId& id, const std::string& path) {
  const std::string partial = path + ".partial";
  FILE* file = fopen(partial.c_str(), "wb");
  if (!file || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) != 0 ||
      rename(partial.c_str(), path.c_str()) != 0)
    throw std::runtime_error("cannot write " + path);
}

ncclUniqueId await(const std::string& path) {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  while (std::chrono::steady_clock::now() < end) {
    if (FILE* file = fopen(path.c_str(), "rb")) {
      ncclUniqueId id;
      const bool complete = fread(&id, sizeof id, 1, file) == 1;
      fclose(file);
      if (complete) return id;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  throw std::runtime_error("rank 0 never wrote " + path);
}

ncclUniqueId shareId(const Place& place) {
  if (place.rank != 0) return await(place.idFile);
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  publish(id, place.idFile);
  return id;
}

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

void check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess)
    throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(result));
}

Place parsePlace(int argc, char** argv,
                 const std::function<bool(const std::string& name, const char* value)>& takeOther) {
  Place place;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw std::runtime_error(name + " needs a value");
    if (!takeCommon(name, argv[i + 1], &place) && !takeOther(name, argv[i + 1]))
      throw std::runtime_error("unknown option " + name);
  }
  if (place.rank < 0 || place.rank >= place.ranks || place.idFile.empty())
    throw std::runtime_error("--rank, --ranks and --id-file are needed");
  return place;
}

ncclComm_t connect(const Place& place) {
  const ncclUniqueId id = shareId(place);
  ncclComm_t comm = nullptr;
  check(ncclCommInitRank(&comm, place.ranks, id, place.rank), "ncclCommInitRank");
  return comm;
}

void finish(cudaStream_t stream, ncclComm_t comm) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) check(state, "the stream");
    ncclResult_t asynchronous = ncclSuccess;
    check(ncclCommGetAsyncError(comm, &asynchronous), "ncclCommGetAsyncError");
    check(asynchronous, "the communicator");
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > kDeadline) throw std::runtime_error("the stream hangs");
    if (waited < kEager)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kNap);
  }
}

void writeReport(const Place& place, const std::function<void(FILE*)>& write) {
  FILE* file = place.out.empty() ? stdout : fopen(place.out.c_str(), "w");
  if (!file) throw std::runtime_error("cannot write " + place.out);
  write(file);
  if (file != stdout) fclose(file);
}

int runProgram(const char* name, const std::function<void()>& program) {
  try {
    program();
    return 0;
  } catch (const std::exception& error) {
    fprintf(stderr, "%s: %s\n", name, error.what());
    _exit(1);
  }
}

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

Device::Device(int device, size_t bufferBytes) {
  check(cudaSetDevice(device), "cudaSetDevice");
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaMalloc(&send, bufferBytes), "cudaMalloc");
  check(cudaMalloc(&receive, bufferBytes), "cudaMalloc");
}

Device::~Device() {
  cudaFree(send);
  cudaFree(receive);
  cudaStreamDestroy(stream);
}

}  // namespace cinch::ranks
