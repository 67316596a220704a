#include "common/param_kinds.h"

#include <array>
#include <cctype>
#include <charconv>
#include <limits>

namespace cinch {
namespace {

constexpr std::string_view kSuffixes = "KMGT";
constexpr std::array kYes = {"y", "yes", "1", "true", "on"};
constexpr std::array kNo = {"n", "no", "0", "false", "off"};

char upper(char c) {
  return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
}

bool sameWord(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (upper(a[i]) != upper(b[i])) return false;
  }
  return true;
}

template <size_t N>
bool isOneOf(std::string_view text, const std::array<const char*, N>& words) {
  for (const char* word : words) {
    if (sameWord(text, word)) return true;
  }
  return false;
}

// The whole of `text` as a number; unlike strtol, blind to the locale and to trailing rubbish.
template <class Number>
std::optional<Number> parseNumber(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::optional<uint64_t> parseBytes(std::string_view text) {
  unsigned shift = 0;
  if (!text.empty()) {
    const size_t suffix = kSuffixes.find(upper(text.back()));
    if (suffix != std::string_view::npos) {
      shift = 10 * (static_cast<unsigned>(suffix) + 1);
      text.remove_suffix(1);
    }
  }
  const std::optional<uint64_t> number = parseNumber<uint64_t>(text);
  if (!number || *number > std::numeric_limits<uint64_t>::max() >> shift) return std::nullopt;
  return *number << shift;
}

}  // namespace

std::optional<int> parseChoice(std::string_view text, std::string_view choices) {
  for (int index = 0;; ++index) {
    const size_t bar = choices.find('|');
    if (sameWord(text, choices.substr(0, bar))) return index;
    if (bar == std::string_view::npos) return std::nullopt;
    choices.remove_prefix(bar + 1);
  }
}

std::string formatChoice(int index, std::string_view choices) {
  for (; index > 0; --index) choices.remove_prefix(choices.find('|') + 1);
  return std::string(choices.substr(0, choices.find('|')));
}

std::optional<uint64_t> SizeKind::parse(std::string_view text) const {
  const std::optional<uint64_t> bytes = parseBytes(text);
  if (!bytes || *bytes < *parseBytes(min) || *bytes > *parseBytes(max)) return std::nullopt;
  return bytes;
}

std::string SizeKind::format(uint64_t value) const {
  size_t nSuffixes = 0;
  while (value != 0 && value % 1024 == 0 && nSuffixes < kSuffixes.size()) {
    value /= 1024;
    ++nSuffixes;
  }
  std::string text = std::to_string(value);
  if (nSuffixes > 0) text += kSuffixes[nSuffixes - 1];
  return text;
}

std::string SizeKind::range() const {
  return std::string(min) + ".." + max;
}

std::optional<int64_t> IntKind::parse(std::string_view text) const {
  const std::optional<int64_t> number = parseNumber<int64_t>(text);
  if (!number || *number < min || *number > max) return std::nullopt;
  return number;
}

std::string IntKind::format(int64_t value) const {
  return std::to_string(value);
}

std::string IntKind::range() const {
  return std::to_string(min) + ".." + std::to_string(max) + " " + unit;
}

std::optional<bool> BoolKind::parse(std::string_view text) const {
  if (isOneOf(text, kYes)) return true;
  if (isOneOf(text, kNo)) return false;
  return std::nullopt;
}

std::string BoolKind::format(bool value) const {
  return value ? "y" : "n";
}

std::string BoolKind::range() const {
  return "y|n";
}

std::optional<float> parseGainNumber(std::string_view text) {
  const std::optional<float> gain = parseNumber<float>(text);
  return gain && *gain > 0 && *gain <= 1 ? gain : std::nullopt;  // a NaN fails both comparisons
}

std::optional<std::string> GainKind::parse(std::string_view text) const {
  for (const char* word : {"off", "auto"}) {
    if (sameWord(text, word)) return word;
  }
  const std::optional<float> gain = parseGainNumber(text);
  if (!gain) return std::nullopt;
  std::array<char, 32> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), *gain);
  return std::string(digits.data(), result.ptr);
}

std::string GainKind::format(const std::string& value) const {
  return value;
}

std::string GainKind::range() const {
  return "off|auto|a number in (0, 1]";
}

std::optional<std::string> TextKind::parse(std::string_view text) const {
  return std::string(text);
}

std::string TextKind::format(const std::string& value) const {
  return value;
}

std::string TextKind::range() const {
  return "";
}

}  // namespace cinch
