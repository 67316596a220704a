#include "common/param.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <thread>

namespace cinch {
namespace {

ParamSet read(const std::vector<std::string>& entries) {
  std::vector<const char*> environment;
  for (const std::string& entry : entries) environment.push_back(entry.c_str());
  environment.push_back(nullptr);
  return readParams(environment.data());
}

const ParamRow& rowOf(const ParamSet& set, const std::string& name) {
  const auto row = std::find_if(set.rows.begin(), set.rows.end(),
                                [&](const ParamRow& candidate) { return name == candidate.name; });
  EXPECT_NE(row, set.rows.end()) << name;
  return *row;
}

// A valid value of this row other than `row.value`.
std::string otherValue(const ParamRow& row) {
  static const std::map<std::string, std::vector<std::string>> kValues = {
      {"size", {"1M", "2M"}},
      {"int", {"7", "8"}},
      {"bool", {"y", "n"}},
      {"gain", {"0.5", "1"}},
      {"text", {"some", "thing"}}};
  if (std::string(row.kind) == "choice" || std::string(row.kind) == "name") {
    const std::string first = row.range.substr(0, row.range.find('|'));
    return row.value != first ? first : row.range.substr(row.range.rfind('|') + 1);
  }
  const std::vector<std::string>& values = kValues.at(row.kind);
  return row.value != values[0] ? values[0] : values[1];
}

std::string assign(const ParamRow& row, const std::string& value) {
  return std::string(row.name) + "=" + value;
}

TEST(ReadParams, NothingSetGivesTheDefaults) {
  const ParamSet set = read({});
  EXPECT_EQ(set.params.mode, Mode::on);
  EXPECT_EQ(set.params.codec, "auto");
  EXPECT_EQ(set.params.slots, SlotChoice::sequence);
  EXPECT_EQ(set.params.errorFeedback, "auto");
  EXPECT_EQ(set.params.minBytes, 65536u);
  EXPECT_EQ(set.params.warmupCalls, 3);
  EXPECT_EQ(set.params.net, NetChoice::automatic);
  EXPECT_FALSE(set.params.strict);
  EXPECT_EQ(set.params.stats, "");
  EXPECT_TRUE(set.warnings.empty());
  for (const ParamRow& row : set.rows) EXPECT_STREQ(row.source, "default") << row.name;
}

TEST(ReadParams, EveryEntryOfTheTableIsSound) {
  const ParamSet set = read({});
  std::set<std::string> names;
  ASSERT_GE(set.rows.size(), 10u);
  for (const ParamRow& row : set.rows) {
    EXPECT_TRUE(std::string(row.name).starts_with("CINCH_")) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is there twice";
    EXPECT_STRNE(row.help, "") << row.name;
    EXPECT_EQ(row.range.empty(), std::string(row.kind) == "text") << row.name;
    // A value that equals the default must be accepted: the default is within its own range.
    const ParamSet spelled = read({assign(row, row.fallback)});
    EXPECT_TRUE(spelled.warnings.empty()) << spelled.warnings[0];
    EXPECT_EQ(rowOf(spelled, row.name).value, row.value) << row.name;
    EXPECT_STREQ(rowOf(spelled, row.name).source, *row.fallback ? "environment" : "default");
  }
}

TEST(ReadParams, TakesEveryKindFromTheEnvironment) {
  const ParamSet set =
      read({"CINCH_MODE=Observe", "CINCH_CODEC=q2", "CINCH_ERROR_FEEDBACK=0.25",
            "CINCH_MIN_BYTES=2M", "CINCH_WARMUP_CALLS=11", "CINCH_STRICT=y", "CINCH_STATS=/a=b"});
  EXPECT_EQ(set.params.mode, Mode::observe);
  EXPECT_EQ(set.params.codec, "q2");
  EXPECT_EQ(set.params.errorFeedback, "0.25");
  EXPECT_EQ(set.params.minBytes, 2u << 20);
  EXPECT_EQ(set.params.warmupCalls, 11);
  EXPECT_TRUE(set.params.strict);
  EXPECT_EQ(set.params.stats, "/a=b");
  EXPECT_TRUE(set.warnings.empty());
  EXPECT_EQ(rowOf(set, "CINCH_MODE").value, "observe");
  EXPECT_STREQ(rowOf(set, "CINCH_MODE").source, "environment");
  EXPECT_STREQ(rowOf(set, "CINCH_NCCL_LIB").source, "default");
}

TEST(ReadParams, BadValueNamesVariableValueRangeAndWhatIsUsed) {
  const ParamSet set = read({"CINCH_AGREE_TIMEOUT=0"});
  EXPECT_EQ(set.params.agreeTimeout, 60);
  EXPECT_STREQ(rowOf(set, "CINCH_AGREE_TIMEOUT").source, "default");
  ASSERT_EQ(set.warnings.size(), 1u);
  for (const char* part : {"CINCH_AGREE_TIMEOUT=0", "1..3600 seconds", "60"}) {
    EXPECT_NE(set.warnings[0].find(part), std::string::npos) << set.warnings[0];
  }
}

TEST(ReadParams, TakesASettingByTheNameThatItHad) {
  for (const auto& [given, when] : {std::pair("CINCH_STRATEGY=sra", WhenChoice::always),
                                    std::pair("CINCH_STRATEGY=auto", WhenChoice::automatic),
                                    std::pair("CINCH_STRATEGY=always", WhenChoice::always)}) {
    const ParamSet set = read({given});
    EXPECT_EQ(set.params.when, when) << given;
    EXPECT_TRUE(set.warnings.empty());
    ASSERT_EQ(set.notices.size(), 1u);
    for (const char* part : {"CINCH_STRATEGY", "CINCH_WHEN", "sra", "always", "next release"})
      EXPECT_NE(set.notices[0].find(part), std::string::npos) << set.notices[0];
  }
  const ParamSet both = read({"CINCH_STRATEGY=sra", "CINCH_WHEN=auto"});
  EXPECT_EQ(both.params.when, WhenChoice::automatic) << "the new name counts";
  const ParamSet bad = read({"CINCH_STRATEGY=fast"});
  EXPECT_EQ(bad.params.when, WhenChoice::automatic);
  ASSERT_EQ(bad.warnings.size(), 1u);
  EXPECT_NE(bad.warnings[0].find("CINCH_WHEN=fast"), std::string::npos) << bad.warnings[0];
}

TEST(ReadParams, UnknownNameGetsTheNearestKnownOne) {
  const std::map<std::string, std::string> nearest = {
      {"CINCH_CODECS", "CINCH_CODEC?"},
      {"CINCH_STAT", "CINCH_STATS?"},
      {"CINCH_ERRORFEEDBACK", "CINCH_ERROR_FEEDBACK?"},
      {"CINCH_MDOE", "CINCH_MODE?"},
      {"CINCH_mode", "CINCH_MODE?"},
      {"CINCH_MIN_BYTE", "CINCH_MIN_BYTES?"}};
  for (const auto& [given, expected] : nearest) {
    const ParamSet set = read({given + "=1"});
    ASSERT_EQ(set.warnings.size(), 1u);
    EXPECT_NE(set.warnings[0].find(given), std::string::npos) << set.warnings[0];
    EXPECT_NE(set.warnings[0].find("did you mean " + expected), std::string::npos)
        << set.warnings[0];
  }
}

TEST(ReadParams, TheEmulatorsVariablesAreNotCinchs) {
  const ParamSet set =
      read({"CINCH_EMULATOR_LINKS=1", "CINCH_EMULATOR_DEVICES=2", "CINCH_TORCH_OPERATORS=/a"});
  EXPECT_TRUE(set.warnings.empty()) << set.warnings[0];
}

TEST(ReadParams, OtherPeoplesVariablesAreNotLookedAt) {
  EXPECT_TRUE(
      read({"PATH=/bin", "CINCH=1", "XCINCH_MODE=1", "cinch_mode=off", "=", ""}).warnings.empty());
}

TEST(ReadParams, FirstOfSeveralCounts) {
  const ParamSet set = read({"CINCH_CODEC=q4", "CINCH_CODEC=q2", "CINCH_X=1", "CINCH_X=2"});
  EXPECT_EQ(set.params.codec, "q4");
  EXPECT_EQ(set.warnings.size(), 1u);  // CINCH_X, once
}

TEST(ReadParams, EmptyIsUnset) {
  const ParamSet set = read({"CINCH_CODEC=", "CINCH_ERROR_FEEDBACK=", "CINCH_STATS="});
  EXPECT_EQ(set.params.codec, "auto");
  EXPECT_EQ(set.params.errorFeedback, "auto");
  EXPECT_TRUE(set.warnings.empty());
}

TEST(ReadParams, WarningIsOneShortLine) {
  const ParamSet set = read({"CINCH_MODE=a\nb\x1b[31m" + std::string(100000, 'x'),
                             "CINCH_" + std::string(100000, 'Y') + "=1"});
  ASSERT_EQ(set.warnings.size(), 2u);
  for (const std::string& warning : set.warnings) {
    EXPECT_LT(warning.size(), 300u);
    EXPECT_EQ(warning.find_first_of("\n\x1b"), std::string::npos);
  }
}

// Whatever the environment holds, what was read is valid: reading it back gives the same.
TEST(ReadParams, RandomEnvironmentsGiveValidParameters) {
  std::mt19937 random(3);
  const std::vector<ParamRow> rows = read({}).rows;
  const std::string alphabet = "0123456789.eKMGTqoynaf|_= \n\xff-";
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> entries;
    for (size_t n = random() % 6; n > 0; --n) {
      std::string entry = random() % 8 ? rows[random() % rows.size()].name : "CINCH_";
      if (random() % 8) entry += '=';
      for (size_t length = random() % 6; length > 0; --length) {
        entry += alphabet[random() % alphabet.size()];
      }
      entries.push_back(entry);
    }
    const ParamSet set = read(entries);
    std::vector<std::string> back;
    for (const ParamRow& row : set.rows) back.push_back(assign(row, row.value));
    const ParamSet again = read(back);
    EXPECT_TRUE(again.warnings.empty()) << again.warnings[0];
    EXPECT_EQ(settingsText(again.params), settingsText(set.params));
    for (size_t row = 0; row < set.rows.size(); ++row) {
      EXPECT_EQ(again.rows[row].value, set.rows[row].value);
    }
  }
}

TEST(ErrorFeedbackGain, FollowsTheSetting) {
  const Params automatic = read({}).params;
  for (float choice : {0.0f, 0.1f, 0.8f}) EXPECT_EQ(errorFeedbackGain(automatic, choice), choice);
  const Params off = read({"CINCH_ERROR_FEEDBACK=off"}).params;
  const Params half = read({"CINCH_ERROR_FEEDBACK=0.5"}).params;
  for (float choice : {0.0f, 0.1f, 0.8f}) {
    EXPECT_EQ(errorFeedbackGain(off, choice), 0.0f);
    EXPECT_EQ(errorFeedbackGain(half, choice), 0.5f);
  }
}

TEST(SettingsText, HoldsEveryWireParameterOnce) {
  const ParamSet set = read({"CINCH_CODEC=q4", "CINCH_STATS=somewhere"});
  std::string expected;
  for (const ParamRow& row : set.rows) {
    if (!row.wire) continue;
    if (!expected.empty()) expected += ' ';
    expected += assign(row, row.value);
  }
  EXPECT_EQ(settingsText(set.params), expected);
  EXPECT_NE(expected.find("CINCH_CODEC=q4"), std::string::npos);
  EXPECT_EQ(expected.find("somewhere"), std::string::npos);
}

TEST(SettingsText, ChangesWithWireParametersOnly) {
  const ParamSet defaults = read({});
  for (const ParamRow& row : defaults.rows) {
    const ParamSet changed = read({assign(row, otherValue(row))});
    ASSERT_TRUE(changed.warnings.empty()) << changed.warnings[0];
    ASSERT_NE(rowOf(changed, row.name).value, row.value);
    const bool same = settingsText(changed.params) == settingsText(defaults.params);
    EXPECT_EQ(same, !row.wire) << row.name;
  }
}

TEST(SettingsText, SpellingDoesNotMatter) {
  EXPECT_EQ(settingsText(read({"CINCH_MIN_BYTES=64k", "CINCH_ERROR_FEEDBACK=1e-1"}).params),
            settingsText(read({"CINCH_MIN_BYTES=65536", "CINCH_ERROR_FEEDBACK=0.10"}).params));
}

// CTest sets CINCH_CODEC=q4 and the unknown CINCH_TEST_ONLY for this program.
TEST(ProcessParams, ReadsTheEnvironmentOnceForAllThreads) {
  std::vector<const ParamSet*> seen(8);
  std::vector<std::thread> threads;
  for (const ParamSet*& set : seen) threads.emplace_back([&set] { set = &processParams(); });
  for (std::thread& thread : threads) thread.join();
  for (const ParamSet* set : seen) EXPECT_EQ(set, seen[0]);
  if (environmentVariable("CINCH_TEST_ONLY") == nullptr) GTEST_SKIP() << "not run by CTest";
  EXPECT_EQ(seen[0]->params.codec, "q4");
  ASSERT_EQ(seen[0]->warnings.size(), 1u);
  EXPECT_NE(seen[0]->warnings[0].find("CINCH_TEST_ONLY"), std::string::npos);
}

TEST(EnvironmentVariable, IsNullWhereUnset) {
  ASSERT_EQ(setenv("NCCL_HOSTID", "a host", 1), 0);
  EXPECT_STREQ(environmentVariable("NCCL_HOSTID"), "a host");
  ASSERT_EQ(unsetenv("NCCL_HOSTID"), 0);
  EXPECT_EQ(environmentVariable("NCCL_HOSTID"), nullptr);
}

TEST(ExpandPath, KnowsHostPidAndPercent) {
  const std::string pid = std::to_string(getpid());
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  const std::string shortHost = std::string(host).substr(0, std::string(host).find('.'));
  EXPECT_EQ(expandPath("/a/%h/%p.%h"), "/a/" + shortHost + "/" + pid + "." + shortHost);
  EXPECT_EQ(expandPath("%%p%x%"), "%p%x%");
  EXPECT_EQ(expandPath(""), "");
}

TEST(StatsPath, IsEmptyUnlessAskedFor) {
  EXPECT_EQ(statsPath(read({}).params), "");
  EXPECT_EQ(statsPath(read({"CINCH_STATS=n"}).params), "");
  EXPECT_EQ(statsPath(read({"CINCH_STATS=y"}).params), expandPath("cinch-stats.%h.%p"));
  EXPECT_EQ(statsPath(read({"CINCH_STATS=/r/%p"}).params), expandPath("/r/%p"));
}

}  // namespace
}  // namespace cinch
