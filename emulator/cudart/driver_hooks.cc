#include "emulator/cudart/driver_hooks.h"

#include "emulator/cudart/device.h"
#include "emulator/cudart/memory.h"

using namespace cinch::cudart;

int cinchEmulatorDeviceCount() {
  return deviceCount();
}

int cinchEmulatorDeviceIsActive(int device) {
  return deviceIsActive(device);
}

int cinchEmulatorBoundDevice() {
  return boundDevice();
}

void cinchEmulatorBindDevice(int device) {
  if (device < 0)
    unbindDevice();
  else
    chooseDevice(device);
}

void cinchEmulatorActivateDevice(int device) {
  activateDevice(device);
}

int cinchEmulatorFindAllocation(const void* pointer, CinchEmulatorAllocation* allocation) {
  const auto found = Memory::instance().find(pointer);
  if (!found) return false;
  *allocation = {found->base, found->nBytes, found->traits.type, found->traits.device};
  return true;
}
