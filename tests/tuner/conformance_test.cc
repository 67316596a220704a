// The built plugin as NCCL uses it: loaded by dlopen, through each of the tables that it exports.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/cost_table.h"
#include "common/text_file.h"
#include "tuner_plugin/abi/tables.h"

namespace cinch {
namespace {

namespace fs = std::filesystem;

constexpr int kNothing = -12345;

// --- NCCL's side.

std::mutex logMutex;
std::vector<std::string> logged;

void logger(ncclDebugLogLevel level, unsigned long flags, const char*, int, const char* format,
            ...) {
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const std::lock_guard lock(logMutex);
  EXPECT_TRUE(level == NCCL_LOG_WARN || (flags & NCCL_LOG_TUNING) != 0) << text;
  logged.push_back(text);
}

std::string wholeLog() {
  const std::lock_guard lock(logMutex);
  std::string text;
  for (const std::string& line : logged) text += line + "\n";
  return text;
}

// What a version is asked and answers; the first has no costs.
struct Answer {
  int algorithm = kNothing;
  int protocol = kNothing;
  int nChannels = 0;
};
using CostArray = std::array<float, kAlgorithms * kProtocols>;

struct Table {
  int version = 0;
  std::string name;
  std::function<ncclResult_t(size_t nRanks, size_t nNodes, ncclDebugLogger_t, void**)> init;
  std::function<ncclResult_t(void*, int func, size_t nBytes, float* costs, int* nChannels)> ask;
  std::function<ncclResult_t(void*)> destroy;
};

void* symbolOf(int version) {
  static void* const library = dlopen(TUNER_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) ADD_FAILURE() << dlerror();
  return library == nullptr
             ? nullptr
             : dlsym(library, ("ncclTunerPlugin_v" + std::to_string(version)).c_str());
}

template <class Plugin>
Table tableWithCosts(int version, const Plugin& plugin) {
  Table table{version, plugin.name, {}, {}, {}};
  constexpr bool hasId = requires {
    plugin.finalize;
  };
  table.init = [&plugin](size_t nRanks, size_t nNodes, ncclDebugLogger_t log, void** context) {
    if constexpr (hasId) {
      ncclNvlDomainInfo_v5_t domains = {1, 8, 8};
      ncclTunerConstants_v5_t constants = {};
      constants.llMaxBws[0][0] = 7;
      const auto result = plugin.init(context, 99, nRanks, nNodes, log, &domains, &constants);
      EXPECT_EQ(constants.llMaxBws[0][0], 7);
      return result;
    } else {
      return plugin.init(nRanks, nNodes, log, context);
    }
  };
  table.ask = [&plugin](void* context, int func, size_t nBytes, float* costs, int* nChannels) {
    const auto kind = static_cast<ncclFunc_t>(func);
    auto** const grid = reinterpret_cast<float**>(costs);
    if constexpr (std::is_same_v<Plugin, ncclTuner_v3_t>)
      return plugin.getCollInfo(context, kind, nBytes, 1, grid, kAlgorithms, kProtocols, nChannels);
    else
      return plugin.getCollInfo(context, kind, nBytes, 1, grid, kAlgorithms, kProtocols, 0,
                                nChannels);
  };
  if constexpr (hasId)
    table.destroy = plugin.finalize;
  else
    table.destroy = plugin.destroy;
  return table;
}

std::vector<Table> tablesWithCosts() {
  std::vector<Table> tables;
  const auto add = [&](int version, auto* plugin) {
    ASSERT_NE(plugin, nullptr) << version;
    tables.push_back(tableWithCosts(version, *plugin));
  };
  add(3, static_cast<const ncclTuner_v3_t*>(symbolOf(3)));
  add(4, static_cast<const ncclTuner_v4_t*>(symbolOf(4)));
  add(5, static_cast<const ncclTuner_v5_t*>(symbolOf(5)));
  add(6, static_cast<const ncclTuner_v6_t*>(symbolOf(6)));
  return tables;
}

const ncclTuner_v2_t& tableV2() {
  return *static_cast<const ncclTuner_v2_t*>(symbolOf(2));
}

// --- The files that the plugin reads, by the environment that CMakeLists.txt sets.

void writeRules(const std::string& own, const std::string& measured = "") {
  fs::create_directories(TUNER_FOLDER);
  std::ofstream(TUNER_FOLDER "/own.csv") << own;
  std::ofstream(TUNER_FOLDER "/tuner.csv") << measured;
}

class Conformance : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(TUNER_FOLDER);
    logged.clear();
  }

