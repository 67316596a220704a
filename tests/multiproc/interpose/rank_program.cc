// One rank of a plain NCCL program that knows nothing of Cinch: a series of AllReduces on data that
// every rank can recompute, so that each checks its own results against the exact sums.
//
// Prints one line per call: "call <i> nmse <x> hash <h>", then "async <error>" and "done".
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cuda_runtime_api.h"
#include "nccl.h"

namespace {

using Options = std::map<std::string, std::string>;

struct Job {
  int rank, ranks, first, calls, kill, lag;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  bool inPlace, grouped, moving, special, layered;
  std::string idFile, extra;
};

[[noreturn]] void fail(const std::string& what) {
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

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i] + 2] = argv[i + 1];
  return options;
}

std::string get(const Options& options, const char* name, const char* fallback) {
  const auto found = options.find(name);
  return found == options.end() ? fallback : found->second;
}

Job jobOf(const Options& o) {
  const std::string type = get(o, "type", "fp32");
  return Job{.rank = std::stoi(get(o, "rank", "0")),
             .ranks = std::stoi(get(o, "ranks", "1")),
             .first = std::stoi(get(o, "first", "0")),
             .calls = std::stoi(get(o, "calls", "6")),
             .kill = std::stoi(get(o, "kill-at", "-1")),
             .lag = std::stoi(get(o, "lag-ms", "0")),
             .count = std::stoul(get(o, "count", "100000")),
             .type = type == "fp16"   ? ncclFloat16
                     : type == "bf16" ? ncclBfloat16
                                      : ncclFloat32,
             .op = get(o, "op", "sum") == "avg" ? ncclAvg : ncclSum,
             .inPlace = get(o, "in-place", "0") == "1",
             .grouped = get(o, "grouped", "0") == "1",
             .moving = get(o, "moving", "0") == "1",
             .special = get(o, "special", "0") == "1",
             .layered = get(o, "layered", "0") == "1",
             .idFile = get(o, "id-file", ""),
             .extra = get(o, "extra", "")};
}

// Values that all three types hold exactly: multiples of 1/64 below 4, few mantissa bits.
float valueOf(int rank, int call, size_t index) {
  uint64_t x = (static_cast<uint64_t>(rank) << 48) ^ (static_cast<uint64_t>(call) << 32) ^ index;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  const auto mantissa = static_cast<int>(x >> 40 & 0xff) - 128;
  return static_cast<float>(mantissa) / 64.0f;
}

// Gradients are not alike in all layers: here those of the second half are small.
float valueOf(const Job& job, int rank, int call, size_t index) {
  const bool isSmall = job.layered && index >= job.count / 2;
  return valueOf(rank, call, index) * (isSmall ? 1.0f / 64 : 1.0f);
}

uint16_t halfBits(float value) {  // exact for valueOf()
  _Float16 half = static_cast<_Float16>(value);
  uint16_t bits;
  memcpy(&bits, &half, 2);
  return bits;
}

uint16_t bfloatBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return static_cast<uint16_t>(bits >> 16);
}

float fromHalf(uint16_t bits) {
  _Float16 half;
  memcpy(&half, &bits, 2);
  return static_cast<float>(half);
}

float fromBfloat(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  memcpy(&value, &wide, 4);
  return value;
}

size_t bytesPerValue(const Job& job) {
  return job.type == ncclFloat32 ? 4 : 2;
}

void store(const Job& job, std::vector<char>& buffer, size_t i, float value) {
  if (job.type == ncclFloat32) {
    memcpy(&buffer[4 * i], &value, 4);
    return;
  }
  const uint16_t bits = job.type == ncclFloat16 ? halfBits(value) : bfloatBits(value);
  memcpy(&buffer[2 * i], &bits, 2);
}

float load(const Job& job, const std::vector<char>& buffer, size_t i) {
  if (job.type == ncclFloat32) {
    float value;
    memcpy(&value, &buffer[4 * i], 4);
    return value;
  }
  uint16_t bits;
  memcpy(&bits, &buffer[2 * i], 2);
  return job.type == ncclFloat16 ? fromHalf(bits) : fromBfloat(bits);
}

std::vector<char> inputOf(const Job& job, int call) {
  std::vector<char> values(job.count * bytesPerValue(job));
  for (size_t i = 0; i < job.count; ++i) store(job, values, i, valueOf(job, job.rank, call, i));
  if (job.special && job.rank == 0 && call == 4 && job.count > 1000)
    store(job, values, 1000, INFINITY);
  return values;
}

double exactSum(const Job& job, int call, size_t i) {
  double sum = 0;
  for (int rank = 0; rank < job.ranks; ++rank) sum += valueOf(job, rank, call, i);
  return job.op == ncclAvg ? sum / job.ranks : sum;
}

