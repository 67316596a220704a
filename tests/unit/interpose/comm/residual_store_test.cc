#include "interpose/comm/residual_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "interpose/policy/precision/segments.h"
#include "kernels/codec/registry.h"
#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeDeviceTable;

constexpr ResidualOwner kStoreOwner{2, 1};
constexpr uint64_t kCount = 5000;

using Bytes = std::vector<uint8_t>;

// What a slot of a job looks like before its first call.
struct Kind {
  uint64_t identity = 7;
  uint64_t count = kCount;
  ResidualType type = ResidualType::fp32;
  bool isExamined = false;
  float gain = 0.1f;
  bool isPair = false;
};

class ResidualStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    test::resetFakes();
    fakeDevice().captureMode = 2;
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override {
    fakeDevice().failAt = -1;
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<Slot> makeSlot(const Kind& kind) {
    const CollectivePlan plan = planCollective(
        {CallKind::allReduce, OpClass::sum, ncclFloat32, kind.count}, ElementType::fp32,
        codec::formatOf("q4"), kStoreOwner.rank, kStoreOwner.nRanks, {.mayPair = kind.isPair});
    const CodingRule rule{.gain = kind.gain, .residualType = kind.type};
    auto slot =
        std::make_unique<Slot>(kind.identity, "slot " + std::to_string(kind.identity), plan, rule,
                               kind.isExamined ? std::make_unique<Checkup>() : nullptr);
    slot->stats = &comm_.addSlot(slot->name, "q4", kind.gain);
    EXPECT_TRUE(slot->allocate(fakeDeviceTable(), nullptr).ok());
    EXPECT_TRUE(slot->takeResiduals(fakeDeviceTable()).ok());
    return slot;
  }
  ResidualStore::Slots makeSlots(const std::vector<Kind>& kinds) {
    ResidualStore::Slots slots;
    for (const Kind& kind : kinds) slots.push_back(makeSlot(kind));
    return slots;
  }

  static ProbeState& probeOf(const Slot& slot) { return *slot.residuals.pointers().probe; }
  static Bytes encodeOf(const Slot& slot) {
    const auto* bytes = static_cast<const uint8_t*>(slot.residuals.pointers().encode);
    return {bytes, bytes + slot.planInForce().encodeResidualBytes(slot.rule.residualType)};
  }
  static Bytes reduceOf(const Slot& slot) {
    const auto* bytes = static_cast<const uint8_t*>(slot.residuals.pointers().reduce);
    return {bytes, bytes + slot.planInForce().reduceResidualBytes(slot.rule.residualType)};
  }
  static bool isZero(const Bytes& bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
  }

  // A first call, which clears what it may not use.
  void call(const Slot& slot) {
    ASSERT_TRUE(
        const_cast<Slot&>(slot).residualsOfCall(fakeDeviceTable(), this, this, nullptr).ok());
  }
  // One that leaves something behind, which `seed` tells apart.
  void use(const Slot& slot, uint8_t seed) {
    call(slot);
    auto fill = [&](void* memory, size_t nBytes, uint8_t stride) {
      for (size_t i = 0; i < nBytes; ++i)
        static_cast<uint8_t*>(memory)[i] = static_cast<uint8_t>(seed + stride * i);
    };
    fill(slot.residuals.pointers().encode, encodeOf(slot).size(), 3);
    fill(slot.residuals.pointers().reduce, reduceOf(slot).size(), 5);
    probeOf(slot) = {};
    probeOf(slot).nCalls = 90;
    probeOf(slot).nStrangers = 2;
    probeOf(slot).nOverflows = 1;
    for (float& level : probeOf(slot).levels) level = static_cast<float>(seed++);
  }
  ResidualStore::Slots useAll(const std::vector<Kind>& kinds) {
    ResidualStore::Slots slots = makeSlots(kinds);
    for (size_t i = 0; i < slots.size(); ++i) use(*slots[i], static_cast<uint8_t>(10 * i + 1));
    return slots;
  }

  ResidualStore store() const { return {folder_, kStoreOwner, "communicator"}; }
  void save(const ResidualStore::Slots& slots) { store().save(fakeDeviceTable(), slots); }
  // What slots of these kinds start from; a call of each has begun.
  ResidualStore::Slots load(const std::vector<Kind>& kinds) {
    ResidualStore::Slots slots = makeSlots(kinds);
    store().load(fakeDeviceTable(), slots);
    for (const auto& slot : slots) call(*slot);
    return slots;
  }
  bool startFromZero(const ResidualStore::Slots& slots) {
    return std::all_of(slots.begin(), slots.end(), [](const auto& slot) {
      return isZero(encodeOf(*slot)) && isZero(reduceOf(*slot));
    });
  }
  static bool areEqual(const ResidualStore::Slots& a, const ResidualStore::Slots& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
      return encodeOf(*x) == encodeOf(*y) && reduceOf(*x) == reduceOf(*y) &&
             std::equal(std::begin(probeOf(*x).levels), std::end(probeOf(*x).levels),
                        probeOf(*y).levels);
    });
  }

  const std::string folder_ = testing::TempDir() + "cinch_residual_store_" +
                              testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path_ = folder_ + "/rank1of2.comm0.cinch";
  CommStats comm_{CommLabel{"communicator", 0, 2, "", {}}};
};