  // Each version with costs, on a communicator of 8 ranks on 2 nodes.
  void forEachVersion(const std::function<void(const Table&, void* context)>& body) {
    for (const Table& table : tablesWithCosts()) {
      SCOPED_TRACE("v" + std::to_string(table.version));
      void* context = &logged;
      EXPECT_EQ(table.init(8, 2, logger, &context), ncclSuccess);
      EXPECT_NE(context, &logged);
      body(table, context);
      EXPECT_EQ(table.destroy(context), ncclSuccess);
    }
  }
};

size_t indexOf(Algorithm algorithm, Protocol protocol) {
  return static_cast<size_t>(algorithm) * kProtocols + static_cast<size_t>(protocol);
}

TEST_F(Conformance, MarksWhatRulesSay) {
  writeRules("allreduce,0,1M,tree,ll,4,2,8\n", "allreduce,0,2M,ring,ll128,-1,-1,-1\n");
  forEachVersion([](const Table& table, void* context) {
    EXPECT_EQ(table.name, "Cinch");
    CostArray costs;
    costs.fill(5);
    int nChannels = 0;
    EXPECT_EQ(table.ask(context, ncclFuncAllReduce, 1024, costs.data(), &nChannels), ncclSuccess);
    EXPECT_EQ(costs[indexOf(Algorithm::tree, Protocol::ll)], 0);
    EXPECT_EQ(nChannels, 4);
    EXPECT_EQ(std::count(costs.begin(), costs.end(), 5), 20);
    costs.fill(5);
    nChannels = 0;
    EXPECT_EQ(table.ask(context, ncclFuncAllReduce, 2 << 20, costs.data(), &nChannels),
              ncclSuccess);
    EXPECT_EQ(costs[indexOf(Algorithm::ring, Protocol::ll128)], 0) << "what was measured";
    EXPECT_EQ(nChannels, 0);
  });
  EXPECT_NE(wholeLog().find("own.csv: 1 rules, hash "), std::string::npos) << wholeLog();
  EXPECT_NE(wholeLog().find("allreduce of 1024 bytes: tree, ll, 4 channels ("), std::string::npos)
      << wholeLog();
}

TEST_F(Conformance, NeverRevivesWhatNcclIgnores) {
  writeRules("allreduce,0,1G,ring,ll128,4,-1,-1\n");
  forEachVersion([](const Table& table, void* context) {
    CostArray costs;
    costs.fill(5);
    costs[indexOf(Algorithm::ring, Protocol::ll128)] = NCCL_ALGO_PROTO_IGNORE;
    const CostArray before = costs;
    int nChannels = 0;
    EXPECT_EQ(table.ask(context, ncclFuncAllReduce, 1024, costs.data(), &nChannels), ncclSuccess);
    EXPECT_EQ(costs, before);
    EXPECT_EQ(nChannels, 0);
  });
  EXPECT_NE(wholeLog().find("not safe here"), std::string::npos);
}

TEST_F(Conformance, BadFilesAreNoOpinion) {
  writeRules("allreduce,0,1G,ring,simple,4,-1,-1\nallreduce,0,1G,ring,simple,none,-1,-1\n");
  forEachVersion([](const Table& table, void* context) {
    CostArray costs;
    costs.fill(5);
    int nChannels = 0;
    EXPECT_EQ(table.ask(context, ncclFuncAllReduce, 1024, costs.data(), &nChannels), ncclSuccess);
    EXPECT_EQ(std::count(costs.begin(), costs.end(), 5), 21);
    EXPECT_EQ(nChannels, 0);
  });
  EXPECT_NE(wholeLog().find("own.csv is ignored: line 2, channels: 'none' should be"),
            std::string::npos)
      << wholeLog();
}

TEST_F(Conformance, MissingFilesAreNoOpinion) {
  forEachVersion([](const Table& table, void* context) {
    CostArray costs;
    costs.fill(5);
    EXPECT_EQ(table.ask(context, ncclFuncAllReduce, 1024, costs.data(), nullptr), ncclSuccess);
    EXPECT_EQ(std::count(costs.begin(), costs.end(), 5), 21);
  });
}

