// What a test says of the machine that is emulated.
#pragma once

namespace cinch::emulator {

enum class Links { unknown, pcie, nvlink };

// CINCH_EMULATOR_LINKS: how the devices of this host are joined. Where it is set, each process has
// a device of its own on the bus.
Links links();

}  // namespace cinch::emulator
