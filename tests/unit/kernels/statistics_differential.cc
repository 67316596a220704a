#include "tests/unit/kernels/statistics_differential.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>

#include "tests/unit/kernels/data_sets.h"

namespace cinch::test {
namespace {

// A factor, and the element that it may lie in.
struct DrawnFactor {
  std::vector<uint8_t> element;
  uint32_t kind;

  DrawnFactor(ElementType type, std::mt19937& random)
      : element(toElements(type, {-0.37f})), kind(random() % 3) {}
  InputFactor get() const {
    if (kind == 2) return {.device = element.data()};
    return {.value = kind == 1 ? 2.7f : 1.0f};
  }
};

// Mostly of few elements, where tiles are seldom aligned.
size_t drawOffset(ElementType type, std::mt19937& random) {
  return random() % 2 * (random() % 16) * elementBytes(type);
}

std::vector<float> drawValues(uint64_t count, std::mt19937& random) {
  const auto seed = static_cast<uint32_t>(random());
  return random() % 3 ? layered(count, seed) : awkward(count, seed);
}

template <class Plain>
bool isSame(const Plain& a, const Plain& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// Of what outlives a launch.
bool isSame(const ProbeState& a, const ProbeState& b) {
  return std::memcmp(&a, &b, offsetof(ProbeState, ticket)) == 0 && a.ticket == b.ticket;
}

// A slot's device memory.
struct ProbedSlot {
  SlotState state{};
  ProbeState probe{};
  uint32_t fault = 0;
};

}  // namespace

std::vector<TileTally> talliesOf(const host::HostCodec& codec, ElementType type, uint64_t count,
                                 const void* values, const void* others, InputFactor factor) {
  std::vector<TileTally> tallies(wire::ShardLayout::tilesOf(count));
  codec.tallyTiles({.values = values,
                    .others = others,
                    .count = count,
                    .type = type,
                    .factor = factor,
                    .tallies = tallies.data()});
  return tallies;
}

void expectTalliesLikeHost(const host::HostCodec& codec, uint64_t count, uint32_t seed) {
  SCOPED_TRACE("tally of " + std::to_string(count) + " values, seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const ElementType type = kTypes[seed % 3];
  const DrawnFactor factor(type, random);
  const GuardedBytes values(toElements(type, drawValues(count, random)), drawOffset(type, random));
  const GuardedBytes others(toElements(type, drawValues(count, random)), drawOffset(type, random));
  const uint8_t* const beside = random() % 2 ? others.data() : nullptr;
  const auto found = talliesOf(codec, type, count, values.data(), beside, factor.get());
  const auto expected =
      talliesOf(host::fastestHostCodec(), type, count, values.data(), beside, factor.get());
  for (size_t tile = 0; tile < expected.size(); ++tile)
    ASSERT_TRUE(isSame(found[tile], expected[tile])) << "tile " << tile;
}

void expectSumsLikeReference(const host::HostCodec& codec, uint64_t count, uint32_t seed) {
  SCOPED_TRACE("sum of " + std::to_string(count) + " values, seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const ElementType type = kTypes[seed % 3];
  const auto nParts = static_cast<uint32_t>(1 + random() % 8);
  const uint64_t nBytes = count * elementBytes(type);
  const uint64_t stride = nBytes + random() % 3 * elementBytes(type);
  std::vector<uint8_t> rest((nParts - 1) * stride);
  for (uint32_t part = 0; part + 1 < nParts; ++part)
    std::ranges::copy(toElements(type, drawValues(count, random)), rest.data() + part * stride);
  const GuardedBytes own(toElements(type, drawValues(count, random)), drawOffset(type, random));
  const GuardedBytes others(rest, drawOffset(type, random));
  const auto sumBy = [&](const host::HostCodec& summing) {
    GuardedBytes sum(std::vector<uint8_t>(count * sizeof(float)), seed % 2 * sizeof(float));
    summing.sumParts({.own = own.data(),
                      .others = others.data(),
                      .strideBytes = stride,
                      .nParts = nParts,
                      .ownPosition = seed / 3 % nParts,
                      .count = count,
                      .type = type,
                      .sum = reinterpret_cast<float*>(sum.data())});
    EXPECT_TRUE(sum.isIntact());
    return sum.content();
  };
  ASSERT_EQ(sumBy(codec), sumBy(referenceCodec()));
}

void expectProbesLikeHost(const host::HostCodec& codec, uint64_t count, uint32_t seed) {
  SCOPED_TRACE("probe of " + std::to_string(count) + " values, seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const ElementType type = kTypes[seed % 3];
  const ResidualType residualType = kResidualTypes[seed / 3 % 3];
  const DrawnFactor factor(type, random);
  ProbedSlot found, expected;
  found.state.ordinal = expected.state.ordinal = 1;
  found.state.poisonOrdinal = expected.state.poisonOrdinal = 2;
  for (uint32_t call = 0; call < 5; ++call) {
    const GuardedBytes input(toElements(type, drawValues(count, random)), drawOffset(type, random));
    const float scale = random() % 3 ? 0.1f : 100.0f;
    const auto residual =
        toResidual(residualType, layered(count, static_cast<uint32_t>(random()), scale));
    for (ProbedSlot* slot : {&found, &expected}) {
      const auto& probing = slot == &found ? codec : host::fastestHostCodec();
      const wire::ShardLayout layout = {count, 1 + seed % 4, codec::formatOf("q4")};
      probing.probeInput({.call = {layout, type, 1, 2, &slot->state, &slot->fault},
                          .input = input.data(),
                          .inputFactor = factor.get(),
                          .residual = residual.data(),
                          .residualType = residualType,
                          .probe = &slot->probe});
      ++slot->state.ordinal;
    }
    ASSERT_TRUE(isSame(found.state, expected.state)) << "call " << call;
    ASSERT_TRUE(isSame(found.probe, expected.probe)) << "call " << call;
  }
}

}  // namespace cinch::test
