#include "common/param_kinds.h"

#include <gtest/gtest.h>

#include <random>

namespace cinch {
namespace {

constexpr const char* kModes = "off|observe|on";

TEST(ChoiceKind, TakesExactlyTheChoicesInAnyCase) {
  EXPECT_EQ(parseChoice("off", kModes), 0);
  EXPECT_EQ(parseChoice("observe", kModes), 1);
  EXPECT_EQ(parseChoice("on", kModes), 2);
  EXPECT_EQ(parseChoice("OBServe", kModes), 1);
  for (const char* bad : {"", "o", "onn", "off|on", "|", "observ", " on"}) {
    EXPECT_FALSE(parseChoice(bad, kModes)) << bad;
  }
}

TEST(ChoiceKind, FormatsTheNameOfEachIndex) {
  EXPECT_EQ(formatChoice(0, kModes), "off");
  EXPECT_EQ(formatChoice(1, kModes), "observe");
  EXPECT_EQ(formatChoice(2, kModes), "on");
  EXPECT_EQ(formatChoice(0, "only"), "only");
}

constexpr SizeKind kAnySize{"0", "16777215T"};

TEST(SizeKind, ReadsSuffixesAsPowersOf1024) {
  EXPECT_EQ(kAnySize.parse("0"), 0u);
  EXPECT_EQ(kAnySize.parse("1000"), 1000u);
  EXPECT_EQ(kAnySize.parse("64K"), 65536u);
  EXPECT_EQ(kAnySize.parse("64k"), 65536u);
  EXPECT_EQ(kAnySize.parse("3M"), 3u << 20);
  EXPECT_EQ(kAnySize.parse("2G"), 2ull << 30);
  EXPECT_EQ(kAnySize.parse("1T"), 1ull << 40);
}

TEST(SizeKind, RefusesWhatIsNoSize) {
  for (const char* bad : {"", "K", "-1", "+1", "1.5M", "1KB", "1 K", " 1", "1 ", "0x10", "1KK",
                          "18446744073709551616", "18014398509481984K", "99999999T"}) {
    EXPECT_FALSE(kAnySize.parse(bad)) << bad;
  }
}

TEST(SizeKind, BordersAreInside) {
  constexpr SizeKind kind{"1K", "1M"};
  EXPECT_FALSE(kind.parse("1023"));
  EXPECT_EQ(kind.parse("1024"), 1024u);
  EXPECT_EQ(kind.parse("1M"), 1u << 20);
  EXPECT_FALSE(kind.parse("1048577"));
  EXPECT_EQ(kind.range(), "1K..1M");
}

TEST(SizeKind, ParseReadsBackWhatFormatWrites) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t value = (random() >> (random() % 64)) << 10 * (random() % 3) >> 21;
    EXPECT_EQ(kAnySize.parse(kAnySize.format(value)), value);
  }
  EXPECT_EQ(kAnySize.format(65536), "64K");
  EXPECT_EQ(kAnySize.format(0), "0");
  EXPECT_EQ(kAnySize.format(1025), "1025");
  EXPECT_EQ(kAnySize.format(uint64_t{5} << 50), "5120T");
}

TEST(IntKind, TakesWholeNumbersInRange) {
  constexpr IntKind kind{-2, 3600, "seconds"};
  EXPECT_EQ(kind.parse("-2"), -2);
  EXPECT_EQ(kind.parse("3600"), 3600);
  for (const char* bad : {"", "-3", "3601", "1s", "1.0", "one", "99999999999999999999", "- 1"}) {
    EXPECT_FALSE(kind.parse(bad)) << bad;
  }
  EXPECT_EQ(kind.format(-2), "-2");
  EXPECT_EQ(kind.range(), "-2..3600 seconds");
}

TEST(BoolKind, KnowsTheUsualWords) {
  constexpr BoolKind kind;
  for (const char* yes : {"y", "Y", "yes", "1", "true", "True", "on"}) {
    EXPECT_EQ(kind.parse(yes), true) << yes;
  }
  for (const char* no : {"n", "no", "0", "FALSE", "off"}) EXPECT_EQ(kind.parse(no), false) << no;
  for (const char* bad : {"", "2", "yy", "maybe", "o"}) EXPECT_FALSE(kind.parse(bad)) << bad;
  EXPECT_EQ(kind.parse(kind.format(true)), true);
  EXPECT_EQ(kind.parse(kind.format(false)), false);
}

TEST(GainKind, TakesWordsAndNumbersUpToOne) {
  constexpr GainKind kind;
  EXPECT_EQ(kind.parse("OFF"), "off");
  EXPECT_EQ(kind.parse("auto"), "auto");
  EXPECT_EQ(kind.parse("0.1"), "0.1");
  EXPECT_EQ(kind.parse("1"), "1");
  for (const char* bad : {"", "0", "-0.1", "1.01", "nan", "inf", "0.1x", "1e-60", "on", ","}) {
    EXPECT_FALSE(kind.parse(bad)) << bad;
  }
}

TEST(GainKind, EqualNumbersGetEqualText) {
  constexpr GainKind kind;
  EXPECT_EQ(kind.parse("0.10"), kind.parse(".1"));
  EXPECT_EQ(kind.parse("1e-1"), kind.parse("0.1"));
  EXPECT_NE(kind.parse("0.1"), kind.parse("0.11"));
}

TEST(GainKind, NumberSurvivesItsText) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> gains(1e-6f, 1.0f);
  for (int i = 0; i < 2000; ++i) {
    const float gain = gains(random);
    const auto text = GainKind{}.parse(std::to_string(gain));
    ASSERT_TRUE(text);
    EXPECT_EQ(GainKind{}.parse(*text), text);
    EXPECT_EQ(parseGainNumber(*text), parseGainNumber(std::to_string(gain)));
  }
}

TEST(TextKind, KeepsEveryByte) {
  const std::string odd = "a=b %h\t\x80|";
  EXPECT_EQ(TextKind{}.parse(odd), odd);
  EXPECT_EQ(TextKind{}.format(odd), odd);
}

}  // namespace
}  // namespace cinch
