#include "tools/cinch/bench/results.h"

namespace cinch::bench {

Totals totalsOf(const std::vector<Row>& rows) {
  Totals totals;
  for (const Row& row : rows) {
    for (const Phase* phase : {&row.outOfPlace, &row.inPlace}) {
      if (phase->checked) totals.wrong += phase->checked->wrong;
      totals.busBandwidth += phase->bandwidth.bus;
    }
  }
  if (!rows.empty()) totals.busBandwidth /= 2.0 * static_cast<double>(rows.size());
  return totals;
}

}  // namespace cinch::bench
