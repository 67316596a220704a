#include "tests/multiproc/surface/program.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

namespace surface {
namespace {

constexpr double kExactBound = 1e-12;      // NMSE of fp32 sums
constexpr double kCompressedBound = 5e-2;  // two quantisations at 4 bits
constexpr double kCompressedFloor = 1e-8;  // less means that nothing was quantised
constexpr auto kPatience = std::chrono::seconds(60);

double nmse(const std::vector<float>& values, const Exact& exact) {
  double error = 0, power = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double wanted = exact(i);
    error += (values[i] - wanted) * (values[i] - wanted);
    power += wanted * wanted;
  }
  return power > 0 ? error / power : error;
}

}  // namespace

void fail(const std::string& what) {
  printf("error %s\n", what.c_str());
  fflush(stdout);
  _exit(1);
}

void check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) fail(std::string(what) + ": " + ncclGetErrorString(result));
}
void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail(std::string(what) + ": " + cudaGetErrorName(error));
}
void expectResult(ncclResult_t result, ncclResult_t wanted, const char* what) {
  if (result != wanted)
    fail(std::string(what) + ": " + std::to_string(result) + " instead of " +
         std::to_string(wanted));
}
void expectTrue(bool condition, const char* what) {
  if (!condition) fail(std::string("not true: ") + what);
}

ncclUniqueId shareId(const World& world, const std::string& name, bool mine) {
  ncclUniqueId id;
  const std::string path = world.folder + "/" + name + ".id";
  if (mine) {
    CHECK(ncclGetUniqueId(&id));
    std::ofstream(path + ".tmp", std::ios::binary).write(id.internal, sizeof id.internal);
    EXPECT(rename((path + ".tmp").c_str(), path.c_str()) == 0);
    return id;
  }
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    std::ifstream file(path, std::ios::binary);
    if (file.read(id.internal, sizeof id.internal)) return id;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  fail("no id " + name);
}

ncclComm_t makeComm(const World& world, const std::string& name, const std::vector<int>& members,
                    ncclConfig_t* config) {
  const auto at = std::find(members.begin(), members.end(), world.rank);
  EXPECT(at != members.end());
  const ncclUniqueId id = shareId(world, name, world.rank == members.front());
  ncclComm_t comm = nullptr;
  const ncclResult_t made = ncclCommInitRankConfig(&comm, static_cast<int>(members.size()), id,
                                                   static_cast<int>(at - members.begin()), config);
  if (made != ncclInProgress) check(made, "ncclCommInitRankConfig");
  return comm;
}

ncclComm_t makeWorldComm(const World& world, const std::string& name) {
  return makeComm(world, name, everybody(world));
}

void awaitReady(ncclComm_t comm) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    CHECK(ncclCommGetAsyncError(comm, &state));
    EXPECT(std::chrono::steady_clock::now() < until);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  check(state, "the communicator's state");
}

cudaStream_t makeStream() {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

void await(ncclComm_t comm, cudaStream_t stream) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (cudaStreamQuery(stream) == cudaErrorNotReady) {
    ncclResult_t error = ncclSuccess;
    CHECK(ncclCommGetAsyncError(comm, &error));
    if (error != ncclInProgress) check(error, "asynchronous error");
    if (std::chrono::steady_clock::now() > until) fail("the stream hangs");
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  CHECK(cudaStreamSynchronize(stream));
}

float valueOf(int rank, int step, size_t index) {
  uint64_t x = (static_cast<uint64_t>(rank) << 48) ^ (static_cast<uint64_t>(step) << 32) ^ index;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return static_cast<float>(static_cast<int>(x >> 40 & 0xff) - 128) / 64.0f;
}

Floats::Floats(size_t count) : count_(count) {
  CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(float) + 1));
}

Floats::~Floats() {
  cudaFree(data_);
}

void Floats::fill(int rank, int step, cudaStream_t stream) {
  std::vector<float> values(count_);
  for (size_t i = 0; i < count_; ++i) values[i] = valueOf(rank, step, i);
  CHECK(cudaMemcpyAsync(data_, values.data(), count_ * sizeof(float), cudaMemcpyHostToDevice,
                        stream));
  CHECK(cudaStreamSynchronize(stream));
}

std::vector<float> Floats::read(cudaStream_t stream) const {
  std::vector<float> values(count_);
  CHECK(cudaMemcpyAsync(values.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost,
                        stream));
  CHECK(cudaStreamSynchronize(stream));
  return values;
}

Exact sumOf(const std::vector<int>& ranks, int step, size_t first, double factor) {
  return [=](size_t index) {
    double sum = 0;
    for (const int rank : ranks) sum += valueOf(rank, step, first + index);
    return sum * factor;
  };
}

std::vector<int> everybody(const World& world) {
  std::vector<int> all(static_cast<size_t>(world.ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void expectExact(const std::vector<float>& values, const Exact& exact, const std::string& label) {
  const double found = nmse(values, exact);
  if (!(found <= kExactBound)) fail(label + ": not exact, NMSE " + std::to_string(found));
}

void expectCompressed(const std::vector<float>& values, const Exact& exact,
                      const std::string& label) {
  const double found = nmse(values, exact);
  if (!(found <= kCompressedBound)) fail(label + ": wrong, NMSE " + std::to_string(found));
  if (!(found >= kCompressedFloor)) fail(label + ": not compressed");
}

void expectNear(const std::vector<float>& values, const Exact& exact, const std::string& label) {
  const double found = nmse(values, exact);
  if (!(found <= kCompressedBound)) fail(label + ": wrong, NMSE " + std::to_string(found));
}

void expectStep(int call, const std::vector<float>& values, const Exact& exact,
                const std::string& label) {
  const std::string name = label + " call " + std::to_string(call);
  if (call < kWarmup)
    expectExact(values, exact, name);
  else
    expectCompressed(values, exact, name);
}

void expectSameEverywhere(const std::vector<float>& values, const std::string& label) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const float value : values) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3u;
  }
  printf("same %s %016lx\n", label.c_str(), hash);
}

}  // namespace surface
