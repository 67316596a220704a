// Every compilation of the host codec gives the bytes of the reference, for any count, alignment
// and content, and touches nothing else.
#include "kernels/host/host_codec.h"

#include <gtest/gtest.h>

#include <span>

#include "tests/unit/kernels/codec_differential.h"
#include "tests/unit/kernels/data_sets.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace cinch::test {
namespace {

// All that this CPU can run, but for the reference itself.
std::span<const host::HostCodec> variants() {
  return host::hostCodecs().first(host::hostCodecs().size() - 1);
}

TEST(HostCodecs, EveryCountEqualsTheReference) {
  for (uint32_t count = 0; count <= 3000 && !testing::Test::HasFailure(); ++count) {
    const uint32_t seed = count * 7 + count / 27;
    expectLikeReference(variants(), Backend::host, {count, 1 + seed % 9, seed});
  }
}

TEST(HostCodecs, LargeBucketsEqualTheReference) {
  for (uint32_t seed = 0; seed < 27 && !testing::Test::HasFailure(); ++seed)
    expectLikeReference(variants(), Backend::host, {60000 + seed * 777, 1 + seed % 9, seed});
}

#if defined(__SSE__)

// What a call of all three launches leaves in its buffers, as `codec` does it with the thread's
// float modes set to `modes`.
std::vector<uint8_t> runWith(unsigned modes, const host::HostCodec& codec) {
  VirtualRanks ranks({.count = 5000, .nRanks = 2, .feedback = true, .factor = 0.3f}, codec);
  for (uint32_t rank = 0; rank < 2; ++rank) ranks.setInput(rank, awkward(5000, 15 + rank));
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(modes);
  ranks.run();
  const unsigned after = _mm_getcsr();
  _mm_setcsr(saved);
  EXPECT_EQ(after & ~_MM_EXCEPT_MASK, modes & ~_MM_EXCEPT_MASK)
      << codec.name << " did not put the thread's modes back";
  std::vector<uint8_t> left = ranks[0].residual;
  for (const auto* bytes : {&ranks[0].encoded, &ranks[0].reduced, &ranks[0].output})
    left.insert(left.end(), bytes->begin(), bytes->end());
  return left;
}

// A program that flushes subnormal numbers, or rounds otherwise, gets the same bytes.
TEST(HostCodecs, IgnoreTheThreadsFloatModes) {
  const unsigned usual = _mm_getcsr();
  const unsigned odd = usual | 0x8040 | 0x6000;  // flush both ways, round toward zero
  const auto expected = runWith(usual, host::fastestHostCodec());
  for (const host::HostCodec& codec : host::hostCodecs())
    EXPECT_EQ(runWith(odd, codec), expected) << codec.name;
}
#endif

TEST(HostCodecs, AllVariantsWereTested) {
  for (const char* name : {"baseline", "avx2", "avx512"})
    if (!host::findHostCodec(name)) GTEST_SKIP() << "this CPU cannot run the " << name << " codec";
}

TEST(HostCodecs, FastestComesFirstReferenceLast) {
  ASSERT_GE(host::hostCodecs().size(), 2u);
  EXPECT_STREQ(host::hostCodecs().back().name, "reference");
  EXPECT_STREQ(host::fastestHostCodec().name, host::hostCodecs().front().name);
  EXPECT_STRNE(host::fastestHostCodec().name, "reference");
  EXPECT_EQ(host::findHostCodec("sse9"), nullptr);
}

}  // namespace
}  // namespace cinch::test
