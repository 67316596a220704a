// `cinch explain --codecs` of a build with a codec of its own.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/cinch/commands.h"

namespace cinch::test {
namespace {

std::string explained(OutputFormat format) {
  testing::internal::CaptureStdout();
  ExplainOptions options;
  options.format = format;
  options.nValues = 1 << 16;
  options.scale = 1e-6;
  EXPECT_EQ(explainCodecs(options), kExitOk);
  return testing::internal::GetCapturedStdout();
}

TEST(Explain, HasARowOfTheCodec) {
  const nlohmann::json report = nlohmann::json::parse(explained(OutputFormat::json));
  const nlohmann::json& row = report.at("codecs").at(0);
  EXPECT_EQ(row.at("name"), "ternary");
  EXPECT_EQ(row.at("family"), "experiment");
  EXPECT_EQ(row.at("bits_per_value"), 2.125);
  EXPECT_NEAR(row.at("nmse").at("gauss"), 0.19, 0.005);
  EXPECT_EQ(report.at("codecs").size(), 3u);
}

TEST(Explain, TextAndMarkdownHaveARowEach) {
  for (const OutputFormat format : {OutputFormat::text, OutputFormat::markdown}) {
    const std::string text = explained(format);
    EXPECT_NE(text.find("ternary"), std::string::npos);
    EXPECT_NE(text.find("1 / 15.1"), std::string::npos);
  }
}

}  // namespace
}  // namespace cinch::test
