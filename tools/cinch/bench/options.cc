#include "tools/cinch/bench/options.h"

#include <CLI/CLI.hpp>
#include <filesystem>

namespace cinch::bench {
namespace {

constexpr uint64_t kMaxSizes = 100000;

// Sizes as nccl-tests has them: powers of 1024.
void addSize(CLI::App& command, const char* names, uint64_t& size, const char* help) {
  const auto parse = [&size](const CLI::results_t& texts) {
    const auto parsed = parseSize(texts.front());
    if (parsed) size = *parsed;
    return parsed.has_value();
  };
  command.add_option(names, parse, help)->type_name("SIZE");
}

// Those of nccl-tests that would have to be 1 here.
void addProcessCounts(CLI::App& command) {
  for (const char* names : {"-t,--nthreads", "-g,--ngpus"})
    command.add_option(names, "1: each rank is a process with one GPU; --ranks says how many")
        ->expected(1)
        ->check(CLI::Range(1, 1));
}

void addSweep(CLI::App& command, Options& options) {
  addSize(command, "-b,--minbytes", options.minBytes, "smallest size (32M)");
  addSize(command, "-e,--maxbytes", options.maxBytes, "largest size (32M)");
  addSize(command, "-i,--stepbytes", options.stepBytes, "from size to size, without -f (1M)");
  command.add_option("-f,--stepfactor", options.stepFactor, "factor from size to size")
      ->check(CLI::Range(1.0, 1e6));
}

void addRuns(CLI::App& command, Options& options) {
  command.add_option("-n,--iters", options.iterations, "timed calls of each size")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command.add_option("-w,--warmup_iters", options.warmups, "calls of each size before those")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  command
      .add_option("-c,--check", options.checks, "results of each size that are checked; 0: none")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  command.add_option("-o,--op", options.operation, "sum, prod, min, max, avg or all")
      ->capture_default_str();
  command
      .add_option("-d,--datatype", options.dataType,
                  "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16 or all")
      ->capture_default_str();
  command
      .add_option("-G,--cudagraph", options.graphLaunches,
                  "capture the timed calls as a CUDA graph, and launch it so often; 0: no graph")
      ->check(CLI::Range(0, 1 << 24));
  command.add_option("-u,--unalign", options.unaligned, "index of the first value in its buffer")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 30));
  command
      .add_option("-T,--timeout", options.timeoutSeconds,
                  "seconds to wait for the other ranks, and for a size")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
}

void addJob(CLI::App& command, Options& options) {
  command
      .add_option(
          "--ranks", options.ranks,
          "start so many ranks on this host; default: what mpirun, torchrun or srun has started, "
          "else one for each GPU, and at least 2")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--hosts", options.hosts,
                  "have NCCL take the ranks for those of so many hosts (NCCL_HOSTID), so that "
                  "they use the network")
      ->check(CLI::Range(1, 1024));
  command.add_option("--id-file", options.idFile,
                     "a file that all ranks see and that does not exist yet, where they meet");
  CLI::Option* nccl = command.add_option(
      "--nccl", options.nccl,
      "NCCL's library; default: libnccl.so.2 as the loader finds it, or the emulator of this "
      "build where there is no NVIDIA driver");
  command.add_flag("--emulator", options.emulator, "run on the emulator of this build")
      ->excludes(nccl);
}

void addOutput(CLI::App& command, Options& options) {
  command.add_option("-J,--output_file", options.jsonFile,
                     "write the results to this file as JSON (tools/cinch/bench/schema.json)");
  command.add_option("--plot", options.plotFile,
                     "draw bandwidth and error against size: .png, .svg or .pdf, with gnuplot");
  command
      .add_option("--link", options.linkGigabits,
                  "a host's link in Gbit/s: the plot then has the bound that it sets")
      ->check(CLI::PositiveNumber);
}

Result<void> checkNames(const Options& options) {
  if (operationsNamed(options.operation).empty())
    return errorf(Status::invalidUsage, "-o %s is no operation: sum, prod, min, max, avg or all",
                  options.operation.c_str());
  if (!typesNamed(options.dataType).empty()) return {};
  return errorf(Status::invalidUsage,
                "-d %s is no type that can be reduced: int8, uint8, int32, uint32, int64, uint64, "
                "half, float, double, bfloat16 or all",
                options.dataType.c_str());
}

bool endsWithAnyOf(const std::string& file, std::initializer_list<const char*> suffixes) {
  const std::string suffix = std::filesystem::path(file).extension().string();
  for (const char* known : suffixes)
    if (suffix == known) return true;
  return false;
}

Result<void> checkFiles(const Options& options) {
  if (!options.plotFile.empty() && !endsWithAnyOf(options.plotFile, {".png", ".svg", ".pdf"}))
    return errorf(Status::invalidUsage, "--plot %s: its name must end in .png, .svg or .pdf",
                  options.plotFile.c_str());
  for (const std::string& file : {options.jsonFile, options.plotFile}) {
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    if (file.empty() || folder.empty() || std::filesystem::is_directory(folder)) continue;
    return errorf(Status::invalidUsage, "%s: there is no folder %s; make it first", file.c_str(),
                  folder.c_str());
  }
  return {};
}

}  // namespace

void addOptions(CLI::App& command, Options& options) {
  command.add_option("collective", options.collective, "all_reduce, reduce_scatter or all_gather")
      ->required()
      ->check(CLI::IsMember({"all_reduce", "reduce_scatter", "all_gather"}));
  addSweep(command, options);
  addRuns(command, options);
  addProcessCounts(command);
  addJob(command, options);
  addOutput(command, options);
}

Result<void> checkOptions(const Options& options) {
  CINCH_TRY(checkNames(options));
  CINCH_TRY(checkFiles(options));
  if (options.minBytes > options.maxBytes)
    return errorf(Status::invalidUsage, "-b is %llu and -e is %llu: no size is between them",
                  static_cast<unsigned long long>(options.minBytes),
                  static_cast<unsigned long long>(options.maxBytes));
  const bool multiplies = options.stepFactor > 1;
  if (multiplies && options.minBytes == 0)
    return errorf(Status::invalidUsage, "-b 0 cannot be multiplied: begin with -b 8, or use -i");
  const bool isOne = options.minBytes == options.maxBytes;
  if (!multiplies && !isOne && options.stepBytes == 0)
    return errorf(Status::invalidUsage, "-i 0 makes no progress: use -i 1M, or -f 2");
  if (!multiplies && !isOne &&
      (options.maxBytes - options.minBytes) / options.stepBytes > kMaxSizes)
    return errorf(Status::invalidUsage, "-i makes more than %llu sizes: use a larger one, or -f 2",
                  static_cast<unsigned long long>(kMaxSizes));
  return {};
}

}  // namespace cinch::bench
