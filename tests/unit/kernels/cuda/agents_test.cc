// The CUDA kernels' agents, thread by thread on the CPU: every byte as the reference writes it.
#include <gtest/gtest.h>

#include "tests/unit/kernels/codec_differential.h"
#include "tests/unit/kernels/cuda/simt_codec.h"
#include "tests/unit/kernels/golden_vectors.h"
#include "tests/unit/kernels/statistics_differential.h"

namespace cinch::test {
namespace {

constexpr Backend kBackend = Backend::cuda;
const host::HostCodec kBoth[] = {kSimtCodec, kSimtBatchCodec};

TEST(Agents, GoldenVectors) {
  for (const host::HostCodec& codec : kBoth) expectGoldenVectors(codec);
}

TEST(Agents, SmallBucketsEqualTheReference) {
  for (uint32_t seed = 0; seed < 120 && !testing::Test::HasFailure(); ++seed)
    expectLikeReference(kBoth, kBackend, {seed * 61 % 3100, 1 + seed % 5, seed});
}

// More blocks than half warps: every thread codes several.
TEST(Agents, LargeBucketsEqualTheReference) {
  for (uint32_t seed = 0; seed < 18 && !testing::Test::HasFailure(); ++seed)
    expectLikeReference(kBoth, kBackend, {12000 + seed * 777, 1 + seed % 3, seed});
}

// Each by its own kernel, of which some warps code a second tile.
TEST(Agents, DefaultsEqualTheReference) {
  for (uint32_t seed = 0; seed < 36 && !testing::Test::HasFailure(); ++seed)
    expectLikeReference(kBoth, kBackend, {8300 + seed * 201, 1 + seed % 2, seed, true});
}

TEST(Agents, EmptyBucketsEndTheCall) {
  for (uint32_t seed = 0; seed < 9; ++seed)
    expectLikeReference(kBoth, kBackend, {0, 1 + seed % 4, seed});
}

TEST(Agents, HostileBytesAreHandledAsByTheReference) {
  for (uint32_t seed = 0; seed < 60 && !testing::Test::HasFailure(); ++seed)
    expectHostileBytesLikeReference(kBoth, kBackend, {1 + seed * 997 % 4000, 1 + seed % 5, seed});
}

TEST(Agents, AllReducesEqualTheReferenceOverManyCalls) {
  uint32_t turn = 0;
  for (const codec::CodecInfo& codec : codec::kCodecs) {
    const bool isPlain = turn % 2 == 0;  // what kernels for one codec do, or what the general does
    const CodingRule plain = {.gain = 0.5f};
    const CodingRule other = {.gain = 0.5f,
                              .decay = 0.9f,
                              .residualType = kResidualTypes[turn % 3],
                              .rounding = codec.dithers ? Rounding::stochastic : Rounding::nearest,
                              .seed = turn,
                              .measure = true};
    expectAllReducesLikeReference(kSimtCodec,
                                  {.count = 5003,
                                   .nRanks = 3,
                                   .codec = codec.format,
                                   .type = kTypes[turn++ % 3],
                                   .feedback = true,
                                   .rule = isPlain ? plain : other,
                                   .factor = 1.0f / 3},
                                  4);
  }
}

TEST(Agents, TalliesEqualTheHost) {
  for (uint32_t seed = 0; seed < 90 && !testing::Test::HasFailure(); ++seed)
    expectTalliesLikeHost(kSimtCodec, seed < 60 ? seed * 61 % 3100 : seed * 997 % 20000, seed);
}

TEST(Agents, SumsEqualTheReference) {
  for (uint32_t seed = 0; seed < 90 && !testing::Test::HasFailure(); ++seed)
    expectSumsLikeReference(kSimtCodec, seed < 60 ? seed * 61 % 3100 : seed * 997 % 20000, seed);
}

TEST(Agents, ProbesEqualTheHost) {
  for (uint32_t seed = 0; seed < 18 && !testing::Test::HasFailure(); ++seed)
    expectProbesLikeHost(kSimtCodec, seed % 2 ? seed * 997 % 9000 : 65536 + seed * 1009, seed);
}

}  // namespace
}  // namespace cinch::test