TEST_F(ResidualStoreTest, WhatIsSavedIsWhatTheNextJobStartsFrom) {
  for (const ResidualType type : {ResidualType::fp32, ResidualType::bf16, ResidualType::int8}) {
    const std::vector<Kind> kinds = {{.identity = 1, .type = type},
                                     {.identity = 2, .count = 70000}};
    const auto before = useAll(kinds);
    save(before);
    const auto after = load(kinds);
    EXPECT_FALSE(startFromZero(after));
    EXPECT_TRUE(areEqual(before, after));
    EXPECT_EQ(probeOf(*after[0]).nCalls, 1u) << "the next call's profile is compared";
    EXPECT_EQ(probeOf(*after[0]).nStrangers, 0u) << "and believed";
    EXPECT_EQ(after[0]->stats->residualResets.load(), 0u);
  }
}

// Two ranks that summed up shards exchange whole buckets now, and the reverse: what is of the
// bucket is kept.
TEST_F(ResidualStoreTest, AnotherExchangeKeepsWhatItCan) {
  for (const bool wasPair : {false, true}) {
    const auto before = useAll({{.isPair = wasPair}});
    save(before);
    const auto after = load({{.isPair = !wasPair}});
    EXPECT_EQ(encodeOf(*after[0]), encodeOf(*before[0]));
    EXPECT_TRUE(isZero(reduceOf(*after[0])));
  }
}

// How a slot begins is known before its residuals are loaded, and moves what the rank owns at the
// first call only.
TEST_F(ResidualStoreTest, EveryValueKeepsItsOwnWhereShardsMove) {
  const Kind kind{.count = 10 * wire::kTileElems, .isExamined = true};
  for (const auto& runs : {std::vector<wire::Segment>{{10, codec::formatOf("h4")}},
                           {{4, codec::formatOf("fp16")}, {6, codec::formatOf("h2")}},
                           {{8, codec::formatOf("h2")}, {2, codec::formatOf("fp16")}}}) {
    const auto before = useAll({kind});
    save(before);
    auto slots = makeSlots({kind});
    Slot& slot = *slots[0];
    ASSERT_TRUE(slot.changePlan(fakeDeviceTable(), {.id = 7, .slot = 7, .runs = runs}).ok());
    store().load(fakeDeviceTable(), slots);
    ASSERT_TRUE(slot.enterPlan(fakeDeviceTable(), nullptr).ok());
    call(slot);
    const ResidualRange then = before[0]->residuals.range(), now = slot.residuals.range();
    EXPECT_EQ(now.ownedBytes(), slot.planInForce().reduceResidualBytes(slot.rule.residualType));
    const Bytes theirs = reduceOf(*before[0]), own = reduceOf(slot);
    for (uint64_t at = now.ownedFirst; at < now.ownedEnd; ++at) {
      const bool wasOwned = at >= then.ownedFirst && at < then.ownedEnd;
      ASSERT_EQ(own[at - now.ownedFirst], wasOwned ? theirs[at - then.ownedFirst] : 0) << at;
    }
  }
}

TEST_F(ResidualStoreTest, TheOrderOfSlotsDoesNotMatter) {
  const auto before = useAll({{.identity = 1}, {.identity = 2, .count = 3000}});
  save(before);
  const auto after = load({{.identity = 2, .count = 3000}, {.identity = 1}});
  EXPECT_EQ(encodeOf(*after[0]), encodeOf(*before[1]));
  EXPECT_EQ(encodeOf(*after[1]), encodeOf(*before[0]));
}

