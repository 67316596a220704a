#include <fmt/core.h>

#include <stdexcept>

#include "common/param.h"
#include "tools/cinch/bench/launch.h"
#include "tools/cinch/bench/run_rank.h"
#include "tools/cinch/commands.h"

namespace cinch {
namespace {

constexpr int kFailed = 1;

int usageError(const std::string& message) {
  fmt::print(stderr, "cinch bench: {}\nTry `cinch bench --help`.\n", message);
  return kExitUsage;
}

int runRankOf(const bench::Options& options, const bench::World& world) {
  try {
    return bench::runRank(options, world);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cinch bench: rank {}: {}\n", world.rank, error.what());
    return kFailed;
  }
}

// What is wrong with the options for a job of so many ranks; empty where nothing is.
std::string mismatch(const bench::Options& options, int ranks) {
  if (options.ranks != 0 && options.ranks != ranks)
    return fmt::format("--ranks {}, but the launcher has started {}: leave the option out",
                       options.ranks, ranks);
  if (options.hosts > ranks)
    return fmt::format("--hosts {}, but there are {} ranks: at most one host for each",
                       options.hosts, ranks);
  return {};
}

}  // namespace

int runBenchmark(const bench::Options& options) {
  if (const auto valid = bench::checkOptions(options); !valid.ok())
    return usageError(valid.error().message);
  const auto world = bench::worldOf(environmentVariable);
  if (!world.ok()) return usageError(world.error().message);
  const bool isLaunched = world.value().has_value();
  const int own = options.ranks != 0 ? options.ranks : bench::defaultRanks();
  const int ranks = isLaunched ? world.value()->ranks : own;
  if (const std::string wrong = mismatch(options, ranks); !wrong.empty()) return usageError(wrong);
  if (isLaunched) return runRankOf(options, *world.value());
  try {
    return bench::runOwnRanks(
        own, [&options](const bench::World& rank) { return runRankOf(options, rank); });
  } catch (const std::exception& error) {
    fmt::print(stderr, "cinch bench: {}\n", error.what());
    return kFailed;
  }
}

}  // namespace cinch
