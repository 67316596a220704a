#include "kernels/host/sum.h"

#include "kernels/core/sum_parts.h"
#include "kernels/host/tile_elements.h"

namespace cinch::host {

void sumParts(const SumLaunch& launch) {
  for (uint64_t first = 0; first < launch.count; first += kTileElems) {
    const auto nValues =
        static_cast<uint32_t>(std::min<uint64_t>(kTileElems, launch.count - first));
    const auto load = [&](uint32_t position, TileValues& to) {
      const auto* part = static_cast<const uint8_t*>(core::partAt(launch, position));
      loadElements(launch.type, part + first * elementBytes(launch.type), nValues, to.at);
    };
    TileValues sum, part;
    load(0, sum);
    for (uint32_t position = 1; position < launch.nParts; ++position) {
      load(position, part);
      addTiles(sum.at, part.at, sum.at);
    }
    storeElements(ElementType::fp32, sum.at, nValues, launch.sum + first);
  }
}

}  // namespace cinch::host
