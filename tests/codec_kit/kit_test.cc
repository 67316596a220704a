// What follows from one header: the codec of docs/writing-a-codec.md in the product's own host
// loops and the model of its kernels, against the reference. tests/unit/kernels/codec has the
// properties that every codec must have; they are built into this program, for this codec.
#include <gtest/gtest.h>

#include "tests/unit/kernels/codec_differential.h"

namespace cinch::test {
namespace {

TEST(CodecKit, HostLoopsEqualTheReference) {
  for (uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed)
    expectLikeReference(host::hostCodecs(), Backend::host, {seed * 61 % 9000, 1 + seed % 5, seed});
}

TEST(CodecKit, HostileBytesAreHandledAsByTheReference) {
  int nAccepted = 0;
  for (uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed)
    nAccepted += expectHostileBytesLikeReference(host::hostCodecs(), Backend::host,
                                                 {1 + seed * 997 % 4000, 1 + seed % 5, seed});
  EXPECT_GT(nAccepted, 0);
}

TEST(CodecKit, AllReducesCarryResidualsOn) {
  for (const host::HostCodec& codec : host::hostCodecs())
    for (const ElementType type : kTypes)
      expectAllReducesLikeReference(codec,
                                    {.count = 20011,
                                     .nRanks = 3,
                                     .codec = codec::formatOf("ternary"),
                                     .type = type,
                                     .feedback = true},
                                    4);
}

}  // namespace
}  // namespace cinch::test
