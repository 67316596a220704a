#include "interpose/policy/layers/layer_file.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace cinch {
namespace {

using Buckets = std::vector<BucketLayout>;

Buckets parsed(std::string_view text) {
  auto result = parseLayerFile(text);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? result.value() : Buckets{};
}

std::string errorOf(std::string_view text) {
  auto result = parseLayerFile(text);
  EXPECT_FALSE(result.ok()) << text;
  return result.ok() ? "" : result.error().message;
}

TEST(LayerFile, EachLineIsALayerOfABucket) {
  const Buckets expected = {{{4096, 2}, {64, 1}}, {{1728, 4}, {1, 0}}};
  EXPECT_EQ(parsed("0,4096,2\n0,64,1\n1,1728,4\n1,1,0\n"), expected);
  EXPECT_EQ(parsed("0,4096,2\n0,64,1\n1,1728,4\n1,1,0"), expected) << "without a last newline";
}

TEST(LayerFile, NamesCommentsBlanksAndTheHeadAreForTheReader) {
  const Buckets expected = {{{4096, 2}, {64, 1}}};
  EXPECT_EQ(parsed("# my model\n\nbucket,elements,dims,name\r\n 0 , 4096 ,2, fc.weight, old\r\n"
                   "\t0,64,1 # the bias\n  # end\n"),
            expected);
}

TEST(LayerFile, DimsMayBeLeftOut) {
  const Buckets expected = {{{5, kUnknownDims}, {6, kUnknownDims}, {7, kUnknownDims}}};
  EXPECT_EQ(parsed("0,5\n0,6,\n0,7,,fc.weight\n"), expected);
}

TEST(LayerFile, AnErrorNamesTheLineAndWhatItShouldHold) {
  EXPECT_EQ(errorOf("0,5\n\n# x\n0,many,2\n"),
            "line 4: 'many' should be elements: a whole number from 1 to 17592186044416");
  EXPECT_EQ(errorOf("0,5\n2,5\n"),
            "line 2: '2' should be bucket 0 or 1: they count from 0, without gaps");
  EXPECT_EQ(errorOf("1,5\n"), "line 1: '1' should be bucket 0: they count from 0, without gaps");
  EXPECT_EQ(errorOf("0,5,-1\n"),
            "line 1: '-1' should be dims: a whole number from 0 to 64, or nothing");
  EXPECT_EQ(errorOf("x,5\n"), "line 1: 'x' should be a bucket: a whole number from 0");
}

TEST(LayerFile, WhatIsNoLayerIsRefused) {
  for (const char* text : {"0", "0,", "0,0", "0,-5", "0,5.0", "0,5e3", "0,0x10", "0,17592186044417",
                           "0,5 6", "0,18446744073709551617", "0,5,65", "0,5,conv", "-1,5", ",5",
                           "bucket,5\nbucket,6", "0,5\n1,5\n0,5", "18446744073709551615,5"})
    errorOf(text);
  EXPECT_EQ(parsed("0,17592186044416"), (Buckets{{{kMaxLayerCount, kUnknownDims}}}));
}

TEST(LayerFile, AFileWithoutLayersIsRefused) {
  for (const char* text : {"", "\n\n", "# nothing", "bucket,elements"})
    EXPECT_EQ(errorOf(text).substr(0, 9), "no layers") << text;
}

TEST(LayerFile, ThereIsALimit) {
  std::string text;
  for (int i = 0; i < 65536; ++i) text += "0,1\n";
  EXPECT_EQ(parsed(text)[0].size(), 65536u);
  EXPECT_EQ(errorOf(text + "0,1\n"),
            "line 65537: '0' should be no more: 65536 layers are the most");
}

TEST(LayerFile, AnyBytesEndInLayersOrAnError) {
  std::mt19937 random(11);
  const std::string_view alphabet("0123456789,,,\n\n# -x\0\xff", 22);
  int nGood = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint32_t n = random() % 24; n > 0; --n) text += alphabet[random() % alphabet.size()];
    const auto result = parseLayerFile(text);
    if (!result.ok()) continue;
    ++nGood;
    for (const BucketLayout& bucket : result.value()) {
      ASSERT_FALSE(bucket.empty());
      for (const Layer& layer : bucket) ASSERT_GT(layer.count, 0u);
    }
  }
  EXPECT_GT(nGood, 10);
}

}  // namespace
}  // namespace cinch
