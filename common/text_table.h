// Tables for people: columns of bounded lines, names to the left and figures to the right.
#pragma once

#include <string>
#include <vector>

namespace cinch {

using TableRow = std::vector<std::string>;

// Rows of equal length, the first of them the heading; a line each.
std::string formatTable(const std::vector<TableRow>& rows);

// Four significant digits.
std::string shortNumber(double value);

// Without the control characters that would break a table.
std::string oneLine(std::string text);

}  // namespace cinch
