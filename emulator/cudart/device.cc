#include "emulator/cudart/device.h"

#include <array>
#include <atomic>
#include <cstdint>

#include "emulator/environment.h"

namespace cinch::cudart {
namespace {

thread_local int chosen = 0;
thread_local bool bound = false;

std::atomic<uint64_t> active{0};  // a bit for each device
std::array<std::atomic<uint64_t>, emulator::kMaxDevices> peers{};

constexpr uint64_t bitOf(int device) {
  return uint64_t{1} << device;
}

}  // namespace

int deviceCount() {
  static const int count = emulator::devices();
  return count;
}

bool deviceExists(int device) {
  return device >= 0 && device < deviceCount();
}

int currentDevice() {
  return chosen;
}

int useDevice() {
  bound = true;
  activateDevice(chosen);
  return chosen;
}

void chooseDevice(int device) {
  chosen = device;
  useDevice();
}

bool deviceIsActive(int device) {
  return active.load(std::memory_order_relaxed) & bitOf(device);
}

void activateDevice(int device) {
  // Most calls find the bit set, and then do not make the other threads read the word anew.
  if (!deviceIsActive(device)) active.fetch_or(bitOf(device), std::memory_order_relaxed);
}

void deactivateDevices() {
  active.store(0, std::memory_order_relaxed);
  for (auto& allowed : peers) allowed.store(0, std::memory_order_relaxed);
}

int boundDevice() {
  return bound && deviceIsActive(chosen) ? chosen : -1;
}

void unbindDevice() {
  bound = false;
}

bool allowPeer(int device, int peer) {
  const uint64_t before =
      peers[static_cast<size_t>(device)].fetch_or(bitOf(peer), std::memory_order_relaxed);
  return !(before & bitOf(peer));
}

}  // namespace cinch::cudart
