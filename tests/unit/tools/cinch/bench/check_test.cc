#include "tools/cinch/bench/check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace cinch::bench {
namespace {

TEST(CheckFigures, CountsWhatIsBeyondTheBound) {
  CheckFigures figures;
  figures.add(std::vector<double>{1, 2.5, 3}, std::vector<double>{1, 2, 2}, 0.5);
  EXPECT_EQ(figures.wrong, 1u);
  EXPECT_DOUBLE_EQ(figures.largestError, 1);
  EXPECT_DOUBLE_EQ(figures.nmse(), 1.25 / 9);
}

TEST(CheckFigures, NanIsWrong) {
  CheckFigures figures;
  figures.add(std::vector<double>{NAN}, std::vector<double>{1}, 10);
  EXPECT_EQ(figures.wrong, 1u);
  EXPECT_EQ(wrongValues(figures, {10, 1}, 1), 1u);
}

TEST(CheckFigures, NothingIsRight) {
  EXPECT_EQ(CheckFigures{}.nmse(), 0);
  EXPECT_EQ(wrongValues({}, {}, 0), 0u);
}

TEST(CheckFigures, ErrorWhereNothingWasToCome) {
  CheckFigures figures;
  figures.add(std::vector<double>{1}, std::vector<double>{0}, 2);
  EXPECT_TRUE(std::isinf(figures.nmse()));
}

TEST(WrongValues, AllOfThemWhereTheWholeIsBeyondItsBound) {
  const CheckFigures figures{
      .wrong = 1, .largestError = 1, .squaredError = 50, .squaredSignal = 100};
  EXPECT_EQ(wrongValues(figures, {0.5, 0.6}, 100), 1u);
  EXPECT_EQ(wrongValues(figures, {0.5, 0.4}, 100), 100u);
}

}  // namespace
}  // namespace cinch::bench
