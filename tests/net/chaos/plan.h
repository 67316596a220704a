// What two processes exchange in a round. All of it follows from a few numbers, so that both sides
// work it out for themselves, and so that a seed is all that is needed to do it again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cinch::chaos {

inline constexpr int kMaxLanes = 4;
inline constexpr int kSides = 2;
inline constexpr int kNever = -1;

// What a process does to a child that it forks in the middle of a round.
enum class Fork : int { none, exits, isKilled, executes, lives };

// A lane is a connection in one direction, which is closed and opened again a few times: its lives.
struct Plan {
  uint32_t seed = 0;
  int nLanes = 1;
  int nLives = 1;
  int nMessages = 8;  // of each life
  size_t maxBytes = 2 << 20;
  int closesAfter[kSides] = {kNever, kNever};  // messages; the side then closes all it has
  bool mayFail = false;                        // else an error is a failure of the test
  Fork fork = Fork::none;                      // of side 1, half-way
};

// One message of a plan.
struct Spot {
  int lane = 0;
  int life = 0;
  int message = 0;
};

int senderOf(const Plan& plan, int lane);
// Of a life: requests that may be under way on it. The two sides need not agree.
int windowOf(const Plan& plan, const Spot& spot, int side);
size_t bytesOf(const Plan& plan, const Spot& spot);
// Of the buffer that waits for it: as large, or now and then larger.
size_t capacityOf(const Plan& plan, const Spot& spot);
// How many visits a side waits before it posts.
int latenessOf(const Plan& plan, const Spot& spot, int side);
// Its low bits count the words of the message.
uint64_t patternOf(const Plan& plan, const Spot& spot);

}  // namespace cinch::chaos
