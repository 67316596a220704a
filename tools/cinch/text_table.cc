#include "tools/cinch/text_table.h"

#include <fmt/core.h>

#include <algorithm>

namespace cinch {

void printTable(const std::vector<TextRow>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const TextRow& row : rows) {
    for (size_t column = 0; column + 1 < row.size(); ++column) {  // the last one ends the line
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  for (const TextRow& row : rows) {
    for (size_t column = 0; column + 1 < row.size(); ++column) {
      fmt::print("{:<{}}  ", row[column], widths[column]);
    }
    fmt::print("{}\n", row.back());
  }
}

}  // namespace cinch
