#include "common/text.h"

namespace cinch {

std::string_view trim(std::string_view text) {
  constexpr const char* kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string_view takeUntil(std::string_view& text, std::string_view separators) {
  const size_t end = text.find_first_of(separators);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return trim(taken);
}

}  // namespace cinch