TEST_F(ResidualStoreTest, LoadedResidualsAreDroppedLikeAnyOther) {
  save(useAll({{}}));
  auto slots = makeSlots({{}});
  store().load(fakeDeviceTable(), slots);
  slots[0]->residuals.drop();
  call(*slots[0]);
  EXPECT_TRUE(startFromZero(slots));
  EXPECT_FALSE(startFromZero(load({{}})));
}

TEST_F(ResidualStoreTest, OnlyTheFirstBuffersAreTakenForThoseOfTheLastJob) {
  save(useAll({{}}));
  const auto slots = load({{}});
  char other = 0;
  ASSERT_TRUE(slots[0]->residualsOfCall(fakeDeviceTable(), &other, &other, nullptr).ok());
  EXPECT_TRUE(startFromZero(slots));
}

TEST_F(ResidualStoreTest, AllOrNothing) {
  const std::vector<Kind> saved = {{.identity = 1}, {.identity = 2}};
  save(useAll(saved));
  const std::vector<std::vector<Kind>> others = {
      {{.identity = 1}},
      {{.identity = 1}, {.identity = 3}},
      {{.identity = 1}, {.identity = 2}, {.identity = 3}},
      {{.identity = 1}, {.identity = 2, .count = kCount + 1}},
      {{.identity = 1}, {.identity = 2, .type = ResidualType::bf16}},
  };
  for (const auto& kinds : others) EXPECT_TRUE(startFromZero(load(kinds)));
  EXPECT_FALSE(startFromZero(load(saved)));
  EXPECT_FALSE(startFromZero(load({{.identity = 2}, {.identity = 1}, {.identity = 3, .gain = 0}})))
      << "a slot without feedback is none of them";
}

TEST_F(ResidualStoreTest, WithoutAFileResidualsStartFromZero) {
  EXPECT_TRUE(startFromZero(load({{}})));
  EXPECT_TRUE(std::filesystem::is_directory(folder_))
      << "and it is known early that one can be made";
}

TEST_F(ResidualStoreTest, AFolderThatCannotBeMadeIsNoFailure) {
  std::ofstream(folder_) << "a file";
  const auto slots = useAll({{}});
  save(slots);
  EXPECT_TRUE(startFromZero(load({{}})));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_));
}

TEST_F(ResidualStoreTest, DamageAnywhereMeansZeroForAll) {
  const std::vector<Kind> kinds = {{.identity = 1, .count = 100}, {.identity = 2, .count = 100}};
  save(useAll(kinds));
  std::ifstream input(path_, std::ios::binary);
  const std::string right{std::istreambuf_iterator<char>(input), {}};
  ASSERT_GT(right.size(), 2 * 4 * 100u);
  for (size_t at = 0; at < right.size(); at += 37) {
    std::string wrong = right;
    wrong[at] = static_cast<char>(wrong[at] ^ 0x10);
    std::ofstream(path_, std::ios::binary) << wrong;
    EXPECT_TRUE(startFromZero(load(kinds))) << at;
    std::ofstream(path_, std::ios::binary) << right.substr(0, at);
    EXPECT_TRUE(startFromZero(load(kinds))) << at;
  }
  std::ofstream(path_, std::ios::binary) << right;
  EXPECT_FALSE(startFromZero(load(kinds)));
}

TEST_F(ResidualStoreTest, ADeviceThatFailsMeansZeroForAll) {
  const std::vector<Kind> kinds = {{.identity = 1}, {.identity = 2}};
  save(useAll(kinds));
  int failAt = 0;
  for (bool hasFailed = true; hasFailed; ++failAt) {
    const auto slots = makeSlots(kinds);
    fakeDevice().calls.clear();
    fakeDevice().failAt = failAt;
    store().load(fakeDeviceTable(), slots);
    fakeDevice().failAt = -1;
    hasFailed = fakeDevice().calls.size() > static_cast<size_t>(failAt);
    for (const auto& slot : slots) call(*slot);
    EXPECT_EQ(startFromZero(slots), hasFailed) << failAt;
  }
  EXPECT_GE(failAt, 2 * 5) << "for each slot two clearings and three copies";
}

