#include "tools/cinch/bench/world.h"

#include <charconv>
#include <cstring>
#include <string_view>

namespace cinch::bench {
namespace {

struct Launcher {
  const char* rank;
  const char* ranks;
  const char* localRank;
  const char* localRanks;
  const char* job[3];  // together they tell jobs apart; null, or not set: does not count
};

constexpr Launcher kLaunchers[] = {{"OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", nullptr}},
                                   {"RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"}}};

// Of what srun starts. A batch script has a SLURM_PROCID, too, and is no rank.
constexpr Launcher kSlurm = {"SLURM_PROCID",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_LOCALID",
                             "SLURM_STEP_TASKS_PER_NODE",
                             {"SLURM_JOB_ID", "SLURM_STEP_ID", nullptr}};

// A number of at least `least`; `otherwise` where the variable is not set.
Result<int> numberOf(const Environment& environment, const char* name, int least, int otherwise) {
  const char* text = environment(name);
  if (text == nullptr) return otherwise;
  int value = 0;
  // Slurm says 4(x2),3 of two nodes with four tasks and one with three.
  const std::string_view view = std::string_view(text).substr(0, strcspn(text, "(,"));
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  const bool isNumber = error == std::errc() && end == view.data() + view.size();
  if (!isNumber || value < least)
    return errorf(Status::invalidUsage, "%s=%s is not a number of at least %d", name, text, least);
  return value;
}

std::string jobOf(const Environment& environment, const Launcher& launcher) {
  std::string job = launcher.ranks;
  for (const char* name : launcher.job) {
    const char* text = name == nullptr ? nullptr : environment(name);
    if (text != nullptr) job.append("-").append(text);
  }
  for (char& c : job)
    if (c == '/') c = '_';
  return job;
}

Result<World> worldOf(const Environment& environment, const Launcher& launcher) {
  const auto ranks = numberOf(environment, launcher.ranks, 1, 1);
  CINCH_TRY(ranks);
  const auto rank = numberOf(environment, launcher.rank, 0, 0);
  CINCH_TRY(rank);
  const auto localRank = numberOf(environment, launcher.localRank, 0, rank.value());
  CINCH_TRY(localRank);
  const auto localRanks = numberOf(environment, launcher.localRanks, 1, ranks.value());
  CINCH_TRY(localRanks);
  if (rank.value() >= ranks.value())
    return errorf(Status::invalidUsage, "%s=%d, but %s=%d: ranks count from 0", launcher.rank,
                  rank.value(), launcher.ranks, ranks.value());
  return World{rank.value(), ranks.value(), localRank.value(), localRanks.value(),
               jobOf(environment, launcher)};
}

}  // namespace

Result<std::optional<World>> worldOf(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    const bool hasRank = environment(launcher.rank) != nullptr;
    const bool hasRanks = environment(launcher.ranks) != nullptr;
    if (!hasRank && !hasRanks) continue;
    if (!hasRank || !hasRanks)
      return errorf(Status::invalidUsage, "%s is set, but %s is not: set both, or neither",
                    hasRank ? launcher.rank : launcher.ranks,
                    hasRank ? launcher.ranks : launcher.rank);
    const auto world = worldOf(environment, launcher);
    CINCH_TRY(world);
    return std::optional<World>(world.value());
  }
  if (environment(kSlurm.ranks) == nullptr) return std::optional<World>();
  const auto world = worldOf(environment, kSlurm);
  CINCH_TRY(world);
  return std::optional<World>(world.value());
}

int hostOf(const World& world, int hosts) {
  return static_cast<int>(int64_t{world.rank} * hosts / world.ranks);
}

}  // namespace cinch::bench
