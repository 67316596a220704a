// The parts of a SumLaunch in the order of their addition.
#pragma once

#include "kernels/device_table.h"

namespace cinch::core {

// Part `position`, below nParts.
CINCH_HD inline const void* partAt(const SumLaunch& launch, uint32_t position) {
  if (position == launch.ownPosition) return launch.own;
  const uint64_t index = position < launch.ownPosition ? position : position - 1;
  return static_cast<const uint8_t*>(launch.others) + index * launch.strideBytes;
}

}  // namespace cinch::core