TEST_F(Conformance, NothingFails) {
  writeRules("allreduce,0,1G,ring,simple,4,-1,-1\n");
  for (const Table& table : tablesWithCosts()) {
    SCOPED_TRACE("v" + std::to_string(table.version));
    EXPECT_EQ(table.init(8, 2, logger, nullptr), ncclSuccess);
    EXPECT_EQ(table.destroy(nullptr), ncclSuccess);
    CostArray costs;
    costs.fill(5);
    int nChannels = 0;
    EXPECT_EQ(table.ask(nullptr, ncclFuncAllReduce, 1024, costs.data(), &nChannels), ncclSuccess);
    void* context = nullptr;
    EXPECT_EQ(table.init(0, 0, nullptr, &context), ncclSuccess);
    EXPECT_EQ(table.ask(context, ncclFuncAllReduce, 1024, nullptr, &nChannels), ncclSuccess);
    EXPECT_EQ(table.ask(context, -1, 1024, costs.data(), &nChannels), ncclSuccess);
    EXPECT_EQ(table.ask(context, 1000, 1024, costs.data(), &nChannels), ncclSuccess);
    EXPECT_EQ(std::count(costs.begin(), costs.end(), 5), 21);
    EXPECT_EQ(table.ask(context, ncclFuncAllReduce, 1024, costs.data(), nullptr), ncclSuccess);
    EXPECT_EQ(table.destroy(context), ncclSuccess);
  }
  const auto& newest = *static_cast<const ncclTuner_v6_t*>(symbolOf(6));
  size_t chunk = 4096;
  EXPECT_EQ(newest.getChunkSize(nullptr, ncclFuncAllReduce, 1, 1, 2, 1, &chunk), ncclSuccess);
  EXPECT_EQ(chunk, 4096u);
}

// CINCH_MODE=off in the second run of this program.
TEST_F(Conformance, OffIsNoOpinion) {
  writeRules("allreduce,0,1G,ring,simple,4,-1,-1\n");
  const char* const mode = std::getenv("CINCH_MODE");
  const int expected = mode == nullptr ? 4 : 0;
  forEachVersion([&](const Table& table, void* context) {
    CostArray costs;
    costs.fill(5);
    int nChannels = 0;
    EXPECT_EQ(table.ask(context, ncclFuncAllReduce, 1024, costs.data(), &nChannels), ncclSuccess);
    EXPECT_EQ(nChannels, expected);
  });
}

