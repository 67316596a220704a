// What the codec tests share: names, values as elements of a type and as residuals, and buffers
// that notice writes outside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/codec/registry.h"
#include "kernels/device_table.h"
#include "kernels/host/host_codec.h"

namespace cinch::test {

inline constexpr ElementType kTypes[] = {ElementType::fp32, ElementType::fp16, ElementType::bf16};
inline constexpr ResidualType kResidualTypes[] = {ResidualType::fp32, ResidualType::bf16,
                                                  ResidualType::int8};

std::string nameOf(ElementType type);
std::string nameOf(ResidualType type);
std::string nameOf(wire::CodecFormat codec);

// The specification, in the shape of the codecs that are compared with it.
const host::HostCodec& referenceCodec();

// Values rounded to elements of `type`, as bytes, and back.
std::vector<uint8_t> toElements(ElementType type, const std::vector<float>& values);
std::vector<float> fromElements(ElementType type, const void* elements, size_t count);

// The residual of a run of values that begins at a tile, as it is stored, and back.
std::vector<uint8_t> toResidual(ResidualType type, const std::vector<float>& values);
std::vector<float> fromResidual(ResidualType type, const uint8_t* stored, size_t count);

// The same for a whole bucket.
std::vector<uint8_t> toResidual(ResidualType type, const wire::ShardLayout& layout,
                                const std::vector<float>& values);
std::vector<float> fromResidual(ResidualType type, const wire::ShardLayout& layout,
                                const uint8_t* stored);

// Sum of squared differences over sum of squares.
double nmse(const std::vector<float>& approximate, const std::vector<double>& exact);

// `size` bytes that begin `offset` bytes after a 64-byte boundary, between guard bytes.
class GuardedBytes {
 public:
  GuardedBytes(size_t size, size_t offset);
  explicit GuardedBytes(const std::vector<uint8_t>& content, size_t offset = 0);

  uint8_t* data() { return storage_.data() + begin_; }
  const uint8_t* data() const { return storage_.data() + begin_; }
  size_t size() const { return size_; }
  std::vector<uint8_t> content() const { return {data(), data() + size_}; }
  // True while nothing was written in front of the bytes or behind them.
  bool isIntact() const;

 private:
  static constexpr size_t kGuardBytes = 256;
  static constexpr uint8_t kGuard = 0xa5;

  size_t size_, begin_;
  std::vector<uint8_t> storage_;
};

}  // namespace cinch::test
