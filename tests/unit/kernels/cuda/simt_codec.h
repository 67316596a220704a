// The kernels' agents on the CPU, behind the same functions as the host codec.
#pragma once

#include "kernels/host/host_codec.h"

namespace cinch::test {

// Encoded buffers must be aligned to 16 bytes, as on a device.
extern const host::HostCodec kSimtCodec;
// The same with launches that go together with others'.
extern const host::HostCodec kSimtBatchCodec;

}  // namespace cinch::test
