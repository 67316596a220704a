// A plain NCCL program for tests/gpu/check: allreduces several buckets for a number of steps, as a
// training job would, and compares every result with the exact sum. It uses the public CUDA runtime
// and NCCL only, and knows nothing of Cinch.
//
//   two_ranks --rank R --ranks N --id-file PATH [--steps 30] [--device 0] [--out FILE.json]
//
// Every rank writes one JSON object: per bucket the normalised squared error in the first three
// steps and in the rest, and a hash of all outputs, gathered from all ranks through NCCL. Exit
// status 0 means that the calls succeeded; what errors are acceptable is for the caller to say.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "tests/gpu/rank_program.h"

namespace cinch::ranks {
namespace {

constexpr int kWarmupSteps = 3;

struct Options : Place {
  int steps = 30;
};

struct Bucket {
  const char* name;
  ncclDataType_t type;
  ncclRedOp_t op;
  size_t count;
  bool inPlace;
};

// Sizes with and without a partial block, every type, both operations, and one below any floor.
constexpr Bucket kBuckets[] = {
    {"fp32_sum", ncclFloat32, ncclSum, 1048576, false},
    {"fp32_sum_tail", ncclFloat32, ncclSum, 300007, true},
    {"fp32_avg", ncclFloat32, ncclAvg, 524288 + 129, false},
    {"bf16_sum", ncclBfloat16, ncclSum, 1048576 + 1, false},
    {"bf16_avg", ncclBfloat16, ncclAvg, 400001, true},
    {"fp16_sum", ncclFloat16, ncclSum, 524288, true},
    {"fp32_small", ncclFloat32, ncclSum, 1000, false},
};
constexpr size_t kNBuckets = std::size(kBuckets);

struct Tally {
  double error[2] = {0, 0};  // squared error: warm-up, rest
  double power[2] = {0, 0};  // squared exact sum
  uint64_t hash = 14695981039346656037ull;
};

Options parse(int argc, char** argv) {
  Options options;
  static_cast<Place&>(options) =
      parsePlace(argc, argv, [&](const std::string& name, const char* value) {
        if (name != "--steps") return false;
        options.steps = atoi(value);
        return true;
      });
  return options;
}

size_t bytesOf(ncclDataType_t type) {
  return type == ncclFloat32 ? 4 : 2;
}

// Near-Gaussian: four uniform 16-bit numbers, centred, of standard deviation about 0.01.
float sample(uint64_t seed, size_t index) {
  const uint64_t bits = mix(seed ^ (index * 0x2545f4914f6cdd1dull));
  int sum = -2 * 65535;
  for (int k = 0; k < 4; ++k) sum += static_cast<int>(bits >> (16 * k) & 0xffff);
  return static_cast<float>(sum) * (1.0f / 4194304.0f);
}

uint64_t seedOf(int step, size_t bucket, int rank) {
  return mix(static_cast<uint64_t>(step) * 1000003 + bucket * 1009 + static_cast<uint64_t>(rank));
}

void store(ncclDataType_t type, void* data, size_t i, float value) {
  if (type == ncclFloat32)
    static_cast<float*>(data)[i] = value;
  else if (type == ncclFloat16)
    static_cast<__half*>(data)[i] = __float2half_rn(value);
  else
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
}

float load(ncclDataType_t type, const void* data, size_t i) {
  if (type == ncclFloat32) return static_cast<const float*>(data)[i];
  if (type == ncclFloat16) return __half2float(static_cast<const __half*>(data)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
}

std::vector<uint8_t> makeInput(const Bucket& bucket, uint64_t seed) {
  std::vector<uint8_t> data(bucket.count * bytesOf(bucket.type));
  for (size_t i = 0; i < bucket.count; ++i) store(bucket.type, data.data(), i, sample(seed, i));
  return data;
}

// The exact result, in double, of the inputs as every rank rounds them to the bucket's type.
std::vector<double> exactResult(const Bucket& bucket, size_t bucketIndex, int step, int ranks) {
  std::vector<double> sum(bucket.count, 0.0);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<uint8_t> input = makeInput(bucket, seedOf(step, bucketIndex, rank));
    for (size_t i = 0; i < bucket.count; ++i) sum[i] += load(bucket.type, input.data(), i);
  }
  if (bucket.op == ncclAvg)
    for (double& value : sum) value /= ranks;
  return sum;
}

void addResult(const Bucket& bucket, const std::vector<uint8_t>& output,
               const std::vector<double>& exact, int step, Tally* tally) {
  const int phase = step < kWarmupSteps ? 0 : 1;
  for (size_t i = 0; i < bucket.count; ++i) {
    const double difference = load(bucket.type, output.data(), i) - exact[i];
    tally->error[phase] += difference * difference;
    tally->power[phase] += exact[i] * exact[i];
  }
  for (uint8_t byte : output) tally->hash = (tally->hash ^ byte) * 1099511628211ull;
}

void runBucket(const Options& options, const Device& device, ncclComm_t comm, int step,
               size_t index, Tally* tally) {
  const Bucket& bucket = kBuckets[index];
  const std::vector<uint8_t> input = makeInput(bucket, seedOf(step, index, options.rank));
  std::vector<uint8_t> output(input.size());
  void* receive = bucket.inPlace ? device.send : device.receive;
  check(cudaMemcpyAsync(device.send, input.data(), input.size(), cudaMemcpyHostToDevice,
                        device.stream),
        "copy to the device");
  check(ncclAllReduce(device.send, receive, bucket.count, bucket.type, bucket.op, comm,
                      device.stream),
        "ncclAllReduce");
  check(
      cudaMemcpyAsync(output.data(), receive, output.size(), cudaMemcpyDeviceToHost, device.stream),
      "copy from the device");
  finish(device.stream, comm);
  addResult(bucket, output, exactResult(bucket, index, step, options.ranks), step, tally);
}

// Every rank's hashes, through NCCL itself, after the last step so as not to disturb the sequence.
std::vector<uint64_t> gatherHashes(const Options& options, const Device& device, ncclComm_t comm,
                                   const std::vector<Tally>& tallies) {
  std::vector<uint64_t> own, all(kNBuckets * options.ranks);
  for (const Tally& tally : tallies) own.push_back(tally.hash);
  check(cudaMemcpyAsync(device.send, own.data(), kNBuckets * 8, cudaMemcpyHostToDevice,
                        device.stream),
        "copy to the device");
  check(ncclAllGather(device.send, device.receive, kNBuckets, ncclUint64, comm, device.stream),
        "ncclAllGather");
  check(cudaMemcpyAsync(all.data(), device.receive, all.size() * 8, cudaMemcpyDeviceToHost,
                        device.stream),
        "copy from the device");
  finish(device.stream, comm);
  return all;
}

void report(FILE* file, const Options& options, const std::vector<Tally>& tallies,
            const std::vector<uint64_t>& hashes) {
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion");
  fprintf(file, "{\"rank\": %d, \"nccl\": %d, \"buckets\": {", options.rank, version);
  for (size_t b = 0; b < kNBuckets; ++b) {
    const Tally& tally = tallies[b];
    bool identical = true;
    for (int rank = 0; rank < options.ranks; ++rank)
      identical &= hashes[rank * kNBuckets + b] == tally.hash;
    fprintf(file,
            "%s\"%s\": {\"nmse_warmup\": %.4e, \"nmse\": %.4e, \"identical\": %s, "
            "\"hash\": \"%016" PRIx64 "\"}",
            b ? ", " : "", kBuckets[b].name, tally.error[0] / tally.power[0],
            tally.error[1] / tally.power[1], identical ? "true" : "false", tally.hash);
  }
  fprintf(file, "}}\n");
}

void run(const Options& options) {
  size_t largest = 0;
  for (const Bucket& bucket : kBuckets)
    largest = std::max(largest, bucket.count * bytesOf(bucket.type));
  Device device(options.device, largest);

  const ncclComm_t comm = connect(options);
  std::vector<Tally> tallies(kNBuckets);
  for (int step = 0; step < options.steps; ++step)
    for (size_t b = 0; b < kNBuckets; ++b) runBucket(options, device, comm, step, b, &tallies[b]);
  const std::vector<uint64_t> hashes = gatherHashes(options, device, comm, tallies);
  check(ncclCommDestroy(comm), "ncclCommDestroy");

  writeReport(options, [&](FILE* file) { report(file, options, tallies, hashes); });
}

}  // namespace
}  // namespace cinch::ranks

int main(int argc, char** argv) {
  using namespace cinch::ranks;
  return runProgram("two_ranks", [&] { run(parse(argc, argv)); });
}
