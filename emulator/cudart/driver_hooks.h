// What the emulated driver (emulator/driver) asks the emulated runtime beyond CUDA's own functions,
// since both have the same contexts and the same memory. None of these sets the runtime's last
// error, and all may be called from anywhere.
#pragma once

#include "emulator/include/cuda_runtime_api.h"

#pragma GCC visibility push(default)
extern "C" {

int cinchEmulatorDeviceCount();
// Whether the process has used the device, so that it has its primary context.
int cinchEmulatorDeviceIsActive(int device);
// The device whose context is the calling thread's; -1: none.
int cinchEmulatorBoundDevice();
// Makes the context of a device that exists the calling thread's; -1: takes it away.
void cinchEmulatorBindDevice(int device);
// Makes a device that exists active; the calling thread's context stays.
void cinchEmulatorActivateDevice(int device);

struct CinchEmulatorAllocation {
  void* base;
  size_t nBytes;
  enum cudaMemoryType type;
  int device;
};
// The allocation that `pointer` lies in. False where it lies in none.
int cinchEmulatorFindAllocation(const void* pointer, CinchEmulatorAllocation* allocation);

}  // extern "C"
#pragma GCC visibility pop
