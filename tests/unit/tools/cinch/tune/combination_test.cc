#include "tools/cinch/tune/combination.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace cinch::tune {
namespace {

using Strings = std::vector<std::string>;

TEST(Combination, OnlyWhatNcclHasForTheCollective) {
  Options options;
  options.channels = {"auto"};
  const auto namesOf = [&options](TunedCollective collective) {
    Strings names;
    for (const Combination& combination : combinationsOf(collective, options))
      names.push_back(describe(combination));
    return names;
  };
  EXPECT_EQ(namesOf(TunedCollective::allReduce),
            (Strings{"tree ll", "tree ll128", "tree simple", "ring ll", "ring ll128", "ring simple",
                     "nvls simple", "nvls_tree simple"}));
  EXPECT_EQ(namesOf(TunedCollective::allGather),
            (Strings{"ring ll", "ring ll128", "ring simple", "nvls simple", "pat simple"}));
  options.channels = {"2", "4"};
  EXPECT_EQ(namesOf(TunedCollective::allGather),
            (Strings{"ring ll x2", "ring ll x4", "ring ll128 x2", "ring ll128 x4", "ring simple x2",
                     "ring simple x4", "nvls simple", "pat simple x2", "pat simple x4"}));
}

TEST(Combination, TellsNcclTheCollectiveWhereItListens) {
  const Combination combination{Algorithm::nvlsTree, Protocol::ll128, 4};
  for (const char* version : {"2.24.3", "2.28.9", "3.0.1"})
    EXPECT_EQ(variablesOf(combination, TunedCollective::allReduce, version),
              (Strings{"NCCL_ALGO=ring;allreduce:nvlstree", "NCCL_PROTO=simple;allreduce:ll128",
                       "NCCL_MIN_NCHANNELS=4", "NCCL_MAX_NCHANNELS=4"}))
        << version;
  for (const char* version : {"2.23.4", "2.9.9", "", "x"})
    EXPECT_EQ(variablesOf({Algorithm::tree, Protocol::ll, 0}, TunedCollective::allReduce, version),
              (Strings{"NCCL_ALGO=tree", "NCCL_PROTO=ll"}))
        << version;
}

TEST(Combination, RoundsDoNotFollowEachOther) {
  Options options;
  options.collectives = {"all_reduce", "all_gather"};
  options.algorithms = {"ring", "pat"};
  options.protocols = {"simple"};
  options.channels = {"auto"};
  options.repeats = 2;
  Strings order;
  for (const Pair& pair : pairsOf(options))
    order.push_back(pair.collective + " " + nameOf(pair.combination.algorithm) + " " +
                    std::to_string(pair.round));
  EXPECT_EQ(order, (Strings{"all_reduce ring 0", "all_reduce ring 1", "all_gather ring 0",
                            "all_gather pat 0", "all_gather ring 1", "all_gather pat 1"}));
}

}  // namespace
}  // namespace cinch::tune
