// A plain NCCL program for tests/gpu/check: checks NCCL's collectives to the byte, then times
// AllReduce. It uses the public CUDA runtime and NCCL only, and knows nothing of the network below.
//
//   net_ranks --rank R --ranks N --id-file PATH [--device 0] [--out FILE.json]
//             [--counts 1,1009,300007] [--sizes 8,256,8192,262144,8388608,67108864,268435456]
//
// --counts are those of the values in the calls that are checked, --sizes those of the buffers of
// the calls that are timed, in bytes and multiples of 4; "" leaves either out. Every rank writes
// one JSON object:
//
//   {"rank": 0, "nccl": 22809, "correct": true, "first_wrong": "",
//    "collectives": {"AllReduce": {"calls": 138, "wrong": 0}, ..},
//    "allreduce": {"8": {"us": 40.1, "algbw_gbps": 0.000}, ..}}
//
// "us" is for one call, in place: the median of several batches of calls, each between two CUDA
// events on its stream; algbw is in 10^9 bytes of the buffer per second. Exit status 0 means that
// the calls succeeded, not that what they gave is correct.
#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/gpu/collective_checks.h"
#include "tests/gpu/rank_program.h"

namespace cinch::ranks {
namespace {

// The same calls on every rank, so by size alone. Small ones follow one another without a wait: a
// rank that comes late to one would be part of what is timed.
constexpr size_t kBatchBytes = size_t{1} << 26, kMostCallsPerBatch = 20;
constexpr size_t kTimedBytes = size_t{1} << 29, kFewestBatches = 5, kMostBatches = 15;
// As a float a small positive number.
constexpr int kFillByte = 0x3c;

struct Options : Place {
  std::vector<size_t> counts = {1, 1009, 300007};
  std::vector<size_t> sizes = {8, 256, 8192, 262144, 8388608, 67108864, 268435456};
};

struct Timing {
  size_t nBytes;
  double us;
};

std::vector<size_t> parseList(const char* text) {
  std::vector<size_t> list;
  while (*text != '\0') {
    char* end = nullptr;
    const size_t number = strtoull(text, &end, 10);
    if (number == 0 || (*end != ',' && *end != '\0'))
      throw std::runtime_error(std::string("not a list of numbers: ") + text);
    list.push_back(number);
    text = *end == ',' ? end + 1 : end;
  }
  return list;
}

Options parse(int argc, char** argv) {
  Options options;
  static_cast<Place&>(options) =
      parsePlace(argc, argv, [&](const std::string& name, const char* value) {
        if (name == "--counts")
          options.counts = parseList(value);
        else if (name == "--sizes")
          options.sizes = parseList(value);
        else
          return false;
        return true;
      });
  return options;
}

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  double usSince(const Event& earlier) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, earlier.event_, event_), "cudaEventElapsedTime");
    return 1e3 * static_cast<double>(ms);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// The microseconds that a batch of calls takes.
double timeBatch(const Device& device, ncclComm_t comm, size_t nBytes, size_t nCalls) {
  Event begin, end;
  begin.record(device.stream);
  // The largest of equal values: they stay as they are, however many calls there are.
  for (size_t i = 0; i < nCalls; ++i)
    check(ncclAllReduce(device.send, device.send, nBytes / sizeof(float), ncclFloat32, ncclMax,
                        comm, device.stream),
          "ncclAllReduce");
  end.record(device.stream);
  finish(device.stream, comm);
  return end.usSince(begin);
}

Timing timeAllReduce(const Device& device, ncclComm_t comm, size_t nBytes) {
  const size_t nCalls = std::clamp(kBatchBytes / nBytes, size_t{1}, kMostCallsPerBatch);
  const size_t nBatches = std::clamp(kTimedBytes / (nBytes * nCalls), kFewestBatches, kMostBatches);
  check(cudaMemsetAsync(device.send, kFillByte, nBytes, device.stream), "cudaMemsetAsync");
  timeBatch(device, comm, nBytes, nCalls);  // warms up
  std::vector<double> us;
  for (size_t i = 0; i < nBatches; ++i) us.push_back(timeBatch(device, comm, nBytes, nCalls));
  std::nth_element(us.begin(), us.begin() + us.size() / 2, us.end());
  return {nBytes, us[us.size() / 2] / static_cast<double>(nCalls)};
}

void reportCollectives(FILE* file, const CheckResults& results) {
  fprintf(file, "\"collectives\": {");
  const char* separator = "";
  for (const auto& [name, tally] : results.collectives) {
    fprintf(file, "%s\"%s\": {\"calls\": %d, \"wrong\": %d}", separator, name.c_str(), tally.calls,
            tally.wrong);
    separator = ", ";
  }
  fprintf(file, "}");
}

void reportTimings(FILE* file, const std::vector<Timing>& timings) {
  fprintf(file, "\"allreduce\": {");
  const char* separator = "";
  for (const auto& [nBytes, us] : timings) {
    fprintf(file, "%s\"%zu\": {\"us\": %.2f, \"algbw_gbps\": %.4f}", separator, nBytes, us,
            static_cast<double>(nBytes) / us / 1e3);
    separator = ", ";
  }
  fprintf(file, "}");
}

void report(FILE* file, const Options& options, const CheckResults& results,
            const std::vector<Timing>& timings) {
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion");
  fprintf(file, "{\"rank\": %d, \"nccl\": %d, \"correct\": %s, \"first_wrong\": \"%s\", ",
          options.rank, version, results.correct() ? "true" : "false", results.firstWrong.c_str());
  reportCollectives(file, results);
  fprintf(file, ", ");
  reportTimings(file, timings);
  fprintf(file, "}\n");
}

size_t bufferBytes(const Options& options) {
  size_t nBytes = bytesToCheck(options.counts, options.ranks);
  for (const size_t size : options.sizes) nBytes = std::max(nBytes, size);
  return nBytes;
}

void run(const Options& options) {
  const Device device(options.device, bufferBytes(options));
  const ncclComm_t comm = connect(options);
  const CheckResults results = checkCollectives(options, device, comm, options.counts);
  std::vector<Timing> timings;
  for (const size_t size : options.sizes) timings.push_back(timeAllReduce(device, comm, size));
  check(ncclCommDestroy(comm), "ncclCommDestroy");
  writeReport(options, [&](FILE* file) { report(file, options, results, timings); });
}

}  // namespace
}  // namespace cinch::ranks

int main(int argc, char** argv) {
  using namespace cinch::ranks;
  return runProgram("net_ranks", [&] { run(parse(argc, argv)); });
}
