#include "tools/cinch/tune/state.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/text_file.h"

namespace cinch::tune {
namespace {

Measurement measurement(double time) {
  return {"2.28.9", true, 2, 1, {{1024, time}, {4096, 2 * time}}};
}

class StateFile : public testing::Test {
 protected:
  StateFile() {
    options_.state = testing::TempDir() + "tune_state_test";
    options_.collectives = {"all_reduce"};
    options_.algorithms = {"ring"};
    options_.protocols = {"ll", "simple"};
    options_.channels = {"auto"};
    options_.repeats = 2;
    std::filesystem::remove(options_.state);
  }
  ~StateFile() override { std::filesystem::remove(options_.state); }

  State open() {
    auto state = State::open(options_);
    EXPECT_TRUE(state.ok()) << state.error().message;
    return std::move(state.value());
  }
  void append(const std::string& text) { std::ofstream(options_.state, std::ios::app) << text; }

  Options options_;
};

TEST_F(StateFile, GoesOnWhereItWas) {
  {
    State state = open();
    EXPECT_TRUE(state.results().empty());
    EXPECT_TRUE(state.add({measurement(1.5), measurement(2.5), ""}).ok());
    EXPECT_TRUE(state.add({measurement(3), std::nullopt, "exit status 1: \xff no"}).ok());
  }
  const State state = open();
  ASSERT_EQ(state.results().size(), 2u);
  EXPECT_EQ(state.results()[0].own->timings, measurement(1.5).timings);
  EXPECT_EQ(state.results()[0].candidate->timings, measurement(2.5).timings);
  EXPECT_FALSE(state.results()[1].candidate);
  EXPECT_TRUE(state.results()[1].refusal.starts_with("exit status 1"));
}

TEST_F(StateFile, ALineThatIsCutIsMeasuredAgain) {
  open().add({measurement(1), std::nullopt, ""}).ok();
  append("{\"own\":null,\"candidate\":null,\"refusal\":\"\"}");  // without its end
  EXPECT_EQ(open().results().size(), 1u);
  append("{\"own\":nu");
  EXPECT_EQ(open().results().size(), 1u);
  append("{\"own\":{\"nccl\":1},\"candidate\":null,\"refusal\":\"\"}\n");
  EXPECT_EQ(open().results().size(), 1u);
  append("[]\n7\n");
  EXPECT_EQ(open().results().size(), 1u);
}

TEST_F(StateFile, AnotherSweepBeginsAnew) {
  open().add({measurement(1), std::nullopt, ""}).ok();
  options_.iterations = 7;
  EXPECT_TRUE(open().results().empty());
}

TEST_F(StateFile, ASweepThatHasEndedBeginsAnew) {
  const size_t nPairs = pairsOf(options_).size();
  {
    State state = open();
    for (size_t i = 0; i < nPairs; ++i)
      EXPECT_TRUE(state.add({measurement(1), measurement(1), ""}).ok());
  }
  {
    State state = open();
    EXPECT_EQ(state.results().size(), nPairs) << "no rules have been written yet";
    EXPECT_TRUE(state.end().ok());
  }
  EXPECT_TRUE(open().results().empty());
}

TEST_F(StateFile, OneProcessAtATimeHasIt) {
  State state = open();
  const auto second = State::open(options_);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("still at work"), std::string::npos);
  EXPECT_TRUE(state.add({measurement(1), std::nullopt, ""}).ok());
}

TEST_F(StateFile, OtherFilesAreNotReplaced) {
  append("Chapter 1\n");
  ASSERT_FALSE(State::open(options_).ok());
  EXPECT_EQ(readTextFile(options_.state).value(), "Chapter 1\n");
}

TEST_F(StateFile, WhatCannotBeWrittenIsSaid) {
  options_.state = "/nowhere/state";
  EXPECT_FALSE(State::open(options_).ok());
}

TEST(Measurement, IsReadFromTheBenchmark) {
  const auto parsed = measurementOf(R"({"nccl": {"version": "2.28.9", "emulator": false},
    "ranks": 3, "arguments": {"hosts": 0},
    "devices": [{"host": "a"}, {"host": "b"}, {"host": "a"}],
    "results": [
      {"size": 0, "out_of_place": {"time_us": 9}, "in_place": {"time_us": 9}},
      {"size": 1024, "out_of_place": {"time_us": 10}, "in_place": {"time_us": 20}}]})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed.value().nRanks, 3);
  EXPECT_EQ(parsed.value().nNodes, 2);
  EXPECT_EQ(parsed.value().timings, (std::vector<Timing>{{1024, 15}}));
  const auto cut = measurementOf(R"({"nccl": {"version": "2.28.9", "emulator": false},
    "ranks": 2, "arguments": {"hosts": 1}, "devices": [],
    "results": [
      {"size": 1024, "out_of_place": {"time_us": 10}, "in_place": {"time_us": 10}},
      {"size": 1024, "out_of_place": {"time_us": 12}, "in_place": {"time_us": 12}}]})");
  ASSERT_TRUE(cut.ok()) << cut.error().message;
  EXPECT_EQ(cut.value().timings, (std::vector<Timing>{{1024, 10}})) << "1024 and 1126 bytes";
  for (const char* bad : {"", "{}", "[]", R"({"nccl": 7})"}) EXPECT_FALSE(measurementOf(bad).ok());
}

}  // namespace
}  // namespace cinch::tune
