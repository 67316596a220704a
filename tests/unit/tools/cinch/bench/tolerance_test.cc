#include "tools/cinch/bench/tolerance.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/codec/registry.h"

namespace cinch::bench {
namespace {

Tolerance toleranceOf(const char* codec, CallKind kind, float gain = 0) {
  const ElementType& type = *findElementType("float");
  const TestValues values(type, ncclSum, kind, 4);
  return codecTolerance({codec::findCodec(codec)->format, gain}, values,
                        shapeOf(kind, 1 << 18, type.bytes, 4), ncclSum);
}

TEST(Tolerance, NcclAloneIsExact) {
  const TestValues values(*findElementType("float"), ncclSum, CallKind::allReduce, 4);
  EXPECT_EQ(exactTolerance(values).value, 0);
  EXPECT_EQ(exactTolerance(values).nmse, 0);
}

TEST(Tolerance, FollowsTheCodec) {
  const Tolerance q4 = toleranceOf("q4", CallKind::allReduce);
  const Tolerance q8 = toleranceOf("q8", CallKind::allReduce);
  EXPECT_GT(q4.value, 4 * q8.value);
  EXPECT_GT(q4.nmse, 100 * q8.nmse);
  EXPECT_GT(q8.value, 0);
  EXPECT_LT(q4.nmse, 5e-2);  // a rank that is left out is beyond it
}

TEST(Tolerance, GrowsWithFeedbackAndStages) {
  EXPECT_GT(toleranceOf("q4", CallKind::allReduce, 0.5f).value,
            toleranceOf("q4", CallKind::allReduce).value);
  EXPECT_GT(toleranceOf("q4", CallKind::allReduce).value,
            toleranceOf("q4", CallKind::reduceScatter).value);
  EXPECT_GT(toleranceOf("q4", CallKind::reduceScatter).value,
            toleranceOf("q4", CallKind::allGather).value);
}

}  // namespace
}  // namespace cinch::bench
