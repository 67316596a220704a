// Any bytes may come from a peer: reduce and decode must stay inside their buffers, end, and give
// what the reference gives.
#include <gtest/gtest.h>

#include "tests/unit/kernels/codec_differential.h"

namespace cinch::test {
namespace {

TEST(Fuzz, RandomBytesGiveTheReferencesResult) {
  constexpr uint32_t kRounds = 3000;
  uint32_t nAccepted = 0;
  for (uint32_t seed = 0; seed < kRounds && !HasFailure(); ++seed)
    nAccepted += expectHostileBytesLikeReference(host::hostCodecs(), Backend::host,
                                                 {seed * 997 % 5000, 1 + seed % 5, seed});
  EXPECT_GT(nAccepted, kRounds / 2);
  EXPECT_LT(nAccepted, kRounds * 9 / 10) << "some must be refused";
}

}  // namespace
}  // namespace cinch::test
