// passthrough_bench [--preload LIBRARY] [--calls N] [--rounds N] [--check]
//
// Measures what a passed call costs with Cinch preloaded and without, in alternating processes, and
// prints one JSON object as its last line. With --check, allocations on passed calls are a failure.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/passthrough/worker.h"

namespace {

struct Options {
  std::string preload = CINCH_LIBRARY;
  uint64_t nCalls = 1000000;
  int nRounds = 9;
  bool check = false;
  bool worker = false;  // this is one of the measured processes
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (name == "--check") {
      options.check = true;
    } else if (name == "--worker") {
      options.worker = true;
    } else if (name == "--preload" && value != nullptr) {
      options.preload = argv[++i];
    } else if (name == "--calls" && value != nullptr) {
      options.nCalls = std::max(1ull, strtoull(argv[++i], nullptr, 10));
    } else if (name == "--rounds" && value != nullptr) {
      options.nRounds = std::max(1, atoi(argv[++i]));
    } else {
      return std::nullopt;
    }
  }
  return options;
}

int work(uint64_t nCalls) {
  const cinch::Measurement result = cinch::measure(nCalls);
  printf("result %.17g %.17g %d %s\n", result.nsPerCall, result.allocationsPerCall,
         result.allForwarded, result.answeredBy.c_str());
  return 0;
}

// Reads the line that work() printed; the log's lines may precede it.
std::optional<cinch::Measurement> readResult(FILE* stream) {
  std::optional<cinch::Measurement> result;
  char line[4096], library[4096];
  while (fgets(line, sizeof line, stream) != nullptr) {
    cinch::Measurement read;
    int allForwarded = 0;
    if (sscanf(line, "result %lf %lf %d %4095[^\n]", &read.nsPerCall, &read.allocationsPerCall,
               &allForwarded, library) != 4) {
      continue;
    }
    read.allForwarded = allForwarded != 0;
    read.answeredBy = library;
    result = read;
  }
  return result;
}

// Runs one measured process; exits with a message where it did not measure what it should.
cinch::Measurement runWorker(const std::string& preload, uint64_t nCalls) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "LD_PRELOAD='" + preload + "' '" + self + "' --worker --calls " + std::to_string(nCalls);
  FILE* stream = popen(command.c_str(), "r");
  const auto result = stream == nullptr ? std::nullopt : readResult(stream);
  const int status = stream == nullptr ? -1 : pclose(stream);
  const char* wanted = preload.empty() ? "libnccl.so.2" : preload.c_str();
  if (status != 0 || !result) {
    fprintf(stderr, "passthrough_bench: no result from: %s\n", command.c_str());
  } else if (result->answeredBy.find(wanted) == std::string::npos) {
    fprintf(stderr, "passthrough_bench: calls went to %s, not to %s\n", result->answeredBy.c_str(),
            wanted);
  } else if (!result->allForwarded) {
    fprintf(stderr, "passthrough_bench: NCCL did not see every call of: %s\n", command.c_str());
  } else {
    return *result;
  }
  exit(1);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

int compare(const Options& options) {
  std::vector<double> plain, preloaded, extra;
  double allocations = 0;
  for (int round = 0; round < options.nRounds; ++round) {
    const cinch::Measurement without = runWorker("", options.nCalls);
    const cinch::Measurement with = runWorker(options.preload, options.nCalls);
    plain.push_back(without.nsPerCall);
    preloaded.push_back(with.nsPerCall);
    extra.push_back(with.nsPerCall - without.nsPerCall);
    allocations = std::max(allocations, with.allocationsPerCall);
    printf("round %d: plain %.1f ns, preloaded %.1f ns\n", round + 1, without.nsPerCall,
           with.nsPerCall);
  }
  printf(
      "{\"plain_ns\": %.2f, \"preload_ns\": %.2f, \"passthrough_ns\": %.2f, "
      "\"allocations_per_call\": %g, \"calls\": %llu, \"rounds\": %d}\n",
      median(plain), median(preloaded), median(extra), allocations,
      static_cast<unsigned long long>(options.nCalls), options.nRounds);
  return options.check && allocations > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) {
    fprintf(stderr, "usage: %s [--preload LIBRARY] [--calls N] [--rounds N] [--check]\n", argv[0]);
    return 2;
  }
  return options->worker ? work(options->nCalls) : compare(*options);
}
