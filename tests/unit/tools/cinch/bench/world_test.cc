#include "tools/cinch/bench/world.h"

#include <gtest/gtest.h>

#include <map>

namespace cinch::bench {
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::optional<World>> read(const Variables& variables) {
  return worldOf([&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(BenchWorld, NoLauncher) {
  EXPECT_FALSE(read({}).value().has_value());
}

TEST(BenchWorld, OpenMpi) {
  const World world = *read({{"OMPI_COMM_WORLD_RANK", "5"},
                             {"OMPI_COMM_WORLD_SIZE", "8"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                             {"PMIX_NAMESPACE", "123"}})
                           .value();
  EXPECT_EQ(world.rank, 5);
  EXPECT_EQ(world.ranks, 8);
  EXPECT_EQ(world.localRank, 1);
  EXPECT_FALSE(world.isOneHost());
  EXPECT_NE(world.job.find("123"), std::string::npos);
}

TEST(BenchWorld, Torchrun) {
  const Variables variables = {{"RANK", "1"},
                               {"WORLD_SIZE", "2"},
                               {"LOCAL_RANK", "1"},
                               {"MASTER_ADDR", "a/b"},
                               {"MASTER_PORT", "29500"}};
  const World world = *read(variables).value();
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.ranks, 2);
  EXPECT_TRUE(world.isOneHost());
  EXPECT_EQ(world.job, "WORLD_SIZE-a_b-29500");
}

TEST(BenchWorld, Slurm) {
  const Variables step = {{"SLURM_PROCID", "6"},  {"SLURM_STEP_NUM_TASKS", "7"},
                          {"SLURM_LOCALID", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                          {"SLURM_JOB_ID", "9"},  {"SLURM_STEP_ID", "1"}};
  const World world = *read(step).value();
  EXPECT_EQ(world.rank, 6);
  EXPECT_EQ(world.ranks, 7);
  EXPECT_EQ(world.localRank, 2);
  EXPECT_FALSE(world.isOneHost());
  EXPECT_EQ(world.job, "SLURM_STEP_NUM_TASKS-9-1");
}

TEST(BenchWorld, SlurmOnOneNodeAndMany) {
  const auto step = [](const char* tasks) {
    return read({{"SLURM_PROCID", "0"},
                 {"SLURM_STEP_NUM_TASKS", "4"},
                 {"SLURM_STEP_TASKS_PER_NODE", tasks}});
  };
  EXPECT_TRUE((*step("4").value()).isOneHost());
  EXPECT_FALSE((*step("2(x2)").value()).isOneHost());
  EXPECT_NE(step("many").error().message.find("SLURM_STEP_TASKS_PER_NODE=many"), std::string::npos);
}

TEST(BenchWorld, ABatchScriptIsNoRank) {
  EXPECT_FALSE(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).value().has_value());
}

TEST(BenchWorld, RefusesWhatMakesNoSense) {
  const auto errorOf = [](const Variables& variables) { return read(variables).error().message; };
  EXPECT_NE(errorOf({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).find("ranks count from 0"),
            std::string::npos);
  EXPECT_NE(errorOf({{"RANK", "x"}, {"WORLD_SIZE", "2"}}).find("RANK=x"), std::string::npos);
  EXPECT_NE(errorOf({{"RANK", "0"}, {"WORLD_SIZE", "0"}}).find("WORLD_SIZE=0"), std::string::npos);
  EXPECT_NE(errorOf({{"WORLD_SIZE", "2"}}).find("RANK is not"), std::string::npos);
}

TEST(BenchWorld, RanksAreSpreadOverHosts) {
  const auto host = [](int rank) { return hostOf(World{rank, 4, rank, 4, ""}, 2); };
  EXPECT_EQ(host(0), 0);
  EXPECT_EQ(host(1), 0);
  EXPECT_EQ(host(2), 1);
  EXPECT_EQ(host(3), 1);
}

}  // namespace
}  // namespace cinch::bench
