// What the ranks decided in one run of a job, as a text that another run follows (CINCH_PLAN): all
// that depends on measured times. Pure.
//
//   cinch-plan 2
//   comm COMMUNICATOR RANKS SETTINGS PLACEMENT   its ranks agreed, on these
//   slot COMMUNICATOR SLOT NAME                  a slot, and what it is, for people
//   decision COMMUNICATOR CALL TOPIC BYTES       what was in force from that call on
//
// SETTINGS, PLACEMENT, SLOT, TOPIC and BYTES are hexadecimal, "-" are no bytes. Lines may come in
// any order, and those that begin with # are for people. A last line without its end does not
// count: the run may have been killed. Several processes may have written to one file, each with
// its first line.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
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

// From that call of the communicator on.
struct PlannedDecision {
  uint64_t call = 0;
  uint64_t topic = 0;
  std::vector<uint8_t> bytes{};
  bool operator==(const PlannedDecision&) const = default;
};

class RecordedPlan {
 public:
  RecordedPlan() = default;
  // An error says what is there twice.
  Result<void> add(std::string communicator, const PlannedComm& recorded);
  Result<void> add(const PlannedSlotKey& key);
  Result<void> add(const std::string& communicator, PlannedDecision decision);

  // An error says why what was recorded would not lead to the same results.
  Result<void> fits(const std::string& communicator, const PlannedComm& now) const;
  bool knows(const PlannedSlotKey& key) const { return slots_.contains(key); }

  // What came into force with that call.
  std::vector<PlannedDecision> decisionsAt(const std::string& communicator, uint64_t call) const;

  // A number that is the same for the same words.
  std::string fingerprint() const;

 private:
  using Decisions = std::map<std::pair<uint64_t, uint64_t>, std::vector<uint8_t>>;  // call, topic

  std::map<std::string, PlannedComm> comms_;
  std::set<PlannedSlotKey> slots_;
  std::map<std::string, Decisions> decisions_;  // by communicator
};

// Lines of the text, with their ends.
std::string planHeader();
std::string commLine(const std::string& communicator, const PlannedComm& recorded);
std::string slotLine(const PlannedSlotKey& key, const std::string& name);
std::string decisionLine(const std::string& communicator, const PlannedDecision& decision);

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
