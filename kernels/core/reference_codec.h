// Encode, reduce, decode and sum as plainly as they can be written, value by value: the oracle for
// the host and the CUDA backend. Synchronous; every pointer is host memory.
#pragma once

#include "kernels/device_table.h"

namespace cinch::reference {

void encodeShards(const EncodeLaunch& launch);
void reduceShard(const ReduceLaunch& launch);
void decodeShards(const DecodeLaunch& launch);
void sumParts(const SumLaunch& launch);

}  // namespace cinch::reference
