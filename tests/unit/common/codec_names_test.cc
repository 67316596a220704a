#include "common/codec_names.h"

#include <gtest/gtest.h>

#include "common/param.h"
#include "common/param_kinds.h"

namespace cinch {
namespace {

bool isKept(std::string_view name) {
  return parseChoice(name, CINCH_CODEC_NAMES).has_value();
}

// All codecs that versions before had.
std::vector<std::string> allOldNames() {
  std::vector<std::string> names = {"mxfp4", "nvfp4", "c2", "c3", "c4", "c5", "c6", "c8"};
  for (const char* family :
       {"q2", "q3", "q4", "q5", "q6", "q8", "c2", "c3", "c4", "c5", "c6", "c8", "sign", "fp8"})
    for (const char* suffix : {"-64", "-256"}) names.push_back(std::string(family) + suffix);
  return names;
}

TEST(CodecNames, EveryOldNameHasAKeptSuccessor) {
  for (const std::string& name : allOldNames()) {
    const char* const successor = successorOfCodec(name);
    ASSERT_NE(successor, nullptr) << name;
    EXPECT_TRUE(isKept(successor)) << name << " " << successor;
    EXPECT_FALSE(isKept(name)) << name;
  }
}

TEST(CodecNames, SuccessorsAreThoseOfTheDecision) {
  const struct {
    const char *old, *successor;
  } kExpected[] = {{"q4-64", "q4"}, {"q8-256", "q8"}, {"c2", "h2"},        {"c4-256", "h4"},
                   {"c5", "q5"},    {"c8-64", "q8"},  {"sign-64", "sign"}, {"fp8-256", "fp8"},
                   {"mxfp4", "q4"}, {"nvfp4", "h4"},  {"Q4-64", "q4"},     {"C3", "h3"}};
  for (const auto& [old, successor] : kExpected) EXPECT_STREQ(successorOfCodec(old), successor);
}

// Kept names, and what was never one.
TEST(CodecNames, OthersHaveNone) {
  for (const char* name :
       {"auto",  "q2",       "q3",       "q4",        "q5",   "q6",       "q8",  "h2",  "h3",
        "h4",    "sign",     "fp8",      "bf16",      "fp16", "fp32",     "",    "-64", "q4-32",
        "h4-64", "bf16-256", "mxfp4-64", "nvfp4-256", "c7",   "c4-64-64", "q4-", "cc",  "c2 "})
    EXPECT_EQ(successorOfCodec(name), nullptr) << name;
}

TEST(CodecNames, TheTextHasBothNames) {
  const std::string text = retiredCodecText("c4-64");
  EXPECT_NE(text.find("c4-64"), std::string::npos);
  EXPECT_NE(text.find("h4"), std::string::npos);
}

// Ranks compare settings after the old name has become its successor.
TEST(CodecNames, TheSettingBecomesTheSuccessor) {
  for (const std::string& name : allOldNames()) {
    const std::string setting = "CINCH_CODEC=" + name;
    const std::string same = std::string("CINCH_CODEC=") + successorOfCodec(name);
    const char* const old[] = {setting.c_str(), nullptr};
    const char* const kept[] = {same.c_str(), nullptr};
    const ParamSet set = readParams(old);
    EXPECT_EQ(settingsText(set.params), settingsText(readParams(kept).params));
    EXPECT_TRUE(set.warnings.empty()) << set.warnings[0];
    ASSERT_EQ(set.notices.size(), 1u);
    EXPECT_NE(set.notices[0].find("CINCH_CODEC: the codec " + name), std::string::npos);
  }
}

TEST(CodecNames, KeptNamesGiveNoNotice) {
  const char* const kept[] = {"CINCH_CODEC=q4", nullptr};
  EXPECT_TRUE(readParams(kept).notices.empty());
}

}  // namespace
}  // namespace cinch
