#include "common/text_table.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace cinch {
namespace {

void appendRow(std::string& text, const TableRow& row, const std::vector<size_t>& widths) {
  text += "  ";
  for (size_t column = 0; column < row.size(); ++column) {
    const std::string padding(widths[column] - row[column].size(), ' ');
    text += column == 0 ? row[column] + padding : "  " + padding + row[column];
  }
  text += '\n';
}

}  // namespace

std::string formatTable(const std::vector<TableRow>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const TableRow& row : rows) {
    for (size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::string text;
  for (const TableRow& row : rows) appendRow(text, row, widths);
  return text;
}

std::string shortNumber(double value) {
  std::array<char, 32> text;
  snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::string oneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text;
}

}  // namespace cinch
