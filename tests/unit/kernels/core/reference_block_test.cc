// The specification itself: what it says of trees, rotation and marks, checked against plainer
// statements of the same.
#include "kernels/core/reference_block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/unit/kernels/codec/block_run.h"
#include "tests/unit/kernels/support.h"

namespace cinch::reference {
namespace {

using test::BlockRun;
using test::forEachCodec;

constexpr BlockPlace kPlace{48, 0x1234567};

// Writes down how it was merged.
struct Record {
  std::string text;
  Record mergedWith(const Record& other) const { return {"(" + text + " " + other.text + ")"}; }
};

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

TEST(SummaryTree, OctetsMergeAtDistanceFourTwoOne) {
  const std::vector<Record> eight = {{"0"}, {"1"}, {"2"}, {"3"}, {"4"}, {"5"}, {"6"}, {"7"}};
  EXPECT_EQ(mergeTree(eight).text, "(((0 4) (2 6)) ((1 5) (3 7)))");
}

// Octets of a block at the largest distance first.
TEST(SummaryTree, OctetsOfABlockMergeLikewise) {
  const std::vector<Record> four = {{"a"}, {"b"}, {"c"}, {"d"}};
  EXPECT_EQ(mergeTree(four).text, "((a c) (b d))");
}

// A sum says in which order it was made.
template <BlockCodec C>
float sumOfTree(const Values& values) {
  return summaryOf<C>(values).sum;
}

TEST(SummaryTree, SumsFollowIt) {
  using Sign = codec::SignCodec;
  Values values(16, 1.0f);
  values[0] = 0x1p24f;
  // 2^24 takes up nothing smaller than 2: it meets 1 (lost), then 2, 4 and, from the other
  // octet, 8.
  EXPECT_EQ((sumOfTree<Sign>(values)), 0x1p24f + 14.0f);
}

TEST(SummaryTree, MissingValuesChangeNothing) {
  using Sign = codec::SignCodec;
  const Values values = test::gaussian(128, 1);
  for (size_t n = 1; n < 128; ++n) {
    Values padded(values.begin(), values.begin() + static_cast<ptrdiff_t>(n));
    const float partial = sumOfTree<Sign>(padded);
    padded.resize(128, 0.0f);
    ASSERT_EQ(partial, (sumOfTree<Sign>(padded))) << n;
  }
}

// Every coefficient of the transform, by its definition: the sign of (row, column) is the parity of
// their common bits.
TEST(Rotation, IsTheHadamardTransformOfTheSignedValues) {
  const Values values = test::gaussian(128, 2);
  const Values rotated = codecView<codec::HadamardCodec<4>>(values, kPlace);
  for (uint32_t row = 0; row < 128; ++row) {
    double exact = 0;
    for (uint32_t i = 0; i < 128; ++i) {
      const uint32_t signs = core::octetSigns(kPlace.rotationKey, kPlace.firstOctet + i / 8);
      const double value = signs >> i % 8 & 1 ? -values[i] : values[i];
      exact += __builtin_parity(row & i) ? -value : value;
    }
    ASSERT_NEAR(rotated[row], exact / 128, 1e-6) << row;
  }
}

TEST(Rotation, ComesBack) {
  using Rotated = codec::HadamardCodec<4>;
  for (size_t n : {1u, 7u, 64u, 100u, 127u, 128u}) {
    const Values values = test::gaussian(n, 3);
    const Values back = fromCodecView<Rotated>(codecView<Rotated>(values, kPlace), kPlace, n);
    ASSERT_EQ(back.size(), n);
    for (size_t i = 0; i < n; ++i) ASSERT_NEAR(back[i], values[i], 1e-5) << n << " " << i;
  }
}

// Whole numbers below 2^17 lose nothing either way: 7 bits grow, and 24 fit.
TEST(Rotation, IsExactOnWholeNumbers) {
  using Rotated = codec::HadamardCodec<4>;
  Values values = counting(128);
  for (float& value : values) value = value * 997 - 60000;
  const Values back = fromCodecView<Rotated>(codecView<Rotated>(values, kPlace), kPlace, 128);
  EXPECT_EQ(back, values);
}

TEST(Rotation, NeverOverflowsForward) {
  const Values largest(128, test::kLargest);
  for (float value : codecView<codec::HadamardCodec<2>>(largest, kPlace))
    ASSERT_TRUE(std::isfinite(value));
}

// One large value ends up everywhere alike.
TEST(Rotation, SpreadsAnOutlier) {
  Values values(128, 0.0f);
  values[77] = 128.0f;
  for (float value : codecView<codec::HadamardCodec<3>>(values, kPlace))
    ASSERT_EQ(std::abs(value), 1.0f);
}

TEST(Rotation, LeavesOtherCodecsAlone) {
  const Values values = test::awkward(100, 4);
  const Values seen = codecView<codec::UniformCodec<4>>(values, kPlace);
  EXPECT_EQ(test::toElements(ElementType::fp32, seen), test::toElements(ElementType::fp32, values));
}

// What a block becomes depends on its place only where it is rotated or dithered.
TEST(Blocks, OnlyRotationKnowsThePlace) {
  forEachCodec([]<class C>() {
    const Values values = test::gaussian(wire::kBlockElems, 5);
    const BlockRun<C> here(values, nullptr, kPlace), there(values, nullptr, {64, 99});
    EXPECT_EQ(here.codes != there.codes, C::kIsRotated);
  });
}

TEST(Blocks, DitherKnowsThePlace) {
  constexpr core::DitherKey kKey{1, 2, 0, 3, 4};
  forEachCodec([&]<class C>() {
    if (!C::kDithers) return;
    const Values values = test::gaussian(wire::kBlockElems, 6);
    const BlockRun<C> nearest(values), first(values, &kKey), second(values, &kKey, {32, 0});
    EXPECT_NE(first.codes, nearest.codes);
    EXPECT_NE(first.codes, second.codes);
    EXPECT_EQ(first.codes, BlockRun<C>(values, &kKey).codes);
  });
}

TEST(Blocks, CodecsThatCannotDitherIgnoreIt) {
  constexpr core::DitherKey kKey{1, 2, 0, 3, 4};
  forEachCodec([&]<class C>() {
    if (C::kDithers) return;
    const Values values = test::gaussian(wire::kBlockElems, 6);
    const BlockRun<C> nearest(values), dithered(values, &kKey);
    EXPECT_EQ(dithered.codes, nearest.codes);
    EXPECT_EQ(dithered.meta, nearest.meta);
  });
}

// A dithered code is one of the two next to the value.
TEST(Blocks, DitherMovesByLessThanOneCode) {
  constexpr core::DitherKey kKey{1, 2, 0, 3, 4};
  forEachCodec([&]<class C>() {
    if (!C::kDithers) return;
    const Values values = test::laplace(wire::kBlockElems, 7);
    const BlockRun<C> run(values, &kKey);
    for (uint32_t i = 0; i < values.size(); ++i) {
      const float distance = static_cast<float>(run.code(i)) - run.scale().position(values[i]);
      ASSERT_LT(std::abs(distance), 1.0f) << i;
    }
  });
}

// Nothing is harmed by a special value but what shares its metadata.
TEST(Blocks, SpecialValuesMarkWhatSharesTheirScale) {
  forEachCodec([]<class C>() {
    for (size_t at = 0; at < wire::kBlockElems; at += 5) {
      Values values = test::gaussian(wire::kBlockElems, 8);
      values[at] = at % 2 ? test::kNan : -test::kInfinity;
      const BlockRun<C> run(values);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(std::isfinite(run.decoded[i]), i != at && test::kIsCast<C>) << at << " " << i;
      }
    }
  });
}

}  // namespace
}  // namespace cinch::reference
