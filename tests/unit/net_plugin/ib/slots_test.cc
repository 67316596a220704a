#include "net_plugin/ib/slots.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

namespace cinch::net::ib {
namespace {

constexpr uint64_t kTurn = uint64_t{1} << 21;  // groups until an immediate repeats

// Both sides and all versions of this protocol agree on these.
TEST(Slots, LieAsThePeerWritesThem) {
  EXPECT_EQ(sizeof(ClearToSend), 64u);
  EXPECT_EQ(offsetof(ClearToSend, address), 0u);
  EXPECT_EQ(offsetof(ClearToSend, keys), 8u);
  EXPECT_EQ(offsetof(ClearToSend, capacity), 24u);
  EXPECT_EQ(offsetof(ClearToSend, tag), 28u);
  EXPECT_EQ(offsetof(ClearToSend, groupSize), 32u);
  EXPECT_EQ(offsetof(ClearToSend, stamp), 60u);
  EXPECT_EQ(sizeof(Arrival), 16u);
  EXPECT_EQ(offsetof(Arrival, group), 0u);
  EXPECT_EQ(offsetof(Arrival, nBytes), 4u);
  EXPECT_EQ(offsetof(Arrival, nParts), 8u);
  // The ring's address on a card is that of the whole.
  EXPECT_EQ(offsetof(SenderSlots, granted), 0u);
  EXPECT_EQ(offsetof(ReceiverSlots, arrivals), 0u);
  EXPECT_EQ(sizeof(SenderSlots), 256u * 64 + 256 * 8 * 16);
  EXPECT_EQ(offsetof(ReceiverSlots, granted), 256u * 8 * 16);
}

// A device takes pages, and a page of ours holds nothing of others.
TEST(Slots, AreWholePagesAndFreshOnesHoldNothing) {
  const auto slots = std::make_unique<SenderSlots>();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(slots.get()) % 4096, 0u);
  EXPECT_EQ(sizeof(SenderSlots) % 4096, 0u);
  for (size_t place = 0; place < kPlaces; ++place) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(&slots->granted[place]) % 64, 0u);
    EXPECT_FALSE(readGrant(slots->granted[place], place / kMaxGroup)) << place;
  }
}

TEST(Slots, GiveTheGroupsThatWaitTogetherPlacesOfTheirOwn) {
  for (const uint64_t first : {uint64_t{0}, uint64_t{17}, kTurn - 5, UINT64_MAX - 200}) {
    std::set<size_t> places;
    for (uint64_t group = first; group < first + kMaxRequests; ++group) {
      for (size_t index = 0; index < kMaxGroup; ++index) places.insert(placeOf(group, index));
    }
    EXPECT_EQ(places.size(), kPlaces) << first;
    EXPECT_LT(*places.rbegin(), kPlaces) << first;
    EXPECT_EQ(placeOf(first, 3), placeOf(first + kMaxRequests, 3));
  }
}

TEST(Immediate, ComesBackForEveryPlaceAndPart) {
  for (const uint64_t group : {uint64_t{0}, uint64_t{1}, uint64_t{31}, uint64_t{32}, kTurn - 1,
                               kTurn, kTurn + 1, uint64_t{1} << 32, UINT64_MAX}) {
    std::set<uint32_t> all;
    for (size_t place = 0; place < kPlaces; ++place) {
      for (size_t part = 0; part < kMaxParts; ++part) {
        const uint32_t immediate = immediateOf(group, place, part);
        ASSERT_EQ(placeOfImmediate(immediate), place) << group;
        ASSERT_EQ(partOfImmediate(immediate), part) << group;
        all.insert(immediate);
      }
    }
    ASSERT_EQ(all.size(), kPlaces * kMaxParts);
  }
}

// A place's next user is 32 groups on, and many after that are still told from this one.
TEST(Immediate, TellsAGroupFromThoseThatFollowInItsPlace) {
  const uint32_t first = immediateOf(5, 40, 2);
  for (uint64_t group = 5 + kMaxRequests; group < kTurn; group += kMaxRequests) {
    ASSERT_NE(immediateOf(group, 40, 2), first) << group;
  }
  EXPECT_EQ(immediateOf(5 + kTurn, 40, 2), first);
}

TEST(Stamp, IsNeverThatOfFreshMemoryNorThatOfThePlacesLastGroup) {
  constexpr uint64_t kStamps = 0xffffffff;
  for (const uint64_t turn : {uint64_t{0}, uint64_t{1}, kStamps - 2, kStamps - 1, kStamps,
                              kStamps + 1, 2 * kStamps - 1, UINT64_MAX / kMaxRequests - 1}) {
    const uint64_t group = turn * kMaxRequests;
    EXPECT_NE(stampOf(group), 0u) << turn;
    EXPECT_EQ(stampOf(group), stampOf(group + kMaxRequests - 1)) << turn;
    EXPECT_NE(stampOf(group), stampOf(group + kMaxRequests)) << turn;
  }
}

TEST(ReadGrant, GivesTheGroupThatWasWrittenAndNoOther) {
  for (const uint64_t group : {uint64_t{0}, uint64_t{33}, (uint64_t{0xffffffff} - 1) * 32}) {
    ClearToSend written = {.address = 0x1122334455667788,
                           .keys = {1, 2, 3, 4},
                           .capacity = 0xfffffff0,
                           .tag = -7,
                           .groupSize = 8,
                           .stamp = stampOf(group)};
    const auto grant = readGrant(written, group);
    ASSERT_TRUE(grant) << group;
    EXPECT_EQ(grant->address, written.address);
    EXPECT_EQ(grant->keys, written.keys);
    EXPECT_EQ(grant->capacity, written.capacity);
    EXPECT_EQ(grant->tag, -7);
    EXPECT_EQ(grant->groupSize, 8);
    EXPECT_FALSE(readGrant(written, group + kMaxRequests)) << group;
    EXPECT_FALSE(readGrant(written, group + 2 * kMaxRequests)) << group;
    if (group >= kMaxRequests) {
      EXPECT_FALSE(readGrant(written, group - kMaxRequests));
    }
  }
}

TEST(IsSane, WantsAnIndexWithinAGroupOfOneToEight) {
  for (int size = 0; size < 256; ++size) {
    for (size_t index = 0; index < 20; ++index) {
      const ClearToSend grant = {.groupSize = static_cast<uint8_t>(size)};
      const bool isWithin = size <= 8 && static_cast<int>(index) < size;
      EXPECT_EQ(isSane(grant, index), isWithin) << size << " " << index;
    }
  }
}

}  // namespace
}  // namespace cinch::net::ib
