// What devices may do with each other's memory: everything, since it is the same memory. Programs
// have to ask nevertheless, and the answers are CUDA's.

#include "emulator/cudart/api.h"
#include "emulator/cudart/device.h"

using namespace cinch::cudart;

cudaError_t cudaDeviceCanAccessPeer(int* canAccess, int device, int peer) {
  return api([&] {
    if (canAccess == nullptr) return cudaErrorInvalidValue;
    if (!deviceExists(device) || !deviceExists(peer)) return cudaErrorInvalidDevice;
    *canAccess = device != peer;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return api([&] {
    if (flags != 0) return cudaErrorInvalidValue;
    const int device = useDevice();
    if (!deviceExists(peer) || peer == device) return cudaErrorInvalidDevice;
    return allowPeer(device, peer) ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}
