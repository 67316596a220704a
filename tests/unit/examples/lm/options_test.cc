#include "examples/lm/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

namespace lm {
namespace {

class OptionsTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
  }

  static Options parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "train_lm");
    return parseOptions(static_cast<int>(arguments.size()), arguments.data());
  }

  // The message with which parsing fails; empty where it does not.
  static std::string error(const std::vector<const char*>& arguments) {
    try {
      parse(arguments);
      return {};
    } catch (const std::runtime_error& failure) {
      return failure.what();
    }
  }

  static void expectError(const std::vector<const char*>& arguments, const char* part) {
    EXPECT_NE(error(arguments).find(part), std::string::npos) << error(arguments);
  }
};

TEST_F(OptionsTest, DefaultsAreOneRankAndTwoHundredSteps) {
  const Options options = parse({});
  EXPECT_EQ(options.rank, 0);
  EXPECT_EQ(options.ranks, 1);
  EXPECT_EQ(options.steps, 200);
  EXPECT_EQ(options.gradientType, GradientType::fp32);
  EXPECT_EQ(options.reduction, Reduction::sum);
}

TEST_F(OptionsTest, EveryOptionIsTaken) {
  const Options options = parse({"--rank",
                                 "1",
                                 "--ranks",
                                 "4",
                                 "--id-file",
                                 "id",
                                 "--timeout",
                                 "7",
                                 "--steps",
                                 "10",
                                 "--batch",
                                 "3",
                                 "--lr",
                                 "0.5",
                                 "--seed",
                                 "18446744073709551615",
                                 "--text",
                                 "book",
                                 "--grad-dtype",
                                 "bf16",
                                 "--op",
                                 "avg",
                                 "--log",
                                 "log",
                                 "--iface",
                                 "eth0",
                                 "--eval-every",
                                 "5",
                                 "--progress",
                                 "--dump-gradients",
                                 "g",
                                 "--dump-steps",
                                 "1,5,9",
                                 "--dump-sums",
                                 "s"});
  EXPECT_EQ(options.rank, 1);
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(options.idFile, "id");
  EXPECT_EQ(options.timeoutSeconds, 7);
  EXPECT_EQ(options.steps, 10);
  EXPECT_EQ(options.batch, 3u);
  EXPECT_FLOAT_EQ(options.rate, 0.5f);
  EXPECT_EQ(options.seed, UINT64_MAX);
  EXPECT_EQ(options.text, "book");
  EXPECT_EQ(options.gradientType, GradientType::bf16);
  EXPECT_EQ(options.reduction, Reduction::average);
  EXPECT_EQ(options.log, "log");
  EXPECT_EQ(options.interface, "eth0");
  EXPECT_EQ(options.evalEvery, 5);
  EXPECT_TRUE(options.progress);
  EXPECT_EQ(options.dumpGradients, "g");
  EXPECT_EQ(options.dumpSteps, (std::vector<int>{1, 5, 9}));
  EXPECT_EQ(options.dumpSums, "s");
}

TEST_F(OptionsTest, LaunchersVariablesGiveTheRank) {
  setenv("RANK", "2", 1);
  setenv("WORLD_SIZE", "3", 1);
  const Options options = parse({"--id-file", "id"});
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(options.ranks, 3);
}

TEST_F(OptionsTest, BadValuesAreNamed) {
  expectError({"--steps", "many"}, "--steps");
  expectError({"--steps", "0"}, "--steps");
  expectError({"--steps", "-5"}, "--steps");
  expectError({"--steps", "99999999999999"}, "--steps");
  expectError({"--batch", "0"}, "--batch");
  expectError({"--lr", "nan"}, "--lr");
  expectError({"--lr", "0"}, "--lr");
  expectError({"--seed", "1x"}, "--seed");
  expectError({"--timeout", "0"}, "--timeout");
  expectError({"--grad-dtype", "fp8"}, "--grad-dtype");
  expectError({"--op", "max"}, "--op");
  expectError({"--rank", "-1"}, "--rank");
  expectError({"--ranks", "0"}, "--ranks");
  expectError({"--dump-gradients", "g", "--dump-steps", "1,x"}, "--dump-steps");
  expectError({"--stepz", "5"}, "--stepz");
  expectError({"--steps"}, "--steps");
}

TEST_F(OptionsTest, ContradictionsAreNamed) {
  expectError({"--rank", "1"}, "--rank is 1, but --ranks is 1");
  expectError({"--ranks", "2"}, "--id-file");
  expectError({"--dump-gradients", "g"}, "--dump-steps");
  expectError({"--dump-steps", "1"}, "--dump-gradients");
}

TEST_F(OptionsTest, HelpListsTheOptions) {
  const Options options = parse({"--help"});
  for (const char* name : {"--rank", "--id-file", "--text", "--grad-dtype", "--dump-sums"})
    EXPECT_NE(options.help.find(name), std::string::npos) << name;
  EXPECT_TRUE(parse({}).help.empty());
}

}  // namespace
}  // namespace lm
