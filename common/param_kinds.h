// The kinds of value that a parameter can have: how each is read from text, checked against its
// range, and written back in one normalised form. Pure; for parameters, and files of the same kind.
//
// Every kind has: Value; parse(text), nothing where the text is not a value in range;
// format(value), which parse() reads back to the same value; range(), for people; and kName.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cinch {

// The position of `text` (in any case) among `choices` ("off|observe|on"), and its reverse.
std::optional<int> parseChoice(std::string_view text, std::string_view choices);
std::string formatChoice(int index, std::string_view choices);

template <class Enum>
struct ChoiceKind {
  using Value = Enum;
  static constexpr const char* kName = "choice";
  const char* choices;

  std::optional<Enum> parse(std::string_view text) const {
    const std::optional<int> index = parseChoice(text, choices);
    return index ? std::optional<Enum>(static_cast<Enum>(*index)) : std::nullopt;
  }
  std::string format(Enum value) const { return formatChoice(static_cast<int>(value), choices); }
  std::string range() const { return choices; }
};

// The name of a codec or another word among `choices`; kept as text, since common/ knows no codec.
// What has a successor (codec_names.h) is no value.
struct NameKind {
  using Value = std::string;
  static constexpr const char* kName = "name";
  const char* choices;

  std::optional<std::string> parse(std::string_view text) const {
    const std::optional<int> index = parseChoice(text, choices);
    return index ? std::optional(formatChoice(*index, choices)) : std::nullopt;
  }
  std::string format(const std::string& value) const { return value; }
  std::string range() const { return choices; }
};

// Bytes: a whole number with K, M, G or T for powers of 1024.
struct SizeKind {
  using Value = uint64_t;
  static constexpr const char* kName = "size";
  const char* min;
  const char* max;

  std::optional<uint64_t> parse(std::string_view text) const;
  std::string format(uint64_t value) const;
  std::string range() const;
};

struct IntKind {
  using Value = int64_t;
  static constexpr const char* kName = "int";
  int64_t min;
  int64_t max;
  const char* unit;

  std::optional<int64_t> parse(std::string_view text) const;
  std::string format(int64_t value) const;
  std::string range() const;
};

struct BoolKind {
  using Value = bool;
  static constexpr const char* kName = "bool";

  std::optional<bool> parse(std::string_view text) const;
  std::string format(bool value) const;
  std::string range() const;
};

// "off", "auto" or a number in (0, 1]; kept as text, whose number is in shortest form.
struct GainKind {
  using Value = std::string;
  static constexpr const char* kName = "gain";

  std::optional<std::string> parse(std::string_view text) const;
  std::string format(const std::string& value) const;
  std::string range() const;
};

// A number in (0, 1], or nothing.
std::optional<float> parseGainNumber(std::string_view text);

struct TextKind {
  using Value = std::string;
  static constexpr const char* kName = "text";

  std::optional<std::string> parse(std::string_view text) const;
  std::string format(const std::string& value) const;
  std::string range() const;
};

}  // namespace cinch
