// Text in aligned columns.
#pragma once

#include <string>
#include <vector>

namespace cinch {

using TextRow = std::vector<std::string>;

// Prints columns aligned to the left; the first row is the heading.
void printTable(const std::vector<TextRow>& rows);

}  // namespace cinch