TEST_F(ResidualStoreTest, AFailedSaveLeavesTheOldFile) {
  const auto before = useAll({{}});
  save(before);
  const auto other = useAll({{.identity = 8}});
  for (int failAt = 0; failAt < 4; ++failAt) {
    fakeDevice().calls.clear();
    fakeDevice().failAt = failAt;
    save(other);
    fakeDevice().failAt = -1;
    EXPECT_TRUE(areEqual(before, load({{}}))) << failAt;
  }
  save(other);
  EXPECT_TRUE(startFromZero(load({{}})));
}

// What is not finite may sit in residuals; the next call would have ignored them.
TEST_F(ResidualStoreTest, AfterAResultThatWasNotFiniteZeroesAreKept) {
  const std::vector<Kind> kinds = {{.identity = 1}, {.identity = 2}};
  const auto before = useAll(kinds);
  static_cast<float*>(before[0]->residuals.pointers().encode)[3] =
      std::numeric_limits<float>::quiet_NaN();
  before[0]->state()->poisonOrdinal = before[0]->state()->ordinal;
  save(before);
  const auto after = load(kinds);
  EXPECT_TRUE(isZero(encodeOf(*after[0])));
  EXPECT_TRUE(isZero(reduceOf(*after[0])));
  EXPECT_EQ(encodeOf(*after[1]), encodeOf(*before[1]));
}

TEST_F(ResidualStoreTest, SlotsThatOweNothingAreLeftOut) {
  auto before = useAll({{.identity = 1}, {.identity = 2}, {.identity = 3}});
  before[1]->residuals.drop();
  before.push_back(makeSlot({.identity = 4}));  // never called
  save(before);
  EXPECT_FALSE(startFromZero(load({{.identity = 1}, {.identity = 3}})));
  before[2]->residuals.enterEpoch(2);  // the place in the step of another epoch
  use(*before[2], 9);
  save(before);
  EXPECT_FALSE(startFromZero(load({{.identity = 3}})));
}

TEST_F(ResidualStoreTest, TwoOfASizeAreKeptApart) {
  const auto first = useAll({{}});
  auto second = makeSlots({{}});
  use(*second[0], 99);
  {
    const ResidualStore one = store(), two = store();
    one.save(fakeDeviceTable(), first);
    two.save(fakeDeviceTable(), second);
  }
  const ResidualStore one = store(), two = store();
  auto a = makeSlots({{}}), b = makeSlots({{}});
  one.load(fakeDeviceTable(), a);
  two.load(fakeDeviceTable(), b);
  EXPECT_TRUE(areEqual(first, a));
  EXPECT_TRUE(areEqual(second, b));
}

// The shards of an examined slot may be cut anew; the next job begins with equal ones.
TEST_F(ResidualStoreTest, AResidualStaysWithItsValueWhenShardsMove) {
  constexpr uint64_t kTiles = 8, kValues = kTiles * wire::kTileElems;
  const Kind kind{.count = kValues, .isExamined = true};
  auto before = makeSlots({kind});
  Slot& slot = *before[0];
  const PrecisionPlan coarseAtFirst{
      .id = 1, .runs = {{6, codec::formatOf("q2")}, {2, codec::formatOf("q8")}}};
  ASSERT_TRUE(slot.changePlan(fakeDeviceTable(), coarseAtFirst).ok());
  ASSERT_TRUE(slot.enterPlan(fakeDeviceTable(), nullptr).ok());
  use(slot, 1);
  const uint64_t ownedFirst = slot.planInForce().layout.firstElem(kStoreOwner.rank);
  ASSERT_GT(ownedFirst, kValues / 2) << "less than half of the bucket is this rank's";
  save(before);

  for (const bool isExamined : {true, false}) {
    const auto after = load({{.count = kValues, .isExamined = isExamined}});
    EXPECT_EQ(encodeOf(*after[0]), encodeOf(slot));
    const Bytes loaded = reduceOf(*after[0]), kept = reduceOf(slot);
    ASSERT_EQ(loaded.size(), 4 * kValues / 2);
    ASSERT_LT(kept.size(), loaded.size());
    const auto nBefore = static_cast<ptrdiff_t>(loaded.size() - kept.size());
    EXPECT_TRUE(isZero({loaded.begin(), loaded.begin() + nBefore}));
    EXPECT_TRUE(std::equal(kept.begin(), kept.end(), loaded.begin() + nBefore));
  }
}

}  // namespace
}  // namespace cinch
