// What a test says of the machine that is emulated.
#pragma once

namespace cinch::emulator {

enum class Links { unknown, pcie, nvlink };

// CINCH_EMULATOR_LINKS: how the devices of this host are joined. Where it is set, each process has
// a device of its own on the bus.
Links links();

inline constexpr int kMaxDevices = 64;

// CINCH_EMULATOR_DEVICES: how many devices each process sees, 1 to kMaxDevices. Where it is not
// such a number, as many as the launcher started ranks on this host (LOCAL_WORLD_SIZE), else 1.
int devices();

// CINCH_EMULATOR_CAPABILITY: the compute capability that the devices claim, as 10 times major plus
// minor: 70 for "7.0". 90 where it is not such a number.
int capability();

// CUDA_MODULE_LOADING: whether kernels are loaded at their first use, as CUDA does where this is
// not EAGER.
bool loadsLazily();

}  // namespace cinch::emulator
