#include "interpose/policy/recorded_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

#include "common/hash.h"
#include "common/text.h"

namespace cinch {
namespace {

constexpr const char* kFirstLine = "cinch-plan 2";
constexpr const char* kNoBytes = "-";
constexpr size_t kMaxBytes = 64 << 10;  // more than any decision has

std::string hexadecimal(uint64_t value) {
  std::array<char, 20> digits;
  snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(value));
  return digits.data();
}

template <class Number>
bool parseNumber(std::string_view text, Number& value, int base = 10) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  return !text.empty() && error == std::errc() && stop == end;
}

bool parseBytes(std::string_view text, std::vector<uint8_t>& bytes) {
  if (text == kNoBytes) return true;
  if (text.empty() || text.size() % 2 != 0 || text.size() > 2 * kMaxBytes) return false;
  for (size_t i = 0; i < text.size(); i += 2)
    if (!parseNumber(text.substr(i, 2), bytes.emplace_back(), 16)) return false;
  return true;
}

Error wrong(const char* what, std::string_view word) {
  constexpr size_t kShown = 40;
  return errorf(Status::invalidUsage, "'%.*s' is not %s",
                static_cast<int>(std::min(word.size(), kShown)), word.data(), what);
}

Result<void> once(bool isNew, const std::string& what) {
  if (isNew) return {};
  return errorf(Status::invalidUsage, "%s is there twice: two runs have written to the file",
                what.c_str());
}

Result<void> parseComm(std::string_view words, RecordedPlan& plan) {
  const std::string name(takeUntil(words, " "));
  PlannedComm comm;
  std::string_view word = takeUntil(words, " ");
  if (!parseNumber(word, comm.nRanks) || comm.nRanks < 2) return wrong("a number of ranks", word);
  word = takeUntil(words, " ");
  if (!parseNumber(word, comm.settings, 16)) return wrong("a number for settings", word);
  if (!parseNumber(words, comm.placement, 16)) return wrong("a number for a placement", words);
  return plan.add(name, comm);
}

Result<void> parseSlot(std::string_view words, RecordedPlan& plan) {
  PlannedSlotKey key;
  key.communicator = takeUntil(words, " ");
  const std::string_view word = takeUntil(words, " ");
  if (!parseNumber(word, key.slot, 16)) return wrong("a slot", word);
  return plan.add(key);
}

Result<void> parseDecision(std::string_view words, RecordedPlan& plan) {
  const std::string communicator(takeUntil(words, " "));
  PlannedDecision decision;
  std::string_view word = takeUntil(words, " ");
  if (!parseNumber(word, decision.call)) return wrong("the number of a call", word);
  word = takeUntil(words, " ");
  if (!parseNumber(word, decision.topic, 16)) return wrong("a topic", word);
  if (!parseBytes(words, decision.bytes)) return wrong("a decision", words);
  return plan.add(communicator, std::move(decision));
}

Result<void> parseLine(std::string_view line, RecordedPlan& plan) {
  const std::string_view kind = takeUntil(line, " ");
  if (kind == "comm") return parseComm(line, plan);
  if (kind == "slot") return parseSlot(line, plan);
  if (kind == "decision") return parseDecision(line, plan);
  return wrong("a kind of line: comm, slot, decision", kind);
}

}  // namespace

Result<void> RecordedPlan::add(std::string communicator, const PlannedComm& recorded) {
  const auto [place, isNew] = comms_.emplace(std::move(communicator), recorded);
  return once(isNew, place->first);
}

Result<void> RecordedPlan::add(const PlannedSlotKey& key) {
  slots_.insert(key);
  return {};
}

Result<void> RecordedPlan::add(const std::string& communicator, PlannedDecision decision) {
  const auto key = std::pair(decision.call, decision.topic);
  return once(decisions_[communicator].emplace(key, std::move(decision.bytes)).second,
              "a decision of call " + std::to_string(decision.call));
}

Result<void> RecordedPlan::fits(const std::string& communicator, const PlannedComm& now) const {
  const auto found = comms_.find(communicator);
  const char* const name = communicator.c_str();
  if (found == comms_.end())
    return errorf(Status::invalidUsage, "%s was not compressed in the run that was recorded", name);
  const PlannedComm& then = found->second;
  if (then.nRanks != now.nRanks)
    return errorf(Status::invalidUsage, "%s was recorded with %d ranks and has %d", name,
                  then.nRanks, now.nRanks);
  if (then.settings != now.settings)
    return errorf(Status::invalidUsage,
                  "%s was recorded with other settings, or by another version of Cinch", name);
  if (then.placement != now.placement)
    return errorf(Status::invalidUsage, "%s was recorded with its ranks on other hosts", name);
  return {};
}

std::vector<PlannedDecision> RecordedPlan::decisionsAt(const std::string& communicator,
                                                       uint64_t call) const {
  std::vector<PlannedDecision> decisions;
  const auto found = decisions_.find(communicator);
  if (found == decisions_.end()) return decisions;
  auto at = found->second.lower_bound({call, 0});
  for (; at != found->second.end() && at->first.first == call; ++at)
    decisions.push_back({call, at->first.second, at->second});
  return decisions;
}

std::string RecordedPlan::fingerprint() const {
  std::string text;
  for (const auto& [name, comm] : comms_) text += commLine(name, comm);
  for (const PlannedSlotKey& key : slots_) text += slotLine(key, "");
  for (const auto& [name, decisions] : decisions_)
    for (const auto& [key, bytes] : decisions)
      text += decisionLine(name, {key.first, key.second, bytes});
  return hexadecimal(hashText(text));
}

std::string planHeader() {
  return std::string(kFirstLine) + "\n";
}

std::string commLine(const std::string& communicator, const PlannedComm& recorded) {
  return "comm " + communicator + " " + std::to_string(recorded.nRanks) + " " +
         hexadecimal(recorded.settings) + " " + hexadecimal(recorded.placement) + "\n";
}

std::string slotLine(const PlannedSlotKey& key, const std::string& name) {
  return "slot " + key.communicator + " " + hexadecimal(key.slot) + " " + name + "\n";
}

std::string decisionLine(const std::string& communicator, const PlannedDecision& decision) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "decision " + communicator + " " + std::to_string(decision.call) + " " +
                     hexadecimal(decision.topic) + " ";
  for (const uint8_t byte : decision.bytes) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text + (decision.bytes.empty() ? kNoBytes : "") + "\n";
}

Result<RecordedPlan> parseRecordedPlan(std::string_view text) {
  RecordedPlan plan;
  text = text.substr(0, text.rfind('\n') + 1);
  if (!text.starts_with(planHeader()))
    return errorf(Status::invalidUsage, "line 1 is not '%s'", kFirstLine);
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = takeUntil(text, "\n");
    if (line == kFirstLine || line.starts_with('#')) continue;
    if (const auto parsed = parseLine(line, plan); !parsed.ok())
      return errorf(Status::invalidUsage, "line %d: %s", number, parsed.error().message.c_str());
  }
  return plan;
}

Result<PlanSetting> parsePlanSetting(std::string_view text) {
  if (text.empty()) return PlanSetting{};
  const std::string_view use = takeUntil(text, ":");
  const std::string path(text);
  if (use == "record" && !path.empty()) return PlanSetting{PlanSetting::Use::record, path};
  if (use == "replay" && !path.empty()) return PlanSetting{PlanSetting::Use::replay, path};
  return errorf(Status::invalidUsage, "CINCH_PLAN should be record:FILE or replay:FILE");
}

}  // namespace cinch
