// What the plugin reads and writes: files of rules, and NCCL's cost tables.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/text_file.h"
#include "tuner_plugin/cost_writer.h"
#include "tuner_plugin/log.h"
#include "tuner_plugin/rule_files.h"

namespace cinch::tuner {
namespace {

const std::string kRule = "allreduce,0,65536,tree,simple,2,1,-1\n";

std::vector<std::string> lines;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    lines.clear();
    setLogSink([](LogLevel, const char*, int, const char* text) { lines.push_back(text); });
  }
  void TearDown() override {
    setLogSink(nullptr);
    std::filesystem::remove_all(folder_);
  }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  Params params(const std::string& own = "") const {
    const std::string cache = "CINCH_CACHE_DIR=" + folder_, rules = "CINCH_TUNER_RULES=" + own;
    const char* const environment[] = {cache.c_str(), rules.c_str(), nullptr};
    return readParams(environment).params;
  }

  const std::string folder_ = testing::TempDir() + "tuner_files_test";
};

TEST_F(Files, NoneIsNoError) {
  EXPECT_TRUE(readRuleFiles(params()).empty());
  EXPECT_TRUE(lines.empty());
}

TEST_F(Files, TheUsersComesFirst) {
  write("tuner.csv", kRule);
  const auto files = readRuleFiles(params(write("own.csv", kRule + kRule)));
  ASSERT_EQ(files.size(), 2u);
  EXPECT_TRUE(files[0].isOwn);
  EXPECT_EQ(files[0].rules.size(), 2u);
  EXPECT_FALSE(files[1].isOwn);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[1].find("tuner.csv: 1 rules, hash "), std::string::npos) << lines[1];
}

TEST_F(Files, WhatIsBadIsIgnoredWhole) {
  write("tuner.csv", kRule);
  const auto files = readRuleFiles(params(write("own.csv", kRule + "allreduce,0\n")));
  ASSERT_EQ(files.size(), 1u);
  EXPECT_FALSE(files[0].isOwn);
  EXPECT_NE(lines.at(0).find("own.csv is ignored: line 2, max_bytes: ''"), std::string::npos)
      << lines[0];
  lines.clear();
  EXPECT_EQ(readRuleFiles(params(folder_ + "/none.csv")).size(), 1u);
  EXPECT_NE(lines.at(0).find("none.csv is ignored: there is no such file"), std::string::npos);
}

TEST_F(Files, RulesOnRegisteredBuffersAreNamed) {
  write("tuner.csv", "allreduce,0,65536,tree,simple,2,1,-1,-1,1\n");
  EXPECT_EQ(readRuleFiles(params()).size(), 1u);
  EXPECT_NE(lines.back().find("1 rules ask for regBuff"), std::string::npos);
}

// What is recorded is there at the latest when the last communicator of its shape has ended.
TEST_F(Files, CostTablesAreWritten) {
  const std::string folder = folder_ + "/deep/cache";
  CostWriter writer(folder);
  CostStore* const store = writer.acquire(8, 2);
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(writer.acquire(8, 2), store) << "one store for a shape";
  EXPECT_NE(writer.acquire(8, 1), store);
  float costs[kAlgorithms * kProtocols] = {};
  store->record(TunedCollective::allReduce, 1024, 1, {costs, kAlgorithms, kProtocols});
  for (int i = 0; i < 3; ++i) writer.release(store);
  const auto text = readTextFile(costTablePath(folder, 8, 2));
  ASSERT_TRUE(text.ok());
  const auto table = parseCostTable(text.value());
  ASSERT_TRUE(table.ok()) << table.error().message;
  EXPECT_EQ(table.value().rows.size(), size_t{kAlgorithms * kProtocols});
  EXPECT_FALSE(std::filesystem::exists(costTablePath(folder, 8, 1))) << "nothing to say";
  EXPECT_TRUE(lines.empty());
}

TEST_F(Files, CostTablesAreWrittenWhileTheJobRuns) {
  CostWriter writer(folder_);
  CostStore* const store = writer.acquire(4, 4);
  float costs[kAlgorithms * kProtocols] = {};
  store->record(TunedCollective::reduce, 1, 1, {costs, kAlgorithms, kProtocols});
  for (int wait = 0; wait < 500 && !std::filesystem::exists(costTablePath(folder_, 4, 4)); ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(std::filesystem::exists(costTablePath(folder_, 4, 4)));
  writer.release(store);
}

TEST_F(Files, AFolderThatCannotBeIsSaidOnce) {
  const std::string file = write("file", "");
  CostWriter writer(file + "/cache");
  CostStore* const store = writer.acquire(2, 1);
  float costs[kAlgorithms * kProtocols] = {};
  for (uint64_t bytes : {1, 2}) {
    store->record(TunedCollective::reduce, bytes, 1, {costs, kAlgorithms, kProtocols});
    writer.release(store);
    writer.acquire(2, 1);
  }
  writer.release(store);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("CINCH_CACHE_DIR"), std::string::npos);
}

TEST_F(Files, ShapesThatNoCommunicatorHasAreNotWritten) {
  CostWriter writer(folder_);
  EXPECT_EQ(writer.acquire(0, 0), nullptr);
  EXPECT_EQ(writer.acquire(1, 2), nullptr);
  EXPECT_EQ(writer.acquire(~uint64_t{0}, 1), nullptr);
  EXPECT_EQ(CostWriter("").acquire(2, 1), nullptr);
}

}  // namespace
}  // namespace cinch::tuner
