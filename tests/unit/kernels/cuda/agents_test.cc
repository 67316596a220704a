// The CUDA kernels' agents, thread by thread on the CPU: every byte as the reference writes it.
#include <gtest/gtest.h>

#include "tests/unit/kernels/codec_differential.h"
#include "tests/unit/kernels/cuda/simt_codec.h"
#include "tests/unit/kernels/golden_vectors.h"

namespace cinch::test {
namespace {

constexpr Backend kBackend = Backend::cuda;
const std::span<const host::HostCodec> kCodec(&kSimtCodec, 1);

TEST(Agents, GoldenVectors) {
  expectGoldenVectors(kSimtCodec);
}

TEST(Agents, SmallBucketsEqualTheReference) {
  for (uint32_t seed = 0; seed < 120 && !testing::Test::HasFailure(); ++seed)
    expectLikeReference(kCodec, kBackend, {seed * 61 % 3100, 1 + seed % 5, seed});
}

// More blocks than half warps: every thread codes several.
TEST(Agents, LargeBucketsEqualTheReference) {
  for (uint32_t seed = 0; seed < 18 && !testing::Test::HasFailure(); ++seed)
    expectLikeReference(kCodec, kBackend, {12000 + seed * 777, 1 + seed % 3, seed});
}

TEST(Agents, EmptyBucketsEndTheCall) {
  for (uint32_t seed = 0; seed < 9; ++seed)
    expectLikeReference(kCodec, kBackend, {0, 1 + seed % 4, seed});
}

TEST(Agents, HostileBytesAreHandledAsByTheReference) {
  for (uint32_t seed = 0; seed < 60 && !testing::Test::HasFailure(); ++seed)
    expectHostileBytesLikeReference(kCodec, kBackend, {1 + seed * 997 % 4000, 1 + seed % 5, seed});
}

TEST(Agents, AllReducesEqualTheReferenceOverManyCalls) {
  for (const wire::Codec codec : kCodecs)
    for (const ElementType type : kTypes)
      expectAllReducesLikeReference(kSimtCodec,
                                    {.count = 5003,
                                     .nRanks = 3,
                                     .codec = codec,
                                     .type = type,
                                     .feedback = true,
                                     .factor = 1.0f / 3,
                                     .measure = true},
                                    4);
}

}  // namespace
}  // namespace cinch::test
