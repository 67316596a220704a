#include "kernels/cuda/dispatch/grid.h"

#include "kernels/cuda/agent/cta.h"
#include "kernels/cuda/dispatch/kernels.h"

namespace cinch::cuda {

cudaError_t gridFor(const void* kernel, uint64_t nTiles, uint32_t nRows, dim3* grid,
                    uint32_t nPlanes) {
  if (nRows == 0 || nRows > kMaxGridRows || nTiles > kMaxRowTiles) return cudaErrorInvalidValue;
  uint64_t nResident = 0;
  if (const cudaError_t error = residentCtas(kernel, &nResident)) return error;
  const uint64_t nCtas = ctasPerRow(nTiles, uint64_t{nRows} * nPlanes, nResident);
  *grid = dim3(static_cast<uint32_t>(nCtas), nRows, nPlanes);
  return cudaSuccess;
}

}  // namespace cinch::cuda
