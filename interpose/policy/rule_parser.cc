// The two written forms of rules. Both set a rule's fields through one table of columns.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "common/codec_names.h"
#include "common/param_kinds.h"
#include "common/text.h"
#include "interpose/policy/rules.h"

namespace cinch {
namespace {

// --- Values.

// The names of values, and the values, in the same order.
constexpr const char* kOperations = "AllReduce|ReduceScatter|AllGather";
constexpr CallKind kKinds[] = {CallKind::allReduce, CallKind::reduceScatter, CallKind::allGather};
constexpr const char* kTypeNames = "fp32|fp16|bf16";
constexpr ncclDataType_t kRuleTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
constexpr const char* kOpNames = "Sum|Avg|PreMulSum";
constexpr OpClass kOps[] = {OpClass::sum, OpClass::avg, OpClass::preMulSum};

template <class Value, size_t N>
bool setChoice(std::optional<Value>& field, const Value (&values)[N], const char* names,
               std::string_view text) {
  const std::optional<int> index = parseChoice(text, names);
  if (index) field = values[*index];
  return index.has_value();
}

bool setSize(uint64_t& field, std::string_view text) {
  const auto bytes = SizeKind{"0", "1048576T"}.parse(text);
  field = bytes.value_or(field);
  return bytes.has_value();
}

// "8", "2..8", "2.." or "..8".
bool setRange(Range& range, std::string_view text) {
  const auto numberFrom = [](std::string_view digits, uint64_t& number) {
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, number);
    return digits.empty() || (error == std::errc() && stop == end);
  };
  const size_t dots = text.find("..");
  const bool isOne = dots == std::string_view::npos;
  const std::string_view from = text.substr(0, dots), to = isOne ? text : text.substr(dots + 2);
  const bool isSome = !from.empty() || !to.empty();
  return isSome && numberFrom(from, range.min) && numberFrom(to, range.max) &&
         range.min <= range.max;
}

bool setAction(Rule& rule, std::string_view word) {
  if (word == "pass") return rule.passes = true;
  if (word == "compress") return rule.isWanted = true;
  if (word == "gradient") return rule.isGradient = true;
  const codec::CodecInfo* found = codec::findCodec(word);
  if (const char* const successor = found == nullptr ? successorOfCodec(word) : nullptr) {
    rule.retiredCodec = word;
    found = codec::findCodec(std::string_view(successor));
  }
  if (found == nullptr || !codec::isForCalls(*found) || rule.codec != nullptr) return false;
  rule.codec = found;
  return true;
}

bool setActions(Rule& rule, std::string_view words) {
  if (words.empty()) return false;
  while (!words.empty())
    if (!setAction(rule, takeUntil(words, " \t"))) return false;
  return !rule.passes || (!rule.isWanted && !rule.isGradient && rule.codec == nullptr);
}

// --- Columns.

struct Column {
  const char* name;
  const char* allowed;
  bool (*set)(Rule&, std::string_view);  // false where the text is not allowed
};

constexpr Column kColumns[] = {
    {"action", "pass, or of compress, gradient and the name of a codec (q8) one or more",
     setActions},
    {"operation", "AllReduce, ReduceScatter or AllGather",
     [](Rule& rule, std::string_view text) {
       return setChoice(rule.kind, kKinds, kOperations, text);
     }},
    {"dtype", "fp32, fp16 or bf16",
     [](Rule& rule, std::string_view text) {
       return setChoice(rule.dataType, kRuleTypes, kTypeNames, text);
     }},
    {"op", "Sum, Avg or PreMulSum",
     [](Rule& rule, std::string_view text) { return setChoice(rule.op, kOps, kOpNames, text); }},
    {"min_bytes", "a number of bytes (K, M, G), not above max_bytes",
     [](Rule& rule, std::string_view text) {
       return setSize(rule.bytes.min, text) && rule.bytes.min <= rule.bytes.max;
     }},
    {"max_bytes", "a number of bytes (K, M, G), not below min_bytes",
     [](Rule& rule, std::string_view text) {
       return setSize(rule.bytes.max, text) && rule.bytes.min <= rule.bytes.max;
     }},
    {"ranks", "a number, or a range: 2..8, 2.. or ..8",
     [](Rule& rule, std::string_view text) { return setRange(rule.ranks, text); }},
    {"ordinal", "a number, or a range: 0..99, 100.. or ..99",
     [](Rule& rule, std::string_view text) { return setRange(rule.ordinal, text); }},
};
constexpr const Column& kAction = kColumns[0];
constexpr const char* kColumnNames =
    "action, operation, dtype, op, min_bytes, max_bytes, ranks or ordinal";

const Column* findColumn(std::string_view name) {
  const auto found = std::find_if(std::begin(kColumns), std::end(kColumns),
                                  [&](const Column& column) { return name == column.name; });
  return found == std::end(kColumns) ? nullptr : found;
}

Error wrong(const std::string& where, std::string_view text, const std::string& allowed) {
  constexpr size_t kShown = 40;
  return errorf(Status::invalidUsage, "%s: '%s' should be %s", where.c_str(),
                std::string(text.substr(0, kShown)).c_str(), allowed.c_str());
}

Result<void> setField(Rule& rule, const Column& column, std::string_view text,
                      const std::string& where) {
  if (column.set(rule, text)) return {};
  return wrong(where + ", " + column.name, text, column.allowed);
}

// --- One line: "compress q4 operation=AllReduce min_bytes=1M".

Result<void> setCondition(Rule& rule, std::string_view word, const std::string& where) {
  std::string_view value = word;
  const std::string_view name = takeUntil(value, "=");
  const Column* const column = findColumn(name);
  if (column == nullptr || column == &kAction)
    return wrong(where, name,
                 "the name of a condition: operation, dtype, op, min_bytes, "
                 "max_bytes, ranks or ordinal");
  return setField(rule, *column, value, where);
}

Result<Rule> parseRule(std::string_view text, const std::string& where) {
  Rule rule;
  const size_t equals = std::min(text.find('='), text.size());
  const size_t blank = text.substr(0, equals).find_last_of(" \t");
  const size_t end = equals == text.size() ? equals : blank == std::string_view::npos ? 0 : blank;
  CINCH_TRY(setField(rule, kAction, trim(text.substr(0, end)), where));
  text.remove_prefix(end);
  for (text = trim(text); !text.empty(); text = trim(text))
    CINCH_TRY(setCondition(rule, takeUntil(text, " \t"), where));
  return rule;
}

// --- A file.

class FileParser {
 public:
  Result<void> addLine(std::string_view line) {
    ++lineNumber_;
    const std::string_view content = takeUntil(line, "#");
    if (content.empty()) return {};
    return columns_.empty() ? readHeading(content) : addRule(content);
  }

