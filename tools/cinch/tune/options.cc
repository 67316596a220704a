#include "tools/cinch/tune/options.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "common/nccl_choices.h"
#include "common/param.h"
#include "common/param_kinds.h"
#include "tools/cinch/bench/collective.h"
#include "tuner_plugin/rule_files.h"

namespace cinch::tune {
namespace {

constexpr int kMaxChannels = 1024;

void addSweep(CLI::App& command, Options& options) {
  command
      .add_option("collectives", options.collectives,
                  "all_reduce, reduce_scatter, all_gather; default: all of them")
      ->check(CLI::IsMember({"all_reduce", "reduce_scatter", "all_gather"}));
  command.add_option("-b,--minbytes", options.minBytes, "smallest size")
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("-e,--maxbytes", options.maxBytes, "largest size")
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("-f,--stepfactor", options.stepFactor, "factor from size to size")
      ->check(CLI::Range(1.1, 1e6))
      ->capture_default_str();
  command.add_option("-n,--iters", options.iterations, "timed calls of each size")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command.add_option("-w,--warmup_iters", options.warmups, "calls of each size before those")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  command
      .add_option("--repeats", options.repeats,
                  "how often each combination is measured beside NCCL's own choice")
      ->check(CLI::Range(2, 100))
      ->capture_default_str();
}

void addCombinations(CLI::App& command, Options& options) {
  command.add_option("--algorithms", options.algorithms, kAlgorithmNames)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("--protocols", options.protocols, kProtocolNames)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      .add_option("--channels", options.channels,
                  "numbers of channels; auto: as many as NCCL takes itself")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
}

void addJob(CLI::App& command, Options& options) {
  command.add_option("--ranks", options.ranks, "ranks on this host, as for `cinch bench`")
      ->check(CLI::Range(1, 1024));
  command.add_option("--hosts", options.hosts, "hosts to make believe, as for `cinch bench`")
      ->check(CLI::Range(1, 1024));
  command.add_option(
      "--launcher", options.launcher,
      "what starts the ranks, in front of `cinch bench`: 'mpirun -np 16 -H a:8,b:8'");
  command.add_option("-T,--timeout", options.timeoutSeconds, "seconds to wait for a size")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  CLI::Option* nccl = command.add_option("--nccl", options.nccl, "NCCL's library");
  command.add_flag("--emulator", options.emulator, "run on the emulator of this build")
      ->excludes(nccl);
}

void addFiles(CLI::App& command, Options& options) {
  command.add_option(
      "--output", options.output,
      "the rules; default: tuner.csv in CINCH_CACHE_DIR, where the tuner plugin "
      "looks for them, or tuner.csv.rehearsal, where it does not, with --emulator or "
      "--hosts");
  command.add_option("--state", options.state,
                     "what was measured so far: the same command goes on from there; default: "
                     "the name of the rules with .state");
  command.add_option("--plot", options.plotFile,
                     "draw the times against size: .png, .svg or .pdf, with gnuplot");
}

Error wrong(const char* option, const std::string& text, const char* allowed) {
  return errorf(Status::invalidUsage, "%s %s: it should be %s", option, text.c_str(), allowed);
}

Result<void> checkNames(const Options& options) {
  for (const std::string& name : options.algorithms)
    if (!algorithmNamed(name)) return wrong("--algorithms", name, kAlgorithmNames);
  for (const std::string& name : options.protocols)
    if (!protocolNamed(name)) return wrong("--protocols", name, kProtocolNames);
  for (const std::string& number : options.channels)
    if (number != "auto" && !IntKind{1, kMaxChannels, ""}.parse(number))
      return wrong("--channels", number, "auto, or a number from 1 to 1024");
  return {};
}

Result<void> checkSizes(const Options& options) {
  const auto least = bench::parseSize(options.minBytes), most = bench::parseSize(options.maxBytes);
  if (!least || *least == 0) return wrong("-b", options.minBytes, "a size above 0");
  if (!most || *most < *least) return wrong("-e", options.maxBytes, "a size, not below that of -b");
  return {};
}

bool isDrawable(const std::string& file) {
  const std::string suffix = std::filesystem::path(file).extension().string();
  return file.empty() || suffix == ".png" || suffix == ".svg" || suffix == ".pdf";
}

// What the emulator says, or hosts that are made believe, is no rule for a job.
bool isRehearsal(const Options& options) {
  return options.emulator || options.hosts > 0;
}

Result<void> fillIn(Options& options) {
  if (options.output.empty()) {
    options.output = tuner::measuredRulesPath(processParams().params);
    if (!options.output.empty() && isRehearsal(options)) options.output += ".rehearsal";
    if (options.output.empty())
      return errorf(Status::invalidUsage, "there is no home to write to: name a file by --output");
    std::error_code error;  // writing says what is wrong
    std::filesystem::create_directories(std::filesystem::path(options.output).parent_path(), error);
  }
  if (options.state.empty()) options.state = options.output + ".state";
  return {};
}

}  // namespace

void addOptions(CLI::App& command, Options& options) {
  addSweep(command, options);
  addCombinations(command, options);
  addJob(command, options);
  addFiles(command, options);
}

Result<void> completeOptions(Options& options) {
  CINCH_TRY(checkNames(options));
  CINCH_TRY(checkSizes(options));
  if (!isDrawable(options.plotFile))
    return wrong("--plot", options.plotFile, "a name that ends in .png, .svg or .pdf");
  return fillIn(options);
}

}  // namespace cinch::tune
