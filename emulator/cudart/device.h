// Which devices there are, and which of them the calling thread uses. Thread-safe.
//
// All share the machine's memory and its cores: a device is a number that allocations and streams
// remember. The null stream is one for all of them, and so a process should use one device.
#pragma once

namespace cinch::cudart {

// CINCH_EMULATOR_DEVICES, as it was when the process first asked.
int deviceCount();
bool deviceExists(int device);

// The device that this thread chose; 0 until it chooses.
int currentDevice();

// The same, for calls for which CUDA makes the device ready: from then on it is active, and its
// context is this thread's.
int useDevice();

// Makes an existing device this thread's and active, as cudaSetDevice does.
void chooseDevice(int device);

bool deviceIsActive(int device);
void activateDevice(int device);
void deactivateDevices();  // all of them: a reset ends what the process has on any

// The device whose context is this thread's; -1: none.
int boundDevice();
// Takes the context from this thread, until it uses a device again.
void unbindDevice();

// Notes that `device` may use the memory of `peer`. False where it was noted before.
bool allowPeer(int device, int peer);

}  // namespace cinch::cudart
