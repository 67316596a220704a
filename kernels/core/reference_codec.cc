#include "kernels/core/reference_codec.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/core/block_codec.h"
#include "kernels/core/call_state.h"
#include "kernels/core/error_sums.h"
#include "kernels/core/input_factor.h"
#include "kernels/core/shard_header.h"
#include "kernels/wire/tile_layout.h"

namespace cinch::reference {
namespace {

using wire::kBlockElems;
using wire::ShardHeader;
using wire::ShardLayout;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <ElementType type>
float loadAs(const void* input, uint64_t index) {
  return ElementTraits<type>::toFloat(
      static_cast<const typename ElementTraits<type>::Storage*>(input)[index]);
}

float load(ElementType type, const void* input, uint64_t index) {
  switch (type) {
    case ElementType::fp16:
      return loadAs<ElementType::fp16>(input, index);
    case ElementType::bf16:
      return loadAs<ElementType::bf16>(input, index);
    default:
      return loadAs<ElementType::fp32>(input, index);
  }
}

// Returns whether the value is finite as stored.
template <ElementType type>
bool storeAs(float value, void* output, uint64_t index) {
  const auto stored = ElementTraits<type>::fromFloat(value);
  static_cast<typename ElementTraits<type>::Storage*>(output)[index] = stored;
  return ElementTraits<type>::isStorageFinite(stored);
}

bool store(ElementType type, float value, void* output, uint64_t index) {
  switch (type) {
    case ElementType::fp16:
      return storeAs<ElementType::fp16>(value, output, index);
    case ElementType::bf16:
      return storeAs<ElementType::bf16>(value, output, index);
    default:
      return storeAs<ElementType::fp32>(value, output, index);
  }
}

// What one launch does to all values that it codes.
struct Coding {
  const CallContext& call;
  float gain;
  core::ErrorSums* sums;
};

// Codes `values` into block `block` of a zeroed shard. `residual` is null or has as many values.
void encodeBlock(const Coding& coding, const std::vector<float>& values, float* residual,
                 uint8_t* shardBytes, uint64_t block) {
  const wire::Codec codec = coding.call.layout.codec;
  std::vector<float> coded(values), decoded(values);
  core::ValueRange range;
  for (size_t i = 0; i < values.size(); ++i) {
    if (residual) coded[i] = core::compensate(values[i], coding.gain, residual[i]);
    range.include(coded[i]);
  }
  const core::StoredPair pair = core::pairOf(codec, range);
  const core::BlockScale scale(codec, pair);
  std::memcpy(shardBytes + wire::pairOffset(codec, block), &pair, sizeof pair);
  if (scale.isMarked()) {
    if (residual) std::fill_n(residual, values.size(), 0.0f);
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t code = scale.encode(coded[i]);
    wire::insertCode(codec, shardBytes + wire::codesOffset(codec, block), static_cast<uint32_t>(i),
                     code);
    decoded[i] = scale.decode(code);
    if (residual) residual[i] = core::nextResidual(residual[i], values[i], decoded[i]);
  }
  if (coding.sums)
    coding.sums->addBlock(coded.data(), decoded.data(), static_cast<uint32_t>(values.size()));
}

// Codes `values`, one shard, behind its header.
void encodeShard(const Coding& coding, const std::vector<float>& values, float* residual,
                 uint8_t* shardBytes) {
  const CallContext& call = coding.call;
  const ShardHeader header = core::makeHeader(call, call.state->ordinal);
  std::memset(shardBytes, 0, call.layout.strideBytes());
  std::memcpy(shardBytes, &header, sizeof header);
  if (residual && core::isPoisoned(*call.state)) std::fill_n(residual, values.size(), 0.0f);
  for (size_t first = 0; first < values.size(); first += kBlockElems) {
    const size_t end = std::min(values.size(), first + kBlockElems);
    encodeBlock(coding,
                {values.begin() + static_cast<ptrdiff_t>(first),
                 values.begin() + static_cast<ptrdiff_t>(end)},
                residual ? residual + first : nullptr, shardBytes, first / kBlockElems);
  }
}

// Value `index` of an encoded shard.
float decodeValue(wire::Codec codec, const uint8_t* shardBytes, uint64_t index) {
  const uint64_t block = index / kBlockElems;
  core::StoredPair pair;
  std::memcpy(&pair, shardBytes + wire::pairOffset(codec, block), sizeof pair);
  const core::BlockScale scale(codec, pair);
  if (scale.isMarked()) return kNan;
  return scale.decode(
      wire::extractCode(codec, shardBytes + wire::codesOffset(codec, block), index % kBlockElems));
}

// Reports a header that differs from the running call's, and returns whether it is the same.
bool acceptHeader(const CallContext& call, const uint8_t* shardBytes) {
  ShardHeader found;
  std::memcpy(&found, shardBytes, sizeof found);
  const uint32_t faults = core::headerFaults(found, core::makeHeader(call, call.state->ordinal));
  std::atomic_ref<uint32_t>(*call.fault).fetch_or(faults);
  return faults == 0;
}

// The part of rank `rank` in value `index` of the owned shard.
float partOf(const ReduceLaunch& launch, uint32_t rank, uint64_t index) {
  const ShardLayout& layout = launch.call.layout;
  if (rank != launch.shard)
    return decodeValue(layout.codec, launch.peers + rank * layout.strideBytes(), index);
  const ElementType type = launch.call.type;
  const float own = load(type, launch.ownInput, index) * core::valueOf(launch.inputFactor, type);
  const bool useResidual = launch.ownResidual && !core::isPoisoned(*launch.call.state);
  return useResidual ? own + launch.ownResidual[index] : own;
}

float reduceValue(const ReduceLaunch& launch, uint64_t index) {
  float sum = partOf(launch, 0, index);
  for (uint32_t rank = 1; rank < launch.call.layout.nShards; ++rank)
    sum += partOf(launch, rank, index);
  return sum * launch.factor;
}

// Ends a call with the values of `launch.values`.
void storeSums(const ReduceLaunch& launch, const std::vector<float>& sums) {
  bool allFinite = true;
  for (size_t i = 0; i < sums.size(); ++i)
    allFinite &= store(launch.call.type, sums[i], launch.values, i);
  core::endCall(*launch.call.state, allFinite);
}

void encodeSums(const ReduceLaunch& launch, const std::vector<float>& sums) {
  core::ErrorSums errors;
  encodeShard({launch.call, launch.gain, launch.measure ? &errors : nullptr}, sums, launch.residual,
              launch.output);
  if (launch.measure) errors.addTo(*launch.call.state, 1);
}

}  // namespace

void encodeShards(const EncodeLaunch& launch) {
  const ShardLayout& layout = launch.call.layout;
  core::ErrorSums sums;
  const Coding coding{launch.call, launch.gain, launch.measure ? &sums : nullptr};
  for (uint32_t shard = 0; shard < layout.nShards; ++shard) {
    if (static_cast<int64_t>(shard) == launch.skipShard) continue;
    const uint64_t first = layout.firstElem(shard);
    const float factor = core::valueOf(launch.inputFactor, launch.call.type);
    std::vector<float> values(layout.shardElems(shard));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = load(launch.call.type, launch.input, first + i) * factor;
    encodeShard(coding, values, launch.residual ? launch.residual + first : nullptr,
                launch.output + shard * layout.strideBytes());
  }
  if (launch.measure) sums.addTo(*launch.call.state, 0);
}

void reduceShard(const ReduceLaunch& launch) {
  const ShardLayout& layout = launch.call.layout;
  bool accepted = true;
  for (uint32_t rank = 0; rank < layout.nShards; ++rank)
    if (rank != launch.shard)
      accepted &= acceptHeader(launch.call, launch.peers + rank * layout.strideBytes());

  std::vector<float> sums(layout.shardElems(launch.shard));
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = accepted ? reduceValue(launch, i) : kNan;
  if (launch.ownResidual) std::fill_n(launch.ownResidual, sums.size(), 0.0f);
  if (launch.values) return storeSums(launch, sums);
  encodeSums(launch, sums);
}

void decodeShards(const DecodeLaunch& launch) {
  const ShardLayout& layout = launch.call.layout;
  bool allFinite = true;
  for (uint32_t shard = 0; shard < layout.nShards; ++shard) {
    const uint8_t* shardBytes = launch.input + shard * layout.strideBytes();
    const bool accepted = acceptHeader(launch.call, shardBytes);
    for (uint64_t i = 0; i < layout.shardElems(shard); ++i) {
      const float value = accepted ? decodeValue(layout.codec, shardBytes, i) : kNan;
      allFinite &= store(launch.call.type, value, launch.output, layout.firstElem(shard) + i);
    }
  }
  core::endCall(*launch.call.state, allFinite);
}

}  // namespace cinch::reference
