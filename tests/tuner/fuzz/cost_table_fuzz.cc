// libFuzzer target: any bytes as a cost table. What is taken is within its bounds, and is the same
// when it is written and read again.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "common/cost_table.h"

namespace {

// The fuzzer keeps the input of a process that aborts.
void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cinch;
  const auto table = parseCostTable({reinterpret_cast<const char*>(data), size});
  if (!table.ok()) return 0;
  require(table.value().nNodes >= 1 && table.value().nNodes <= table.value().nRanks, "a shape");
  require(table.value().rows.size() <= kMaxCostRows, "rows are bounded");
  for (const CostRow& row : table.value().rows)
    require(std::isfinite(row.microseconds) && row.microseconds >= 0, "a cost is a time");
  const auto again = parseCostTable(formatCostTable(table.value()));
  require(again.ok() && again.value().rows == table.value().rows, "a table is read again");
  return 0;
}
