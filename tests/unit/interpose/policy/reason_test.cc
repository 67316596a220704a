#include "interpose/policy/reason.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace cinch {
namespace {

TEST(Reason, EveryOneHasItsOwnNameAndTexts) {
  std::set<std::string> names, whys;
  for (int i = 0; i < kReasonCount; ++i) {
    const ReasonText text = textOf(static_cast<Reason>(i));
    names.insert(kReasonNames[i]);
    whys.insert(text.why);
    EXPECT_GT(std::string(text.why).size(), 10u) << kReasonNames[i];
    EXPECT_GT(std::string(text.remedy).size(), 3u) << kReasonNames[i];
    EXPECT_EQ(reasonOf(kReasonNames[i]), static_cast<Reason>(i));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kReasonCount));
  EXPECT_EQ(whys.size(), static_cast<size_t>(kReasonCount));
  EXPECT_EQ(names.count(""), 0u);
  EXPECT_EQ(reasonOf("no such reason"), std::nullopt);
}

TEST(Reason, ACallIsTakenForAGradientOnlyWhereThePolicyFoundItToBeOne) {
  const auto classOf = [](Reason reason) {
    return std::string(kReasonClasses[static_cast<int>(reason)]);
  };
  EXPECT_STREQ(kReasonNames[0], "compressed") << "the report counts on it";
  for (const Reason reason : {Reason::none, Reason::slower, Reason::voted, Reason::inaccurate})
    EXPECT_EQ(classOf(reason), "gradient");
  for (const Reason reason : {Reason::kind, Reason::gathered, Reason::operation, Reason::dataType,
                              Reason::otherValues, Reason::otherThread})
    EXPECT_EQ(classOf(reason), "other");
  EXPECT_EQ(classOf(Reason::state), "weights or state");
  EXPECT_EQ(classOf(Reason::activation), "activation");
  for (const Reason reason : {Reason::small, Reason::unplaced, Reason::ambiguous, Reason::warmup,
                              Reason::ruled, Reason::notAgreed, Reason::preparing, Reason::observe,
                              Reason::capturing, Reason::unproven, Reason::vetoed})
    EXPECT_EQ(classOf(reason), "unknown");
}

}  // namespace
}  // namespace cinch
