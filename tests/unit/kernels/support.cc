#include "tests/unit/kernels/support.h"

#include <algorithm>
#include <cstring>

#include "kernels/core/reference_block.h"
#include "kernels/core/reference_codec.h"
#include "kernels/core/residual_layout.h"
#include "kernels/host/probe.h"
#include "kernels/host/tally.h"

namespace cinch::test {
namespace {

using ResidualCodec = core::ResidualTileCodec;

uint16_t toHalf(ElementType type, float value) {
  return type == ElementType::fp16 ? ElementTraits<ElementType::fp16>::fromFloat(value)
                                   : ElementTraits<ElementType::bf16>::fromFloat(value);
}

float fromHalf(ElementType type, uint16_t value) {
  return type == ElementType::fp16 ? ElementTraits<ElementType::fp16>::toFloat(value)
                                   : ElementTraits<ElementType::bf16>::toFloat(value);
}

// Of residuals that are stored value by value.
ElementType elementTypeOf(ResidualType type) {
  return type == ResidualType::bf16 ? ElementType::bf16 : ElementType::fp32;
}

std::vector<uint8_t> toTiles(const std::vector<float>& values) {
  constexpr wire::CodecFormat kFormat = ResidualCodec::kFormat;
  std::vector<uint8_t> tiles(core::residualBytes(ResidualType::int8, values.size()));
  for (size_t first = 0; first < values.size(); first += wire::kBlockElems) {
    const size_t end = std::min(first + wire::kBlockElems, values.size());
    const uint64_t block = first / wire::kBlockElems;
    reference::encodeBlock<ResidualCodec>({values.data() + first, values.data() + end}, {}, nullptr,
                                          &tiles[wire::metaOffset(kFormat, block)],
                                          &tiles[wire::codesOffset(kFormat, block)]);
  }
  return tiles;
}

std::vector<float> fromTiles(const uint8_t* tiles, size_t count) {
  constexpr wire::CodecFormat kFormat = ResidualCodec::kFormat;
  std::vector<float> values;
  for (size_t first = 0; first < count; first += wire::kBlockElems) {
    const uint64_t block = first / wire::kBlockElems;
    const auto decoded = reference::decodeBlock<ResidualCodec>(
        tiles + wire::metaOffset(kFormat, block), tiles + wire::codesOffset(kFormat, block), {},
        std::min<size_t>(wire::kBlockElems, count - first));
    values.insert(values.end(), decoded.begin(), decoded.end());
  }
  return values;
}

}  // namespace

std::string nameOf(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      return "fp32";
    case ElementType::fp16:
      return "fp16";
    case ElementType::bf16:
      return "bf16";
  }
  return "?";
}

std::string nameOf(ResidualType type) {
  switch (type) {
    case ResidualType::fp32:
      return "fp32";
    case ResidualType::bf16:
      return "bf16";
    case ResidualType::int8:
      return "int8";
  }
  return "?";
}

std::string nameOf(wire::CodecFormat codec) {
  const codec::CodecInfo* const info = codec::findCodec(codec.id);
  return info ? info->name : "codec " + std::to_string(codec.id);
}

const host::HostCodec& referenceCodec() {
  static constexpr host::HostCodec kReference = {
      "specification",  reference::encodeShards, reference::reduceShard, reference::decodeShards,
      host::probeInput, host::tallyTiles,        reference::sumParts};
  return kReference;
}

std::vector<uint8_t> toElements(ElementType type, const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * elementBytes(type));
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::fp32) {
      std::memcpy(&bytes[i * 4], &values[i], 4);
    } else {
      const uint16_t half = toHalf(type, values[i]);
      std::memcpy(&bytes[i * 2], &half, 2);
    }
  }
  return bytes;
}

std::vector<float> fromElements(ElementType type, const void* elements, size_t count) {
  const auto* bytes = static_cast<const uint8_t*>(elements);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    if (type == ElementType::fp32) {
      std::memcpy(&values[i], bytes + i * 4, 4);
    } else {
      uint16_t half;
      std::memcpy(&half, bytes + i * 2, 2);
      values[i] = fromHalf(type, half);
    }
  }
  return values;
}

std::vector<uint8_t> toResidual(ResidualType type, const std::vector<float>& values) {
  return type == ResidualType::int8 ? toTiles(values) : toElements(elementTypeOf(type), values);
}

std::vector<float> fromResidual(ResidualType type, const uint8_t* stored, size_t count) {
  return type == ResidualType::int8 ? fromTiles(stored, count)
                                    : fromElements(elementTypeOf(type), stored, count);
}

std::vector<uint8_t> toResidual(ResidualType type, const wire::ShardLayout& layout,
                                const std::vector<float>& values) {
  std::vector<uint8_t> stored;
  for (uint32_t shard = 0; shard < layout.nShards; ++shard) {
    const float* const first = values.data() + layout.firstElem(shard);
    const auto part = toResidual(type, {first, first + layout.shardElems(shard)});
    stored.insert(stored.end(), part.begin(), part.end());
  }
  return stored;
}

std::vector<float> fromResidual(ResidualType type, const wire::ShardLayout& layout,
                                const uint8_t* stored) {
  std::vector<float> values;
  for (uint32_t shard = 0; shard < layout.nShards; ++shard) {
    const auto part = fromResidual(type, stored + core::residualOffset(type, layout, shard),
                                   layout.shardElems(shard));
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

double nmse(const std::vector<float>& approximate, const std::vector<double>& exact) {
  double error = 0, power = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += (approximate[i] - exact[i]) * (approximate[i] - exact[i]);
    power += exact[i] * exact[i];
  }
  return error / power;
}

GuardedBytes::GuardedBytes(size_t size, size_t offset)
    : size_(size), begin_(0), storage_(size + 2 * kGuardBytes + offset + 64, kGuard) {
  const auto base = reinterpret_cast<uintptr_t>(storage_.data()) + kGuardBytes;
  begin_ = kGuardBytes + (64 - base % 64) % 64 + offset;
  std::memset(data(), 0, size_);
}

GuardedBytes::GuardedBytes(const std::vector<uint8_t>& content, size_t offset)
    : GuardedBytes(content.size(), offset) {
  if (!content.empty()) std::memcpy(data(), content.data(), content.size());
}

bool GuardedBytes::isIntact() const {
  const auto isGuard = [](uint8_t byte) { return byte == kGuard; };
  const auto begin = storage_.begin() + static_cast<ptrdiff_t>(begin_);
  return std::all_of(storage_.begin(), begin, isGuard) &&
         std::all_of(begin + static_cast<ptrdiff_t>(size_), storage_.end(), isGuard);
}

}  // namespace cinch::test
