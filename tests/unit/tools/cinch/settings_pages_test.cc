#include "tools/cinch/settings_pages.h"

#include <gtest/gtest.h>

#include <sstream>

namespace cinch {
namespace {

ParamRow row(const char* name, const char* fallback, const std::string& range, const char* help,
             bool wire) {
  return {name, "text", fallback, fallback, range, "default", help, wire};
}

// Every line that begins with a dot is one of man's macros, every backslash begins an escape.
void expectSoundRoff(const std::string& page) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('.')) {
      EXPECT_TRUE(line.starts_with(".TH ") || line.starts_with(".SH ") || line.starts_with(".B ") ||
                  line == ".TP" || line == ".br")
          << line;
    }
    EXPECT_FALSE(line.starts_with('\'')) << line;
    for (size_t at = line.find('\\'); at != std::string::npos; at = line.find('\\', at + 2)) {
      ASSERT_LT(at + 1, line.size()) << line;
      EXPECT_NE(std::string("-e&").find(line[at + 1]), std::string::npos) << line;
    }
  }
}

TEST(SettingsPages, ManPageHasEveryParameter) {
  const char* const nothing[] = {nullptr};
  const auto rows = readParams(nothing).rows;
  const std::string page = settingsManPage(rows, "1.2.3");
  expectSoundRoff(page);
  EXPECT_TRUE(page.starts_with(".TH CINCH 7 \"\" \"Cinch 1.2.3\"\n"));
  for (const ParamRow& row : rows) {
    EXPECT_NE(page.find(std::string(".TP\n.B ") + row.name + "\n"), std::string::npos) << row.name;
  }
}

TEST(SettingsPages, ManPageEscapesWhatRoffTakesForItsOwn) {
  const std::string page = settingsManPage({row("CINCH_A", "-1", "a|b", ".so what\\n", true)}, "1");
  expectSoundRoff(page);
  EXPECT_NE(page.find("\n\\&.so what\\en.\nRange: a|b.\nDefault: \\-1.\nAll ranks"),
            std::string::npos)
      << page;
}

TEST(SettingsPages, WhatIsEmptyIsLeftOut) {
  const std::string page = settingsManPage({row("CINCH_A", "", "", "help", false)}, "1");
  EXPECT_NE(page.find(".B CINCH_A\nhelp.\n.SH SEE ALSO"), std::string::npos) << page;
}

TEST(SettingsPages, MarkdownKeepsBarsOutOfTheTable) {
  const std::string page = settingsMarkdown({row("CINCH_A", "a", "a|b", "help", true)});
  EXPECT_NE(page.find("| `CINCH_A` | `a` | `a\\|b` | yes | help |\n"), std::string::npos) << page;
}

}  // namespace
}  // namespace cinch
