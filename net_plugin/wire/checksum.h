// CRC32C (Castagnoli; RFC 3720, appendix B.4), in hardware where the CPU has it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cinch::net {

// Of `nBytes` at `data`, continuing from `before` (the checksum of what came in front; 0: nothing).
uint32_t crc32c(const void* data, size_t nBytes, uint32_t before = 0);

// The same by tables alone, for CPUs without the instruction.
uint32_t crc32cByTables(const void* data, size_t nBytes, uint32_t before = 0);

}  // namespace cinch::net
