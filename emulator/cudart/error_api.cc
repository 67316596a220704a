// Errors, versions, and the marker. None of these start the runtime or set an error.

#include "emulator/cudart/api.h"

namespace cinch::cudart {
namespace {

struct ErrorText {
  const char* name;
  const char* text;
};

ErrorText textOf(cudaError_t error) {
  switch (error) {
#define CINCH_CUDA_ERROR(name, value, text) \
  case name:                                \
    return {#name, text};
#include "emulator/include/cuda_errors.def"
#undef CINCH_CUDA_ERROR
    default:
      return {"unrecognized error code", "unrecognized error code"};
  }
}

cudaError_t giveVersion(int* version) {
  if (version == nullptr) return setError(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

}  // namespace
}  // namespace cinch::cudart

using namespace cinch::cudart;

// Tells whoever looks it up that this is no GPU (kernels/device_table.h).
extern "C" [[gnu::visibility("default")]] const char cinchEmulatorMarker[] =
    "Cinch emulator: CUDA runtime 13.0 on the CPU";

cudaError_t cudaGetLastError() {
  return takeError();
}

cudaError_t cudaPeekAtLastError() {
  return peekError();
}

const char* cudaGetErrorName(cudaError_t error) {
  return textOf(error).name;
}

const char* cudaGetErrorString(cudaError_t error) {
  return textOf(error).text;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return giveVersion(version);
}

cudaError_t cudaDriverGetVersion(int* version) {
  return giveVersion(version);
}
