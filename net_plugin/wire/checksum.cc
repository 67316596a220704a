#include "net_plugin/wire/checksum.h"

#include <array>
#include <cstring>

#include "common/byte_order.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#define CINCH_CRC_TARGET [[gnu::target("sse4.2")]]
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define CINCH_CRC_TARGET [[gnu::target("+crc")]]
#endif

namespace cinch::net {
namespace {

// Polynomials over two elements, of degree below 32: bit 31 is the coefficient of x^0.
constexpr uint32_t kModulus = 0x82f63b78;  // without x^32
constexpr uint32_t kOne = 1u << 31;

constexpr uint32_t timesX(uint32_t a) {
  return (a >> 1) ^ ((a & 1) != 0 ? kModulus : 0);
}

constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1, b = timesX(b))
    if ((a & bit) != 0) product ^= b;
  return product;
}

constexpr uint32_t powerOfX(size_t exponent) {
  uint32_t power = kOne;
  for (uint32_t square = timesX(kOne); exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

// What a number of zero bytes makes of the register. That is linear, hence the sum of what becomes
// of each of its four bytes.
class ZeroBytes {
 public:
  constexpr explicit ZeroBytes(size_t nBytes) {
    const uint32_t factor = powerOfX(8 * nBytes);
    for (uint32_t place = 0; place < 4; ++place)
      for (uint32_t byte = 0; byte < 256; ++byte)
        table_[place][byte] = multiply(byte << (8 * place), factor);
  }
  uint32_t after(uint32_t value) const {
    return table_[0][value & 255] ^ table_[1][value >> 8 & 255] ^ table_[2][value >> 16 & 255] ^
           table_[3][value >> 24];
  }

 private:
  std::array<std::array<uint32_t, 256>, 4> table_{};
};

constexpr ZeroBytes kOneByte(1);
constexpr ZeroBytes kFourBytes(4);
constexpr ZeroBytes kEightBytes(8);

using Advance = uint32_t (*)(uint32_t value, const uint8_t* at, size_t nBytes);

// Bytes that come in are added to the register, which then moves on as over zeros.
uint32_t advanceByTables(uint32_t value, const uint8_t* at, size_t nBytes) {
  for (; nBytes >= 8; nBytes -= 8, at += 8)
    value = kEightBytes.after(value ^ loadLittle<uint32_t>(at)) ^
            kFourBytes.after(loadLittle<uint32_t>(at + 4));
  for (; nBytes > 0; --nBytes, ++at) value = kOneByte.after(value ^ *at);
  return value;
}

#ifdef CINCH_CRC_TARGET

// The instruction takes three cycles, and one can begin in each: three lanes side by side keep it
// busy. Longer lanes leave more behind for one at a time, shorter ones are joined more often.
constexpr size_t kLaneBytes = 1024;
constexpr ZeroBytes kLane(kLaneBytes);

CINCH_CRC_TARGET inline uint32_t advanceByte(uint32_t value, const uint8_t* at) {
#ifdef __x86_64__
  return _mm_crc32_u8(value, *at);
#else
  return __crc32cb(value, *at);
#endif
}

CINCH_CRC_TARGET inline uint32_t advanceWord(uint32_t value, const uint8_t* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);  // these CPUs are little-endian
#ifdef __x86_64__
  return static_cast<uint32_t>(_mm_crc32_u64(value, word));
#else
  return __crc32cd(value, word);
#endif
}

CINCH_CRC_TARGET uint32_t advanceThreeLanes(uint32_t first, const uint8_t* at) {
  uint32_t second = 0, third = 0;
  for (const uint8_t* end = at + kLaneBytes; at != end; at += 8) {
    first = advanceWord(first, at);
    second = advanceWord(second, at + kLaneBytes);
    third = advanceWord(third, at + 2 * kLaneBytes);
  }
  return kLane.after(kLane.after(first) ^ second) ^ third;
}

CINCH_CRC_TARGET uint32_t advanceByInstruction(uint32_t value, const uint8_t* at, size_t nBytes) {
  for (; nBytes >= 3 * kLaneBytes; nBytes -= 3 * kLaneBytes, at += 3 * kLaneBytes)
    value = advanceThreeLanes(value, at);
  for (; nBytes >= 8; nBytes -= 8, at += 8) value = advanceWord(value, at);
  for (; nBytes > 0; --nBytes, ++at) value = advanceByte(value, at);
  return value;
}

Advance fastest() {
#ifdef __x86_64__
  const bool hasInstruction = __builtin_cpu_supports("sse4.2");
#else
  const bool hasInstruction = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#endif
  return hasInstruction ? advanceByInstruction : advanceByTables;
}

#else

Advance fastest() {
  return advanceByTables;
}

#endif

// The register holds the complement of the checksum.
uint32_t checksum(Advance advance, const void* data, size_t nBytes, uint32_t before) {
  return ~advance(~before, static_cast<const uint8_t*>(data), nBytes);
}

}  // namespace

uint32_t crc32c(const void* data, size_t nBytes, uint32_t before) {
  static const Advance advance = fastest();
  return checksum(advance, data, nBytes, before);
}

uint32_t crc32cByTables(const void* data, size_t nBytes, uint32_t before) {
  return checksum(advanceByTables, data, nBytes, before);
}

}  // namespace cinch::net
