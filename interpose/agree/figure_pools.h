// What the ranks of one communicator measured, pooled by topic: the least of each figure, for all.
// Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "common/network/socket.h"
#include "common/result.h"
#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/attendance.h"

namespace cinch {

// Slots of a communicator pool at the same time, and a rank may be two rounds ahead.
inline constexpr size_t kMaxOpenPools = 16384;
// How long after the first rank's figures the others' are waited for.
inline constexpr std::chrono::seconds kPoolTime{10};

class FigurePools {
 public:
  // Appends what is to be decided. An error where the member breaks the protocol.
  Result<void> add(size_t member, const Figures& figures, Attendance now,
                   std::vector<Decision>& out);
  // Figures that have waited too long for others are given up.
  void expire(std::vector<Decision>& out);
  // kNoDeadline for never.
  Deadline due() const;
  // A member has left: `now` is without it.
  void leave(size_t member, Attendance now, std::vector<Decision>& out);

 private:
  struct Open {
    std::vector<bool> given;  // by member
    size_t nGiven = 0;        // by members that have not left
    std::vector<uint64_t> least;
    Deadline due = kNoDeadline;
    bool isOver = false;  // all have been told; what comes now came too late
  };

  static void tell(uint64_t topic, Open& pool, std::vector<Decision>& out);
  void settle(uint64_t topic, Attendance now, std::vector<Decision>& out);

  std::map<uint64_t, Open> pools_;
};

}  // namespace cinch
