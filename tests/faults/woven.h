// Included by every file of the faulty build before its first line (tests/faults/run): which fault
// is switched on.
//
// A plain number that is read once, so that faults in inner loops cost next to nothing. It stands
// in headers whose functions also run while the compiler runs, when nothing is switched on.
#pragma once

#ifdef __cplusplus
#include <cstdlib>
#include <type_traits>

inline int faultsNumber() {
  static const int number = std::getenv("FAULT") ? std::atoi(std::getenv("FAULT")) : 0;
  return number;
}

#define FAULT_IS_ON(number) (!std::is_constant_evaluated() && faultsNumber() == (number))
#endif