uint64_t hashOf(const std::vector<char>& bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

void report(const Job& job, int call, const std::vector<char>& output) {
  double error = 0, power = 0;
  size_t nonFinite = 0;
  for (size_t i = 0; i < job.count; ++i) {
    const double exact = exactSum(job, call, i), got = load(job, output, i);
    if (!std::isfinite(got)) {
      ++nonFinite;
      continue;
    }
    error += (got - exact) * (got - exact);
    power += exact * exact;
  }
  printf("call %d nmse %.9g hash %016lx nonfinite %zu\n", call, power > 0 ? error / power : 0,
         hashOf(output), nonFinite);
  fflush(stdout);
}

// With NCCL_COMM_ID every process makes the same id; without, one makes it, and the others read it.
ncclUniqueId shareId(const Job& job) {
  ncclUniqueId id;
  if (getenv("NCCL_COMM_ID") != nullptr) {
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    const std::vector<char> bytes(id.internal, id.internal + sizeof id.internal);
    printf("id %016lx\n", hashOf(bytes));
    return id;
  }
  if (job.rank == 0) {
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    std::ofstream(job.idFile + ".tmp", std::ios::binary).write(id.internal, sizeof id.internal);
    if (rename((job.idFile + ".tmp").c_str(), job.idFile.c_str()) != 0) fail("rename");
    return id;
  }
  for (int waited = 0; waited < 3000; ++waited) {
    std::ifstream file(job.idFile, std::ios::binary);
    if (file.read(id.internal, sizeof id.internal)) return id;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  fail("no id file");
}

// Waits for the stream as a framework's watchdog does: gives up on an asynchronous error.
void await(ncclComm_t comm, cudaStream_t stream) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (cudaStreamQuery(stream) == cudaErrorNotReady) {
    ncclResult_t error = ncclSuccess;
    check(ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError");
    if (error != ncclSuccess || std::chrono::steady_clock::now() > deadline) {
      ncclCommAbort(comm);
      fail(std::string("asynchronous: ") + ncclGetErrorString(error));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

struct Buffers {
  char* send;
  char* recv;
};

Buffers allocate(const Job& job) {
  Buffers buffers{};
  const size_t nBytes = job.count * bytesPerValue(job) + 1;
  check(cudaMalloc(reinterpret_cast<void**>(&buffers.send), nBytes), "cudaMalloc");
  buffers.recv = buffers.send;
  if (!job.inPlace)
    check(cudaMalloc(reinterpret_cast<void**>(&buffers.recv), nBytes), "cudaMalloc");
  return buffers;
}

void reduceOnce(const Job& job, ncclComm_t comm, cudaStream_t stream, const Buffers& buffers) {
  if (job.grouped) check(ncclGroupStart(), "ncclGroupStart");
  check(ncclAllReduce(buffers.send, buffers.recv, job.count, job.type, job.op, comm, stream),
        "ncclAllReduce");
  if (job.grouped) check(ncclGroupEnd(), "ncclGroupEnd");
}

template <class T>
T* toDevice(const std::vector<T>& values) {
  void* memory = nullptr;
  const size_t nBytes = values.size() * sizeof(T);
  check(cudaMalloc(&memory, nBytes), "cudaMalloc");
  check(cudaMemcpy(memory, values.data(), nBytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  return static_cast<T*>(memory);
}

void broadcast(const Job& job, const std::vector<int32_t>& numbers, ncclComm_t comm,
               cudaStream_t stream) {
  int32_t* const memory = toDevice(numbers);
  if (job.grouped) check(ncclGroupStart(), "ncclGroupStart");
  check(ncclBroadcast(memory, memory, numbers.size(), ncclInt32, 0, comm, stream), "ncclBroadcast");
  if (job.grouped) check(ncclGroupEnd(), "ncclGroupEnd");
}

// What PyTorch DDP says of a model of a matrix with 100 columns and a vector with the rest, whose
// gradients are one bucket.
void sendModel(const Job& job, ncclComm_t comm, cudaStream_t stream) {
  const auto rows = static_cast<int64_t>(job.count / 100),
             rest = static_cast<int64_t>(job.count % 100);
  int64_t* const all = toDevice(std::vector<int64_t>(static_cast<size_t>(job.ranks), 2));
  check(ncclAllGather(all + job.rank, all, 1, ncclInt64, comm, stream), "ncclAllGather");
  const std::vector<int64_t> sizesAndStrides = {rows, 100, 100, 1, rest, 1};
  int64_t* const shapes = toDevice(sizesAndStrides);
  check(ncclBroadcast(shapes, shapes, sizesAndStrides.size(), ncclInt64, 0, comm, stream),
        "ncclBroadcast");
  broadcast(job, {1, 0, 1}, comm, stream);  // the vector first; one bucket
  broadcast(job, {2}, comm, stream);        // of both
}

// What frameworks send besides gradients: must pass and stay exact.
void extras(const Job& job, ncclComm_t comm, cudaStream_t stream) {
  static int32_t* order = nullptr;
  if (job.extra != "broadcast") return;
  if (order == nullptr) check(cudaMalloc(reinterpret_cast<void**>(&order), 64), "cudaMalloc");
  check(ncclBroadcast(order, order, 16, ncclInt32, 0, comm, stream), "ncclBroadcast");
}

void run(const Job& job, ncclComm_t comm, cudaStream_t stream) {
  Buffers buffers = allocate(job);
  if (job.extra == "ddp") sendModel(job, comm, stream);
  std::vector<char> output(job.count * bytesPerValue(job));
  for (int call = job.first; call < job.first + job.calls; ++call) {
    if (call == job.kill) raise(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(job.lag));
    if (job.moving && call % 2 == 1) buffers = allocate(job);
    const std::vector<char> input = inputOf(job, call);
    check(cudaMemcpyAsync(buffers.send, input.data(), input.size(), cudaMemcpyHostToDevice, stream),
          "cudaMemcpyAsync");
    extras(job, comm, stream);
    reduceOnce(job, comm, stream, buffers);
    check(
        cudaMemcpyAsync(output.data(), buffers.recv, output.size(), cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
    await(comm, stream);
    report(job, call, output);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Job job = jobOf(parse(argc, argv));
  const ncclUniqueId id = shareId(job);
  ncclComm_t comm = nullptr;
  check(ncclCommInitRank(&comm, job.ranks, id, job.rank), "ncclCommInitRank");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  run(job, comm, stream);
  ncclResult_t error = ncclSuccess;
  check(ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError");
  printf("async %d\n", error);
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  printf("done\n");
  return 0;
}
