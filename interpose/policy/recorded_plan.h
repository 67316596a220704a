// What the ranks were told in one run of a job, as a text that another run follows (CINCH_PLAN):
// all that depends on measured times. From the same words the same decisions follow. Pure.
//
//   cinch-plan 1
//   comm COMMUNICATOR RANKS SETTINGS PLACEMENT   its ranks agreed, on these
//   slot COMMUNICATOR SLOT NAME                  a slot, and what it is, for people
//   pool COMMUNICATOR SLOT ROUND TIMES           the round's least figures, "812000,-,790000"
//   advice COMMUNICATOR SLOT CALL BYTES          what rank 0 said before that call, as digits
//
// SETTINGS, PLACEMENT, SLOT and BYTES are hexadecimal, "-" is a time that was not taken. Lines may
// come in any order, and those that begin with # are for people. A last line without its end does
// not count: the run may have been killed. Several processes may have written to one file, each
// with its first line.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace cinch {

// What a communicator's results depend on beside what was measured.
struct PlannedComm {
  int nRanks = 0;
  uint64_t settings = 0;   // a number for all that the ranks agreed on
  uint64_t placement = 0;  // one for which ranks share hosts, and how their devices are joined
};

struct PlannedSlotKey {
  std::string communicator;
  uint64_t slot = 0;  // identity
  auto operator<=>(const PlannedSlotKey&) const = default;
};

class RecordedPlan {
 public:
  RecordedPlan() = default;
  // An error says what is there twice.
  Result<void> add(std::string communicator, const PlannedComm& recorded);
  Result<void> add(const PlannedSlotKey& key);
  Result<void> addPool(const PlannedSlotKey& key, uint64_t round, std::vector<uint64_t> least);
  Result<void> addAdvice(const PlannedSlotKey& key, uint64_t call, std::vector<uint8_t> bytes);

  // An error says why what was recorded would not lead to the same results.
  Result<void> fits(const std::string& communicator, const PlannedComm& now) const;
  bool knows(const PlannedSlotKey& key) const { return slots_.contains(key); }

  // What was heard; nothing where the run did not get that far.
  std::vector<uint64_t> pool(const PlannedSlotKey& key, uint64_t round) const;
  std::vector<uint8_t> advice(const PlannedSlotKey& key, uint64_t call) const;

  // A number that is the same for the same words.
  std::string fingerprint() const;

 private:
  // What was heard for a slot, by round and by call.
  struct PlannedSlot {
    std::map<uint64_t, std::vector<uint64_t>> pools;
    std::map<uint64_t, std::vector<uint8_t>> advice;
  };

  std::map<std::string, PlannedComm> comms_;
  std::map<PlannedSlotKey, PlannedSlot> slots_;
};

// Lines of the text, with their ends.
std::string planHeader();
std::string commLine(const std::string& communicator, const PlannedComm& recorded);
std::string slotLine(const PlannedSlotKey& key, const std::string& name);
std::string poolLine(const PlannedSlotKey& key, uint64_t round, std::span<const uint64_t> least);
std::string adviceLine(const PlannedSlotKey& key, uint64_t call, std::span<const uint8_t> bytes);

// Errors name the line.
Result<RecordedPlan> parseRecordedPlan(std::string_view text);

// CINCH_PLAN: "", "record:FILE" or "replay:FILE".
struct PlanSetting {
  enum class Use { none, record, replay };
  Use use = Use::none;
  std::string path;
};
Result<PlanSetting> parsePlanSetting(std::string_view text);

}  // namespace cinch
