#include "interpose/policy/tentative_sequence.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace cinch {
namespace {

// Capital letters are large reductions, small ones are small; '=' broadcasts parameters.
Signature callOf(char letter, uint64_t nParameters = 0) {
  if (letter == '=') return {CallKind::broadcast, OpClass::none, ncclFloat32, nParameters};
  return {CallKind::allReduce, OpClass::sum, ncclFloat32,
          (1u << 20) + static_cast<uint32_t>(letter)};
}

class Tentative {
 public:
  explicit Tentative(const std::string& model) {
    uint64_t nParameters = 0;
    for (const char letter : model) nParameters += callOf(letter).count;
    sequence.observe(callOf('=', nParameters), 200, true);
    sequence.commit();
  }
  Place observe(char letter) {
    const bool isLarge = letter < 'a' || letter > 'z';
    const std::optional<uint32_t> index =
        letter == 'Z' ? std::nullopt : std::optional<uint32_t>(letter);
    return sequence.observe(callOf(letter), index, isLarge);
  }

  TentativeSequence sequence;
};

// A step with an average of weights now and then, calls that are left out, and unknown ones.
char letterAt(int i, std::mt19937& random) {
  const std::string step = "AABCs";
  const uint32_t surprise = random() % 700;
  if (surprise == 0) return 'K';
  if (surprise == 1) return 'B';
  if (surprise == 2) return 'Z';
  return step[static_cast<size_t>(i) % step.size()];
}

// Groups of all sizes, and some that NCCL refuses before the program repeats them.
TEST(TentativeSequence, PlacesAreTheSameHoweverCallsAreGroupedAndTakenBack) {
  std::mt19937 random(12);
  Tentative grouped("AABC"), single("AABC");
  size_t nKnown = 0;
  for (int i = 0; i < 30000;) {
    std::string group;
    for (uint32_t n = 1 + random() % 9; n > 0; --n) group += letterAt(i++, random);
    if (random() % 4 == 0) {
      for (const char letter : group) grouped.observe(letter);
      grouped.sequence.takeBack();
    }
    for (const char letter : group) {
      const Place place = single.observe(letter);
      single.sequence.commit();
      ASSERT_EQ(grouped.observe(letter), place) << i;
      ASSERT_EQ(grouped.sequence.now().period(), single.sequence.now().period());
      nKnown += place.kind == Place::Kind::known;
    }
    grouped.sequence.commit();
  }
  EXPECT_GT(nKnown, 15000u);
}

TEST(TentativeSequence, OtherCallsThatAreTakenBackLeaveNoTrace) {
  std::mt19937 random(11);
  Tentative stream("AABC"), model("AABC");
  size_t nKnown = 0;
  for (int i = 0; i < 20000; ++i) {
    for (uint32_t n = random() % 4; n > 0; --n) stream.observe("ABCKZst="[random() % 8]);
    stream.sequence.takeBack();
    const char letter = letterAt(i, random);
    const Place place = stream.observe(letter);
    stream.sequence.commit();
    ASSERT_EQ(place, model.observe(letter)) << i;
    model.sequence.commit();
    nKnown += place.kind == Place::Kind::known;
  }
  EXPECT_GT(nKnown, 10000u);
}

}  // namespace
}  // namespace cinch
