#include "tools/cinch/bench/options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace cinch::bench {
namespace {

// Parses words; throws CLI::ParseError.
Options parse(const std::string& words) {
  CLI::App app;
  Options options;
  addOptions(app, options);
  app.parse(words);
  return options;
}

std::string errorOf(const std::string& words) {
  try {
    const auto checked = checkOptions(parse(words));
    return checked.ok() ? "" : checked.error().message;
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
}

TEST(BenchOptions, AreThoseOfNcclTests) {
  const Options options = parse(
      "all_reduce -b 8 -e 64M -f 2 -n 7 -w 3 -c 2 -d half -o avg -G 4 -u 1 -g 1 -t 1 -J out.json");
  EXPECT_EQ(options.collective, "all_reduce");
  EXPECT_EQ(options.minBytes, 8u);
  EXPECT_EQ(options.maxBytes, uint64_t{64} << 20);
  EXPECT_EQ(options.stepFactor, 2);
  EXPECT_EQ(options.iterations, 7);
  EXPECT_EQ(options.warmups, 3);
  EXPECT_EQ(options.checks, 2);
  EXPECT_EQ(options.dataType, "half");
  EXPECT_EQ(options.operation, "avg");
  EXPECT_EQ(options.graphLaunches, 4);
  EXPECT_EQ(options.unaligned, 1u);
  EXPECT_EQ(options.jsonFile, "out.json");
  EXPECT_TRUE(checkOptions(options).ok());
}

TEST(BenchOptions, HaveLongNames) {
  const Options options =
      parse("all_gather --minbytes 1K --maxbytes 4K --stepbytes 1K --iters 2 --output_file x.json");
  EXPECT_EQ(options.sweep().sizes().size(), 4u);
  EXPECT_EQ(options.iterations, 2);
}

TEST(BenchOptions, DefaultsAreThoseOfNcclTests) {
  const Options options = parse("reduce_scatter");
  EXPECT_EQ(options.sweep().sizes(), std::vector<uint64_t>{32 << 20});
  EXPECT_EQ(options.iterations, 20);
  EXPECT_TRUE(checkOptions(options).ok());
}

TEST(BenchOptions, ErrorsNameTheCause) {
  const auto expectPart = [](const std::string& words, const std::string& part) {
    EXPECT_NE(errorOf(words).find(part), std::string::npos) << words << ": " << errorOf(words);
  };
  expectPart("", "collective");
  expectPart("broadcast", "broadcast");
  expectPart("all_reduce -b 8X", "minbytes");
  expectPart("all_reduce -g 2", "ngpus");
  expectPart("all_reduce -n 0", "iters");
  expectPart("all_reduce -f 0.5", "stepfactor");
  expectPart("all_reduce -d fp32", "-d fp32 is no type");
  expectPart("all_reduce -o plus", "-o plus is no operation");
  expectPart("all_reduce -b 64M -e 8", "no size is between");
  expectPart("all_reduce -b 0 -e 8 -f 2", "cannot be multiplied");
  expectPart("all_reduce -b 1 -e 8 -i 0", "-i 0 makes no progress");
  expectPart("all_reduce -b 1 -e 1G -i 1", "-i makes more than");
  expectPart("all_reduce --plot x.txt", ".png, .svg or .pdf");
  expectPart("all_reduce -J /nowhere/at/all/x.json", "there is no folder /nowhere/at/all");
  expectPart("all_reduce --emulator --nccl x", "--nccl");
}

}  // namespace
}  // namespace cinch::bench
