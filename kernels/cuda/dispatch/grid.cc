#include "kernels/cuda/dispatch/grid.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/tuning/codec_tuning.h"

namespace cinch::cuda {
namespace {

// CTAs that a grid may have on the current device.
cudaError_t residentCtas(uint64_t* nCtas) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  int nSms = 0, major = 0, minor = 0;
  for (const auto& [attribute, value] : {std::pair{cudaDevAttrMultiProcessorCount, &nSms},
                                         std::pair{cudaDevAttrComputeCapabilityMajor, &major},
                                         std::pair{cudaDevAttrComputeCapabilityMinor, &minor}})
    if (const cudaError_t error = cudaDeviceGetAttribute(value, attribute, device)) return error;
  *nCtas = gridLimit(codecTuning(static_cast<uint32_t>(10 * major + minor)),
                     static_cast<uint64_t>(nSms));
  return cudaSuccess;
}

uint64_t ceilDivide(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

cudaError_t gridFor(uint64_t nTiles, uint32_t nRows, dim3* grid, uint32_t nPlanes) {
  if (nRows == 0 || nRows > kMaxGridRows || nTiles > kMaxRowTiles) return cudaErrorInvalidValue;
  uint64_t resident = 0;
  if (const cudaError_t error = residentCtas(&resident)) return error;
  const uint64_t wanted = ceilDivide(nTiles, kTilesPerCta);
  const uint64_t fits = ceilDivide(resident, uint64_t{nRows} * nPlanes);
  *grid = dim3(static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 1, fits)), nRows, nPlanes);
  return cudaSuccess;
}

}  // namespace cinch::cuda