  Result<std::vector<Rule>> finish() {
    if (columns_.empty())
      return errorf(Status::invalidUsage, "no heading: the first line names the columns, %s",
                    kColumnNames);
    return std::move(rules_);
  }

 private:
  std::string where() const { return "line " + std::to_string(lineNumber_); }

  Result<void> readHeading(std::string_view names) {
    do {
      const std::string_view name = takeUntil(names, ",");
      const Column* const column = findColumn(name);
      if (column == nullptr || std::count(columns_.begin(), columns_.end(), column) > 0)
        return wrong(where(), name, std::string("a column, once: ") + kColumnNames);
      columns_.push_back(column);
    } while (!names.empty());
    if (std::count(columns_.begin(), columns_.end(), &kAction) == 0)
      return errorf(Status::invalidUsage, "%s: no column is called action", where().c_str());
    return {};
  }

  Result<void> addRule(std::string_view fields) {
    Rule rule;
    for (const Column* column : columns_) {
      const std::string_view field = takeUntil(fields, ",");
      if (!field.empty() || column == &kAction) CINCH_TRY(setField(rule, *column, field, where()));
    }
    if (!fields.empty()) return wrong(where(), fields, "nothing: the heading has fewer columns");
    rules_.push_back(rule);
    return {};
  }

  size_t lineNumber_ = 0;
  std::vector<const Column*> columns_;
  std::vector<Rule> rules_;
};

Result<Rules> limited(std::vector<Rule> rules) {
  if (rules.size() > Rules::kMaxRules)
    return errorf(Status::invalidUsage, "%zu rules: %zu are the most", rules.size(),
                  Rules::kMaxRules);
  return Rules(std::move(rules));
}

// --- And back.

template <class Value, size_t N>
std::string conditionText(const char* column, const std::optional<Value>& field,
                          const Value (&values)[N], const char* names) {
  const auto found = std::find(std::begin(values), std::end(values), field);
  if (found == std::end(values)) return "";
  return std::string(" ") + column + "=" +
         formatChoice(static_cast<int>(found - std::begin(values)), names);
}

std::string rangeText(const char* column, const Range& range) {
  if (range == Range{}) return "";
  return std::string(" ") + column + "=" + std::to_string(range.min) + ".." +
         std::to_string(range.max);
}

std::string actionsText(const Rule& rule) {
  std::string text = rule.passes ? " pass" : "";
  if (rule.isWanted) text += " compress";
  if (rule.isGradient) text += " gradient";
  if (rule.codec != nullptr) text += std::string(" ") + rule.codec->name;
  return text.substr(1);
}

}  // namespace

Result<Rules> parseRules(std::string_view text) {
  std::vector<Rule> rules;
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view one = takeUntil(text, ";");
    if (one.empty()) continue;
    auto rule = parseRule(one, "rule " + std::to_string(number));
    CINCH_TRY(rule);
    rules.push_back(rule.value());
  }
  return limited(std::move(rules));
}

Result<Rules> parseRuleFile(std::string_view text) {
  FileParser parser;
  while (!text.empty()) CINCH_TRY(parser.addLine(takeUntil(text, "\n")));
  auto rules = parser.finish();
  CINCH_TRY(rules);
  return limited(std::move(rules.value()));
}

std::string describe(const Rule& rule) {
  constexpr Range kAll;
  std::string text = actionsText(rule) +
                     conditionText("operation", rule.kind, kKinds, kOperations) +
                     conditionText("dtype", rule.dataType, kRuleTypes, kTypeNames) +
                     conditionText("op", rule.op, kOps, kOpNames);
  if (rule.bytes.min != kAll.min) text += " min_bytes=" + std::to_string(rule.bytes.min);
  if (rule.bytes.max != kAll.max) text += " max_bytes=" + std::to_string(rule.bytes.max);
  return text + rangeText("ranks", rule.ranks) + rangeText("ordinal", rule.ordinal);
}

}  // namespace cinch
