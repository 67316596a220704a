// cudaIpc*. Device memory is the process's own heap, which no other process can map.

#include "emulator/cudart/api.h"

using namespace cinch::cudart;

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
  return notSupported();
}

cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned int) {
  return notSupported();
}

cudaError_t cudaIpcCloseMemHandle(void*) {
  return notSupported();
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  return notSupported();
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  return notSupported();
}
