#include "tools/cinch/quantity.h"

#include <fmt/core.h>

#include <cctype>
#include <charconv>
#include <cmath>

namespace cinch {
namespace {

struct Quantity {
  double value;
  std::string unit;  // in lower case
};

std::optional<Quantity> split(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  std::string unit(end, static_cast<size_t>(text.data() + text.size() - end));
  for (char& letter : unit) letter = static_cast<char>(std::tolower(letter));
  return Quantity{value, unit};
}

std::optional<double> parseRate(std::string_view text, std::string_view suffix) {
  const auto quantity = split(text);
  if (!quantity || quantity->value == 0) return std::nullopt;
  std::string_view unit = quantity->unit;
  if (unit.ends_with(suffix)) unit.remove_suffix(suffix.size());
  constexpr std::string_view kPrefixes = "kmgt";
  if (unit.empty()) return quantity->value;
  const size_t power = unit.size() == 1 ? kPrefixes.find(unit[0]) : std::string_view::npos;
  if (power == std::string_view::npos) return std::nullopt;
  return quantity->value * std::pow(1000.0, static_cast<double>(power + 1));
}

}  // namespace

std::optional<double> parseBitRate(std::string_view text) {
  return parseRate(text, "bit");
}

std::optional<double> parseByteRate(std::string_view text) {
  return parseRate(text, "b");
}

std::optional<double> parseTime(std::string_view text) {
  const auto quantity = split(text);
  if (!quantity) return std::nullopt;
  constexpr std::pair<const char*, double> kUnits[] = {
      {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  for (const auto& [name, seconds] : kUnits)
    if (quantity->unit == name) return quantity->value * seconds;
  return quantity->unit.empty() && quantity->value == 0 ? std::optional(0.0) : std::nullopt;
}

std::string sizeText(double nBytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; nBytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) nBytes /= 1024;
  return fmt::format("{:.4g} {}", nBytes, kUnits[unit]);
}

std::string bitRateText(double bytesPerSecond) {
  constexpr const char* kUnits[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
  double bits = 8 * bytesPerSecond;
  size_t unit = 0;
  for (; bits >= 1000 && unit + 1 < std::size(kUnits); ++unit) bits /= 1000;
  return fmt::format("{:.4g} {}", bits, kUnits[unit]);
}

}  // namespace cinch
