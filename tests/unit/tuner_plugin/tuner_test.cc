#include "tuner_plugin/tuner.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <thread>

namespace cinch::tuner {
namespace {

constexpr int kAllReduce = static_cast<int>(TunedCollective::allReduce);

// NCCL's table, in which everything costs 10 microseconds.
struct Costs {
  std::array<float, kAlgorithms * kProtocols> values;
  Costs() { values.fill(10); }
  CostGrid grid(int nAlgorithms = kAlgorithms, int nProtocols = kProtocols) {
    return {values.data(), nAlgorithms, nProtocols};
  }
  // How many entries are not 10.
  int changed() const {
    int count = 0;
    for (const float value : values) count += value == 10 ? 0 : 1;
    return count;
  }
};

RuleFile fileOf(const std::string& text, bool isOwn = false) {
  auto rules = parseRules(text);
  EXPECT_TRUE(rules.ok()) << rules.error().message;
  return {"rules.csv", std::move(rules.value()), isOwn};
}

Tuner tunerOf(const std::string& text) {
  return Tuner({fileOf(text)}, 8, 2, nullptr);
}

TEST(Tuner, MarksWhatARuleSays) {
  Tuner tuner = tunerOf("allreduce,8,16,tree,ll,4,-1,-1\nallreduce,8,1K,ring,simple,-1,-1,-1\n");
  Costs costs;
  int nChannels = 0;
  tuner.choose({kAllReduce, 16, 1}, costs.grid(), &nChannels);
  EXPECT_EQ(costs.grid().at(Algorithm::tree, Protocol::ll), 0);
  EXPECT_EQ(costs.changed(), 1);
  EXPECT_EQ(nChannels, 4);
  Costs larger;
  nChannels = 0;
  tuner.choose({kAllReduce, 17, 1}, larger.grid(), &nChannels);
  EXPECT_EQ(larger.grid().at(Algorithm::ring, Protocol::simple), 0);
  EXPECT_EQ(nChannels, 0) << "NCCL's own";
  tuner.choose({kAllReduce, 16, 1}, larger.grid(), nullptr);
}

TEST(Tuner, WritesNothingWhereNoRuleHolds) {
  Tuner tuner = tunerOf("allreduce,8,16,tree,ll,4,1,-1\nallreduce,8,16,tree,ll,4,2,8\n");
  EXPECT_EQ(tuner.countRules(), 1u) << "the other is for one node";
  for (const Call& call : {Call{kAllReduce, 17, 1}, Call{0, 16, 1}, Call{-1, 16, 1}, Call{5, 16, 1},
                           Call{1 << 30, 16, 1}}) {
    Costs costs;
    int nChannels = 0;
    tuner.choose(call, costs.grid(), &nChannels);
    EXPECT_EQ(costs.changed(), 0);
    EXPECT_EQ(nChannels, 0);
  }
}

TEST(Tuner, NeverTakesWhatNcclRulesOut) {
  Tuner tuner = tunerOf("allreduce,0,1G,ring,ll128,4,-1,-1\n");
  for (const float unusable : {-1.0f, -0.5f, std::nanf("")}) {
    Costs costs;
    costs.grid().at(Algorithm::ring, Protocol::ll128) = unusable;
    int nChannels = 0;
    tuner.choose({kAllReduce, 16, 1}, costs.grid(), &nChannels);
    EXPECT_EQ(costs.changed(), 1);
    EXPECT_FALSE(costs.grid().at(Algorithm::ring, Protocol::ll128) >= 0);
    EXPECT_EQ(nChannels, 0);
  }
}

// NCCL would use as many as are said, beyond what the communicator has.
TEST(Tuner, SaysNoChannelsWhereTheyAreNoLimit) {
  const auto channelsOf = [](const std::string& algorithm, uint64_t nNodes) {
    Tuner tuner({fileOf("allreduce,0,1G," + algorithm + ",simple,1024,-1,-1")}, 8, nNodes, nullptr);
    Costs costs;
    int nChannels = 0;
    tuner.choose({kAllReduce, 16, 1}, costs.grid(), &nChannels);
    EXPECT_EQ(costs.changed(), 1) << algorithm;
    return nChannels;
  };
  for (const char* algorithm : {"ring", "tree", "nvls_tree", "pat"})
    EXPECT_EQ(channelsOf(algorithm, 2), 1024) << algorithm;
  for (const char* algorithm : {"collnet_direct", "collnet_chain", "nvls"})
    EXPECT_EQ(channelsOf(algorithm, 2), 0) << algorithm;
  EXPECT_EQ(channelsOf("collnet_direct", 1), 0);
  EXPECT_EQ(channelsOf("nvls", 1), 1024);
}

// As rings are of 8-bit floats that would lose precision.
TEST(Tuner, LeavesWhatNcclMakesFarDearer) {
  Tuner tuner = tunerOf("allreduce,0,1G,ring,simple,4,-1,-1\n");
  const auto isTaken = [&tuner](float cost) {
    Costs costs;
    costs.grid().at(Algorithm::ring, Protocol::simple) = cost;
    costs.grid().at(Algorithm::nvls, Protocol::ll) = -1;
    int nChannels = 0;
    tuner.choose({kAllReduce, 16, 1}, costs.grid(), &nChannels);
    return nChannels == 4 && costs.grid().at(Algorithm::ring, Protocol::simple) == 0;
  };
  EXPECT_TRUE(isTaken(10));
  EXPECT_TRUE(isTaken(1000)) << "an estimate, which measurements may prove wrong";
  EXPECT_FALSE(isTaken(10 * 1024));
}

TEST(Tuner, StaysWithinTheTable) {
  Tuner tuner = tunerOf("allreduce,0,1G,pat,simple,4,-1,-1\nreduce,0,1G,tree,simple,-1,-1,-1\n");
  Costs costs;
  int nChannels = 0;
  tuner.choose({kAllReduce, 16, 1}, costs.grid(6, 3), &nChannels);  // before NCCL 2.23
  tuner.choose({1, 16, 1}, costs.grid(7, 2), &nChannels);
  EXPECT_EQ(costs.changed(), 0);
  EXPECT_EQ(nChannels, 0);
}

TEST(Tuner, TheUsersRulesComeFirst) {
  const std::string line = "allreduce,0,1G,tree,ll,";
  Tuner tuner({fileOf(line + "2,-1,-1", true), fileOf(line + "4,-1,-1")}, 8, 2, nullptr);
  Costs costs;
  int nChannels = 0;
  tuner.choose({kAllReduce, 16, 1}, costs.grid(), &nChannels);
  EXPECT_EQ(nChannels, 2);
}

TEST(Tuner, AnswersBlindlyOnlyWhatIsAlwaysPossible) {
  const auto answer = [](const std::string& rule, bool isOwn, bool allowsLl128) {
    Tuner tuner({fileOf(rule, isOwn)}, 8, 2, nullptr);
    return tuner
        .chooseBlindly({static_cast<int>(fileOf(rule).rules[0].collective), 16, 1}, allowsLl128)
        .has_value();
  };
  EXPECT_TRUE(answer("allreduce,0,1G,ring,simple,4,-1,-1", false, false));
  EXPECT_TRUE(answer("allreduce,0,1G,tree,ll,4,-1,-1", false, false));
  EXPECT_TRUE(answer("allgather,0,1G,ring,ll,4,-1,-1", false, false));
  EXPECT_FALSE(answer("allgather,0,1G,tree,ll,4,-1,-1", true, true));
  EXPECT_FALSE(answer("allreduce,0,1G,nvls,simple,4,-1,-1", true, true));
  EXPECT_FALSE(answer("allreduce,0,1G,ring,ll128,4,-1,-1", false, false));
  EXPECT_FALSE(answer("allreduce,0,1G,ring,ll128,4,-1,-1", false, true)) << "measured, not said";
  EXPECT_FALSE(answer("allreduce,0,1G,ring,ll128,4,-1,-1", true, false));
  EXPECT_TRUE(answer("allreduce,0,1G,ring,ll128,4,-1,-1", true, true));
}

TEST(CostStore, KeepsTheFirstTableOfEachSize) {
  CostStore store(8, 2);
  Tuner tuner({fileOf("allreduce,0,1G,ring,simple,4,-1,-1")}, 8, 2, &store);
  Costs ofAGroup, costs;
  tuner.choose({kAllReduce, 1024, 3}, ofAGroup.grid(), nullptr);
  EXPECT_EQ(store.count(), 0u);
  costs.grid().at(Algorithm::ring, Protocol::ll128) = -1;
  tuner.choose({kAllReduce, 1024, 1}, costs.grid(), nullptr);
  EXPECT_EQ(store.count(), 1u);
  tuner.choose({kAllReduce, 2047, 1}, costs.grid(), nullptr);
  EXPECT_EQ(store.count(), 1u) << "of the same power of two";
  const CostTable table = store.table();
  EXPECT_EQ(table.nRanks, 8);
  ASSERT_EQ(table.rows.size(), 20u) << "all but LL128 of the ring";
  for (const CostRow& row : table.rows) {
    EXPECT_EQ(row.nBytes, 1024u);
    EXPECT_EQ(row.nPipeOps, 1);
    EXPECT_EQ(row.microseconds, 10) << "as NCCL has it, not as a rule marked it";
  }
  tuner.choose({kAllReduce, 0, 1}, costs.grid(), nullptr);
  tuner.choose({kAllReduce, ~uint64_t{0}, 1}, costs.grid(2, 1), nullptr);
  EXPECT_EQ(store.count(), 3u);
  EXPECT_EQ(store.table().rows.size(), 20u + 20u + 2u);
}

TEST(CostStore, TakesManyThreads) {
  CostStore store(2, 1);
  const auto record = [&store](float cost) {
    Costs costs;
    costs.values.fill(cost);
    for (uint64_t bytes = 1; bytes != 0; bytes <<= 1)
      for (int collective = 0; collective < kTunedCollectives; ++collective)
        store.record(static_cast<TunedCollective>(collective), bytes, 1, costs.grid());
  };
  std::thread reader([&store] {
    while (store.count() < 64 * kTunedCollectives) store.table();
  });
  std::thread writers[] = {std::thread(record, 1.0f), std::thread(record, 2.0f)};
  for (std::thread& writer : writers) writer.join();
  reader.join();
  const CostTable table = store.table();
  EXPECT_EQ(table.rows.size(), size_t{64} * kTunedCollectives * kAlgorithms * kProtocols);
  for (size_t first = 0; first < table.rows.size(); first += kAlgorithms * kProtocols)
    for (size_t i = first; i < first + kAlgorithms * kProtocols; ++i)
      EXPECT_EQ(table.rows[i].microseconds, table.rows[first].microseconds) << "of one call";
}

}  // namespace
}  // namespace cinch::tuner
