// Host and reference give the same bytes, residuals and state on CINCH_FUZZED_VALUES values: all
// codecs in turn, all element types, residual storages and modes, data of every awkward kind,
// tails, and buffers at odd addresses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/unit/kernels/codec_differential.h"
#include "tests/unit/kernels/data_sets.h"

namespace cinch::test {
namespace {

constexpr uint64_t kValues = CINCH_FUZZED_VALUES;
constexpr uint32_t kMostValues = 40000;

std::span<const host::HostCodec> compilations() {
  return host::hostCodecs().first(host::hostCodecs().size() - 1);
}

TEST(Differential, FuzzedLaunchesEqualTheReference) {
  std::mt19937 random(4);
  uint64_t nValues = 0;
  // Seeds that other tests of the differential do not use.
  for (uint32_t seed = 1000000; nValues < kValues / 2 && !HasFailure(); ++seed) {
    const DifferentialCase shape{1 + random() % kMostValues,
                                 1 + static_cast<uint32_t>(random()) % 9, seed};
    expectLikeReference(compilations(), Backend::host, shape);
    nValues += shape.count;
  }
  EXPECT_GE(nValues, kValues / 2);
}

// Vector code leaves tiles with a NaN or an infinity to the portable code, and awkward data has one
// in nearly all of them. So here is data without, of any scale from the smallest number on, each
// run with a scale of its own: ordinary values, values that lie halfway between codes, and few that
// differ.
std::vector<float> finiteValues(size_t count, uint32_t seed) {
  constexpr size_t kRunElems[] = {128, 128, 64, 256, 16, 1024};
  std::mt19937 random(seed);
  std::vector<float> values;
  while (values.size() < count) {
    const size_t nElems = kRunElems[random() % std::size(kRunElems)];
    const float scale = std::ldexp(1.0f, static_cast<int>(random() % 270) - 149);
    const std::vector<float> run = gaussian(nElems, static_cast<uint32_t>(random()));
    const auto kind = random() % 4;
    for (size_t i = 0; i < nElems; ++i) {
      const float value = kind == 0   ? std::round(run[i] * 4) / 2
                          : kind == 1 ? static_cast<float>(i % 3) - 1.0f
                                      : run[i];
      values.push_back(value * scale);
    }
  }
  values.resize(count);
  return values;
}

// What an allreduce of two calls leaves in the buffers of its ranks.
std::vector<std::vector<uint8_t>> runTwice(const Collective& settings, uint32_t seed,
                                           const host::HostCodec& codec) {
  VirtualRanks ranks(settings, codec);
  std::vector<std::vector<uint8_t>> left;
  for (uint32_t call = 0; call < 2; ++call) {
    for (uint32_t rank = 0; rank < settings.nRanks; ++rank)
      ranks.setInput(rank, finiteValues(settings.count, seed + 10 * call + rank));
    ranks.run();
    for (uint32_t rank = 0; rank < settings.nRanks; ++rank)
      for (const auto* bytes : {&ranks[rank].encoded, &ranks[rank].reduced, &ranks[rank].residual,
                                &ranks[rank].ownerResidual, &ranks[rank].output})
        left.push_back(*bytes);
  }
  return left;
}

TEST(Differential, FiniteValuesEqualTheReference) {
  constexpr float kGains[] = {0.1f, 1.0f, 0.5f}, kDecays[] = {1.0f, 0.9f};
  std::mt19937 random(5);
  uint64_t nValues = 0;
  for (uint32_t seed = 0; nValues < kValues / 2 && !HasFailure(); ++seed) {
    const codec::CodecInfo& codec = codec::kCodecs[seed % codec::kCodecs.size()];
    const Collective settings{.count = 2048 + random() % 6000,
                              .nRanks = 1 + seed % 3,
                              .codec = codec.format,
                              .type = kTypes[random() % 3],
                              .feedback = random() % 4 != 0,
                              .rule = {.gain = kGains[random() % 3],
                                       .decay = kDecays[random() % 2],
                                       .residualType = kResidualTypes[random() % 3]}};
    SCOPED_TRACE(std::string(codec.name) + ", seed " + std::to_string(seed));
    const auto expected = runTwice(settings, 100 * seed, referenceCodec());
    for (const host::HostCodec& host : compilations())
      ASSERT_EQ(runTwice(settings, 100 * seed, host), expected) << host.name;
    nValues += 2 * settings.count * settings.nRanks;
  }
  EXPECT_GE(nValues, kValues / 2);
}

}  // namespace
}  // namespace cinch::test
