#include "interpose/policy/recorded_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "common/hash.h"
#include "common/text.h"
#include "interpose/policy/strategy.h"

namespace cinch {
namespace {

constexpr const char* kFirstLine = "cinch-plan 1";
constexpr const char* kNoTime = "-";
constexpr size_t kMaxAdvice = 48 << 10;

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

bool parseTimes(std::string_view text, std::vector<uint64_t>& least) {
  while (!text.empty()) {
    const std::string_view word = takeUntil(text, ",");
    uint64_t& time = least.emplace_back(kNotTimed);
    if (word != kNoTime && !parseNumber(word, time)) return false;
  }
  return !least.empty() && least.size() <= StrategyChooser::kFigures;
}

bool parseBytes(std::string_view text, std::vector<uint8_t>& bytes) {
  if (text.empty() || text.size() % 2 != 0 || text.size() > 2 * kMaxAdvice) return false;
  for (size_t i = 0; i < text.size(); i += 2)
    if (!parseNumber(text.substr(i, 2), bytes.emplace_back(), 16)) return false;
  return true;
}

std::string wordsOf(const char* kind, const PlannedSlotKey& key) {
  return std::string(kind) + " " + key.communicator + " " + hexadecimal(key.slot) + " ";
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

// A line of a slot after its kind.
Result<void> parseSlot(std::string_view kind, std::string_view words, RecordedPlan& plan) {
  PlannedSlotKey key;
  key.communicator = takeUntil(words, " ");
  std::string_view word = takeUntil(words, " ");
  if (!parseNumber(word, key.slot, 16)) return wrong("a slot", word);
  if (kind == "slot") return plan.add(key);
  uint64_t number = 0;
  word = takeUntil(words, " ");
  if (!parseNumber(word, number)) return wrong("the number of a round or call", word);
  if (kind == "pool") {
    std::vector<uint64_t> least;
    if (!parseTimes(words, least)) return wrong("a list of up to 9 times", words);
    return plan.addPool(key, number, std::move(least));
  }
  std::vector<uint8_t> bytes;
  if (!parseBytes(words, bytes)) return wrong("an advice", words);
  return plan.addAdvice(key, number, std::move(bytes));
}

Result<void> parseLine(std::string_view line, RecordedPlan& plan) {
  const std::string_view kind = takeUntil(line, " ");
  if (kind == "comm") return parseComm(line, plan);
  if (kind == "slot" || kind == "pool" || kind == "advice") return parseSlot(kind, line, plan);
  return wrong("a kind of line: comm, slot, pool, advice", kind);
}

}  // namespace

Result<void> RecordedPlan::add(std::string communicator, const PlannedComm& recorded) {
  const auto [place, isNew] = comms_.emplace(std::move(communicator), recorded);
  return once(isNew, place->first);
}

Result<void> RecordedPlan::add(const PlannedSlotKey& key) {
  slots_[key];
  return {};
}

Result<void> RecordedPlan::addPool(const PlannedSlotKey& key, uint64_t round,
                                   std::vector<uint64_t> least) {
  return once(slots_[key].pools.emplace(round, std::move(least)).second,
              "round " + std::to_string(round));
}

Result<void> RecordedPlan::addAdvice(const PlannedSlotKey& key, uint64_t call,
                                     std::vector<uint8_t> bytes) {
  return once(slots_[key].advice.emplace(call, std::move(bytes)).second,
              "call " + std::to_string(call));
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

std::vector<uint64_t> RecordedPlan::pool(const PlannedSlotKey& key, uint64_t round) const {
  const auto slot = slots_.find(key);
  if (slot == slots_.end()) return {};
  const auto found = slot->second.pools.find(round);
  return found == slot->second.pools.end() ? std::vector<uint64_t>() : found->second;
}

std::vector<uint8_t> RecordedPlan::advice(const PlannedSlotKey& key, uint64_t call) const {
  const auto slot = slots_.find(key);
  if (slot == slots_.end()) return {};
  const auto found = slot->second.advice.find(call);
  return found == slot->second.advice.end() ? std::vector<uint8_t>() : found->second;
}

std::string RecordedPlan::fingerprint() const {
  std::string text;
  for (const auto& [name, comm] : comms_) text += commLine(name, comm);
  for (const auto& [key, slot] : slots_) {
    text += slotLine(key, "");
    for (const auto& [round, least] : slot.pools) text += poolLine(key, round, least);
    for (const auto& [call, bytes] : slot.advice) text += adviceLine(key, call, bytes);
  }
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
  return wordsOf("slot", key) + name + "\n";
}

std::string poolLine(const PlannedSlotKey& key, uint64_t round, std::span<const uint64_t> least) {
  std::string text = wordsOf("pool", key) + std::to_string(round) + " ";
  for (size_t i = 0; i < least.size(); ++i)
    text += (i == 0 ? "" : ",") + (least[i] == kNotTimed ? kNoTime : std::to_string(least[i]));
  return text + "\n";
}

std::string adviceLine(const PlannedSlotKey& key, uint64_t call, std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = wordsOf("advice", key) + std::to_string(call) + " ";
  for (const uint8_t byte : bytes) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text + "\n";
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
