#include "tuner_plugin/rules.h"

#include <charconv>
#include <iterator>
#include <limits>
#include <utility>

#include "common/param_kinds.h"
#include "common/text.h"

namespace cinch::tuner {
namespace {

bool setBytes(uint64_t& field, std::string_view text) {
  const auto bytes = SizeKind{"0", "1048576T"}.parse(text);
  field = bytes.value_or(field);
  return bytes.has_value();
}

// -1, or a number from `min` to `max`.
bool setNumber(int& field, std::string_view text, int min, int max) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, field);
  return error == std::errc() && stop == end && (field == kAny || (field >= min && field <= max));
}

template <class Value>
bool setName(Value& field, const std::optional<Value>& found) {
  field = found.value_or(field);
  return found.has_value();
}

struct Column {
  const char* name;
  const char* allowed;
  bool (*set)(Rule&, std::string_view);  // false where the text is not allowed
  std::string (*format)(const Rule&);
};

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr int kMostChannels = 1024;

constexpr Column kColumns[] = {
    {"collective_type", kCollectiveNames,
     [](Rule& rule, std::string_view text) {
       return setName(rule.collective, collectiveNamed(text));
     },
     [](const Rule& rule) { return nameOf(rule.collective); }},
    {"min_bytes", "a number of bytes",
     [](Rule& rule, std::string_view text) { return setBytes(rule.minBytes, text); },
     [](const Rule& rule) { return std::to_string(rule.minBytes); }},
    {"max_bytes", "a number of bytes, not below min_bytes",
     [](Rule& rule, std::string_view text) {
       return setBytes(rule.maxBytes, text) && rule.minBytes <= rule.maxBytes;
     },
     [](const Rule& rule) { return std::to_string(rule.maxBytes); }},
    {"algorithm", kAlgorithmNames,
     [](Rule& rule, std::string_view text) {
       return setName(rule.algorithm, algorithmNamed(text));
     },
     [](const Rule& rule) { return nameOf(rule.algorithm); }},
    {"protocol", kProtocolNames,
     [](Rule& rule, std::string_view text) { return setName(rule.protocol, protocolNamed(text)); },
     [](const Rule& rule) { return nameOf(rule.protocol); }},
    {"channels", "-1 or a number from 1 to 1024",
     [](Rule& rule, std::string_view text) {
       return setNumber(rule.channels, text, 1, kMostChannels);
     },
     [](const Rule& rule) { return std::to_string(rule.channels); }},
    {"nNodes", "-1 or a number from 1",
     [](Rule& rule, std::string_view text) { return setNumber(rule.nNodes, text, 1, kMaxInt); },
     [](const Rule& rule) { return std::to_string(rule.nNodes); }},
    {"nRanks", "-1 or a number from 1",
     [](Rule& rule, std::string_view text) { return setNumber(rule.nRanks, text, 1, kMaxInt); },
     [](const Rule& rule) { return std::to_string(rule.nRanks); }},
    {"numPipeOps", "-1 or a number from 0",
     [](Rule& rule, std::string_view text) { return setNumber(rule.nPipeOps, text, 0, kMaxInt); },
     [](const Rule& rule) { return std::to_string(rule.nPipeOps); }},
    {"regBuff", "-1, 0 or 1",
     [](Rule& rule, std::string_view text) { return setNumber(rule.registered, text, 0, 1); },
     [](const Rule& rule) { return std::to_string(rule.registered); }},
};
constexpr size_t kNeeded = 8;

Error wrong(size_t line, const char* column, std::string_view text, const char* allowed) {
  constexpr size_t kShown = 40;
  return errorf(Status::invalidUsage, "line %zu, %s: '%s' should be %s", line, column,
                std::string(text.substr(0, kShown)).c_str(), allowed);
}

Result<void> checkHeading(std::string_view names, size_t line) {
  for (const Column& column : kColumns) {
    if (names.empty() && &column >= kColumns + kNeeded) return {};
    const std::string_view name = takeUntil(names, ",");
    if (name != column.name) return wrong(line, "the heading", name, column.name);
  }
  return names.empty() ? Result<void>() : wrong(line, "the heading", names, "nothing");
}

Result<Rule> parseRule(std::string_view fields, size_t line) {
  Rule rule{};
  rule.channels = rule.nNodes = rule.nRanks = rule.nPipeOps = rule.registered = kAny;
  rule.line = line;
  for (const Column& column : kColumns) {
    if (fields.empty() && &column >= kColumns + kNeeded) break;
    const std::string_view field = takeUntil(fields, ",");
    if (!column.set(rule, field)) return wrong(line, column.name, field, column.allowed);
  }
  if (!fields.empty()) return wrong(line, "behind regBuff", fields, "nothing");
  return rule;
}

}  // namespace

Result<std::vector<Rule>> parseRules(std::string_view text) {
  std::vector<Rule> rules;
  bool isFirst = true;
  for (size_t line = 1; !text.empty(); ++line) {
    std::string_view rest = takeUntil(text, "\n");
    const std::string_view content = takeUntil(rest, "#");
    if (content.empty()) continue;
    if (std::exchange(isFirst, false) && content.starts_with(kColumns[0].name)) {
      CINCH_TRY(checkHeading(content, line));
      continue;
    }
    auto rule = parseRule(content, line);
    CINCH_TRY(rule);
    if (rules.size() == kMaxRules)
      return errorf(Status::invalidUsage, "line %zu: %zu rules are the most", line, kMaxRules);
    rules.push_back(rule.value());
  }
  return rules;
}

std::string formatRule(const Rule& rule) {
  std::string text;
  for (const Column& column : kColumns) text += (text.empty() ? "" : ",") + column.format(rule);
  return text;
}

std::string ruleHeading() {
  std::string text;
  for (const Column& column : kColumns)
    text += (text.empty() ? "" : ",") + std::string(column.name);
  return text;
}

bool suits(const Rule& rule, uint64_t nRanks, uint64_t nNodes) {
  const auto allows = [](int wanted, uint64_t number) {
    return wanted == kAny || static_cast<uint64_t>(wanted) == number;
  };
  return rule.registered == kAny && allows(rule.nRanks, nRanks) && allows(rule.nNodes, nNodes);
}

}  // namespace cinch::tuner
