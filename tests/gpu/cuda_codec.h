// libcinch-codec-cuda.so behind the same functions as the host codec: buffers are host memory,
// copied to a device and back around every launch.
#pragma once

#include <string>

#include "kernels/host/host_codec.h"

namespace cinch::test {

// Loads the library. Null where there is no device; `reason` then says why.
const DeviceTable* cudaTable(std::string* reason);

// Call only where cudaTable() is not null. Every buffer is copied to device memory of the same
// alignment, between guard bytes that must survive; a broken guard or a CUDA error fails the test.
extern const host::HostCodec kCudaCodec;
// The same with launches that go together with others'.
extern const host::HostCodec kCudaBatchCodec;

}  // namespace cinch::test
