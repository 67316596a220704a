#include "tests/net/chaos/plan.h"

#include <algorithm>
#include <iterator>

namespace cinch::chaos {
namespace {

enum Question : uint32_t { kSender, kWindow, kClass, kBytes, kCapacity, kLateness, kPattern };

uint64_t mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x7fb5d329728ea185u;
  x ^= x >> 27;
  x *= 0x81dadef4bc2dd44du;
  return x ^ x >> 33;
}

uint64_t draw(const Plan& plan, const Spot& spot, Question question, int side = 0) {
  const uint64_t where = static_cast<uint64_t>(spot.lane) << 40 |
                         static_cast<uint64_t>(spot.life) << 32 |
                         static_cast<uint64_t>(spot.message) << 8;
  return mix(mix(plan.seed + 1) + mix(where + question * 2 + side));
}

}  // namespace

int senderOf(const Plan& plan, int lane) {
  // Both directions wherever there are two lanes.
  return static_cast<int>((draw(plan, {}, kSender) + lane) % kSides);
}

int windowOf(const Plan& plan, const Spot& spot, int side) {
  return static_cast<int>(1 + draw(plan, {spot.lane, spot.life, 0}, kWindow, side) % 8);
}

// Many short ones, some around the limits of chunks, a few long ones.
size_t bytesOf(const Plan& plan, const Spot& spot) {
  static constexpr size_t kLimits[] = {0,        64,        64,        16 << 10,
                                       20 << 10, 130 << 10, 512 << 10, 2 << 20};
  const size_t limit = kLimits[draw(plan, spot, kClass) % std::size(kLimits)];
  const uint64_t number = draw(plan, spot, kBytes);
  // One in four is exactly as long as its limit.
  const size_t nBytes = number % 4 == 0 ? limit : number / 4 % (limit + 1);
  return std::min(nBytes, plan.maxBytes);
}

size_t capacityOf(const Plan& plan, const Spot& spot) {
  const uint64_t number = draw(plan, spot, kCapacity);
  return bytesOf(plan, spot) + (number % 3 == 0 ? number / 3 % (100 << 10) : 0);
}

int latenessOf(const Plan& plan, const Spot& spot, int side) {
  const uint64_t number = draw(plan, spot, kLateness, side);
  return number % 8 == 0 ? static_cast<int>(number / 8 % 2000) : 0;
}

uint64_t patternOf(const Plan& plan, const Spot& spot) {
  return draw(plan, spot, kPattern) << 24;
}

}  // namespace cinch::chaos
