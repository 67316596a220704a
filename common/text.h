// Taking apart what people write: files and variables. Blanks around a part do not count.
#pragma once

#include <string_view>

namespace cinch {

std::string_view trim(std::string_view text);

// Removes what stands before the first of the characters `separators`, and that character, or all;
// returns it without blanks around it.
std::string_view takeUntil(std::string_view& text, std::string_view separators);

}  // namespace cinch