// The same answer to the same question, from whatever thread and communicator.
TEST_F(Conformance, ManyThreadsGetTheSameAnswers) {
  writeRules(
      "allreduce,0,1023,tree,ll,2,-1,-1\nallreduce,1K,1M,ring,ll128,4,-1,-1\n"
      "allgather,0,1G,ring,simple,8,-1,-1\n");
  const auto work = [](const Table& table, void* shared) {
    void* own = nullptr;
    EXPECT_EQ(table.init(8, 2, logger, &own), ncclSuccess);
    for (int call = 0; call < 2000; ++call) {
      const bool isSmall = call % 2 == 0;
      CostArray costs;
      costs.fill(5);
      int nChannels = 0;
      EXPECT_EQ(table.ask(call % 3 == 0 ? shared : own, ncclFuncAllReduce, isSmall ? 8 : 2048,
                          costs.data(), &nChannels),
                ncclSuccess);
      EXPECT_EQ(nChannels, isSmall ? 2 : 4);
    }
    EXPECT_EQ(table.destroy(own), ncclSuccess);
  };
  forEachVersion([&](const Table& table, void* context) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(work, table, context);
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_F(Conformance, CostTablesGoToTheCacheFolder) {
  forEachVersion([](const Table& table, void* context) {
    fs::remove_all(TUNER_FOLDER);
    CostArray costs;
    costs.fill(5);
    costs[indexOf(Algorithm::nvls, Protocol::ll)] = NCCL_ALGO_PROTO_IGNORE;
    // Another power of two for each version: the first table of a size is kept.
    const size_t nBytes = size_t{1} << (20 + table.version);
    table.ask(context, ncclFuncReduceScatter, nBytes, costs.data(), nullptr);
    const std::string path = costTablePath(TUNER_FOLDER, 8, 2);
    for (int wait = 0; wait < 500 && !fs::exists(path); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto text = readTextFile(path);
    ASSERT_TRUE(text.ok()) << text.error().message;
    const auto written = parseCostTable(text.value());
    ASSERT_TRUE(written.ok()) << written.error().message;
    const auto isOfThis = [&](const CostRow& row) {
      return row.collective == TunedCollective::reduceScatter && row.nBytes == nBytes &&
             row.microseconds == 5;
    };
    EXPECT_EQ(std::count_if(written.value().rows.begin(), written.value().rows.end(), isOfThis),
              20);
  });
}

// --- Version 2, which has no costs.

Answer askV2(const std::string& own, const std::string& measured = "") {
  writeRules(own, measured);
  void* context = nullptr;
  EXPECT_EQ(tableV2().init(8, 2, logger, &context), ncclSuccess);
  Answer answer;
  EXPECT_EQ(tableV2().getCollInfo(context, ncclFuncAllReduce, 1024, 1, 1, 1, &answer.algorithm,
                                  &answer.protocol, &answer.nChannels),
            ncclSuccess);
  EXPECT_EQ(tableV2().destroy(context), ncclSuccess);
  EXPECT_EQ(answer.nChannels, 0);
  return answer;
}

TEST_F(Conformance, Version2AnswersByNumber) {
  EXPECT_STREQ(tableV2().name, "Cinch");
  const Answer answer = askV2("allreduce,0,1M,tree,ll,4,-1,-1\n");
  EXPECT_EQ(answer.algorithm, static_cast<int>(Algorithm::tree));
  EXPECT_EQ(answer.protocol, static_cast<int>(Protocol::ll));
}

TEST_F(Conformance, Version2LeavesBothAloneOrNone) {
  for (const char* rule : {"", "allreduce,0,1M,nvls,simple,4,-1,-1\n", "allreduce,0\n",
                           "allgather,0,1M,ring,simple,4,-1,-1\n"}) {
    const Answer answer = askV2(rule);
    EXPECT_EQ(answer.algorithm, kNothing) << rule;
    EXPECT_EQ(answer.protocol, kNothing) << rule;
  }
}

// Only where the user says so twice: by a rule, and by the setting (the second run of this
// program).
TEST_F(Conformance, Version2KeepsAwayFromLl128) {
  const char* const rule = "allreduce,0,1M,ring,ll128,4,-1,-1\n";
  const char* const setting = std::getenv("CINCH_TUNER_LL128");
  EXPECT_EQ(askV2(rule).protocol,
            setting == nullptr ? kNothing : static_cast<int>(Protocol::ll128));
  EXPECT_EQ(askV2("", rule).protocol, kNothing) << "measured, not said";
}

// Version 2 has no costs, in which NCCL would mark what its variables rule out. Further runs of
// this program set one of them each.
TEST_F(Conformance, Version2ComesBehindNcclsOwnVariables) {
  const bool isChosen = std::getenv("NCCL_ALGO") != nullptr || std::getenv("NCCL_PROTO") != nullptr;
  const Answer answer = askV2("allreduce,0,1M,tree,ll,4,-1,-1\n");
  EXPECT_EQ(answer.algorithm, isChosen ? kNothing : static_cast<int>(Algorithm::tree));
  EXPECT_EQ(answer.protocol, isChosen ? kNothing : static_cast<int>(Protocol::ll));
}

TEST_F(Conformance, Version2TakesNothing) {
  writeRules("allreduce,0,1M,ring,simple,4,-1,-1\n");
  int number = kNothing;
  EXPECT_EQ(tableV2().init(8, 2, logger, nullptr), ncclSuccess);
  EXPECT_EQ(
      tableV2().getCollInfo(nullptr, ncclFuncAllReduce, 1, 0, 0, 1, &number, &number, &number),
      ncclSuccess);
  void* context = nullptr;
  EXPECT_EQ(tableV2().init(8, 2, nullptr, &context), ncclSuccess);
  EXPECT_EQ(
      tableV2().getCollInfo(context, ncclFuncAllReduce, 1, 0, 0, 1, nullptr, nullptr, nullptr),
      ncclSuccess);
  EXPECT_EQ(
      tableV2().getCollInfo(context, ncclFuncAllReduce, 1, 0, 0, 1, &number, nullptr, &number),
      ncclSuccess);
  EXPECT_EQ(number, kNothing) << "an algorithm without a protocol is no answer";
  EXPECT_EQ(tableV2().destroy(context), ncclSuccess);
}

}  // namespace
}  // namespace cinch
