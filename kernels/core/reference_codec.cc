#include "kernels/core/reference_codec.h"

#include <atomic>
#include <limits>

#include "kernels/codec/registry.h"
#include "kernels/core/call_state.h"
#include "kernels/core/error_sums.h"
#include "kernels/core/feedback.h"
#include "kernels/core/input_factor.h"
#include "kernels/core/reference_block.h"
#include "kernels/core/residual_layout.h"
#include "kernels/core/shard_header.h"
#include "kernels/core/sum_parts.h"

namespace cinch::reference {
namespace {

using wire::kBlockElems;
using wire::kTileElems;
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

Values slice(const Values& values, uint64_t first, uint64_t nMost) {
  const uint64_t begin = std::min<uint64_t>(first, values.size());
  const uint64_t end = std::min<uint64_t>(begin + nMost, values.size());
  return {values.begin() + static_cast<ptrdiff_t>(begin),
          values.begin() + static_cast<ptrdiff_t>(end)};
}

// Where a shard's values stand in launches that rotate and dither.
struct ShardPlace {
  const CallContext& call;
  uint32_t shard;

  BlockPlace block(uint64_t firstElem) const {
    return {static_cast<uint32_t>(firstElem / wire::kOctetElems),
            core::rotationKey(call.slot, call.state->ordinal)};
  }
};

// Calls visit.operator()<C>(block bytes, first value of the block) for each block of a shard that
// has values, with a pointer to its metadata and one to its codes.
template <class Visit>
void forEachBlock(const ShardPlace& place, uint8_t* shardBytes, const Visit& visit) {
  const ShardLayout& layout = place.call.layout;
  const uint64_t nValues = layout.shardElems(place.shard);
  for (uint32_t index = 0; index < layout.nPieces(place.shard); ++index) {
    const wire::Piece piece = layout.piece(place.shard, index);
    codec::withCodec(piece.codec.id, false, [&]<class C>() {
      for (uint64_t block = 0; block < piece.nTiles * wire::kTileBlocks; ++block) {
        const uint64_t first = piece.firstTile * kTileElems + block * kBlockElems;
        uint8_t* tiles = shardBytes + piece.offset;
        if (first < nValues)
          visit.template operator()<C>(tiles + wire::metaOffset(C::kFormat, block),
                                       tiles + wire::codesOffset(C::kFormat, block), first);
      }
      return true;
    });
  }
}

Values decodeShard(const ShardPlace& place, const uint8_t* shardBytes) {
  const uint64_t nValues = place.call.layout.shardElems(place.shard);
  Values values;
  forEachBlock(place, const_cast<uint8_t*>(shardBytes),
               [&]<class C>(const uint8_t* meta, const uint8_t* codes, uint64_t first) {
                 const auto n = std::min<uint64_t>(kBlockElems, nValues - first);
                 const Values block = decodeBlock<C>(meta, codes, place.block(first), n);
                 values.insert(values.end(), block.begin(), block.end());
               });
  return values;
}

// int8 residuals are coded like a shard of one piece, without a header.
template <class Visit>
void forEachResidualBlock(uint64_t nValues, void* residual, const Visit& visit) {
  using C = core::ResidualTileCodec;
  for (uint64_t block = 0; block * kBlockElems < nValues; ++block)
    visit(static_cast<uint8_t*>(residual) + wire::metaOffset(C::kFormat, block),
          static_cast<uint8_t*>(residual) + wire::codesOffset(C::kFormat, block),
          block * kBlockElems);
}

Values loadResidual(ResidualType type, const void* residual, uint64_t nValues) {
  Values values;
  if (type == ResidualType::int8)
    forEachResidualBlock(nValues, const_cast<void*>(residual),
                         [&](const uint8_t* meta, const uint8_t* codes, uint64_t first) {
                           const Values block = decodeBlock<core::ResidualTileCodec>(
                               meta, codes, {}, std::min<uint64_t>(kBlockElems, nValues - first));
                           values.insert(values.end(), block.begin(), block.end());
                         });
  else
    for (uint64_t i = 0; i < nValues; ++i)
      values.push_back(
          load(type == ResidualType::fp32 ? ElementType::fp32 : ElementType::bf16, residual, i));
  return values;
}

void storeResidual(ResidualType type, const Values& values, void* residual) {
  if (type == ResidualType::int8) {
    std::memset(residual, 0, core::residualBytes(type, values.size()));
    return forEachResidualBlock(values.size(), residual,
                                [&](uint8_t* meta, uint8_t* codes, uint64_t first) {
                                  encodeBlock<core::ResidualTileCodec>(
                                      slice(values, first, kBlockElems), {}, nullptr, meta, codes);
                                });
  }
  for (uint64_t i = 0; i < values.size(); ++i)
    store(type == ResidualType::fp32 ? ElementType::fp32 : ElementType::bf16, values[i], residual,
          i);
}

// Codes `values`, one shard, behind its header. `residual` is the shard's, or null.
void encodeShard(const ShardPlace& place, const CodingRule& rule, uint32_t stage,
                 const Values& values, void* residual, core::ErrorSums& errors,
                 uint8_t* shardBytes) {
  const CallContext& call = place.call;
  const ShardHeader header = core::makeHeader(call, call.state->ordinal);
  std::memset(shardBytes, 0, call.layout.strideBytes());
  std::memcpy(shardBytes, &header, sizeof header);

  Values kept(values.size(), 0.0f), coded(values);
  if (residual && !core::isPoisoned(*call.state))
    kept = loadResidual(rule.residualType, residual, values.size());
  const core::FeedbackRule feedback{rule.gain, rule.decay};
  if (residual)
    for (size_t i = 0; i < values.size(); ++i) coded[i] = feedback.compensate(values[i], kept[i]);

  const core::DitherKey dither{rule.seed, place.shard, stage, call.state->ordinal, call.slot};
  const bool dithers = rule.rounding == Rounding::stochastic;
  forEachBlock(place, shardBytes, [&]<class C>(uint8_t* meta, uint8_t* codes, uint64_t first) {
    encodeBlock<C>(slice(coded, first, kBlockElems), place.block(first),
                   dithers ? &dither : nullptr, meta, codes);
  });

  const Values decoded = decodeShard(place, shardBytes);
  if (residual) {
    for (size_t i = 0; i < values.size(); ++i)
      kept[i] = feedback.next(kept[i], values[i], decoded[i]);
    storeResidual(rule.residualType, kept, residual);
  }
  errors.add(coded.data(), decoded.data(), values.size());
}

// Reports a header that differs from the running call's, and returns whether it is the same.
bool acceptHeader(const CallContext& call, const uint8_t* shardBytes) {
  ShardHeader found;
  std::memcpy(&found, shardBytes, sizeof found);
  const uint32_t faults = core::headerFaults(found, core::makeHeader(call, call.state->ordinal));
  std::atomic_ref<uint32_t>(*call.fault).fetch_or(faults);
  return faults == 0;
}

// The caller's own part of the sum, exact unless it is coded.
Values ownPart(const ReduceLaunch& launch) {
  const CallContext& call = launch.call;
  if (launch.ownCodes) return decodeShard({call, launch.shard}, launch.ownCodes);
  const uint64_t nValues = call.layout.shardElems(launch.shard);
  const float factor = core::valueOf(launch.inputFactor, call.type);
  Values own(nValues);
  for (uint64_t i = 0; i < nValues; ++i) own[i] = load(call.type, launch.ownInput, i) * factor;
  if (!launch.ownResidual) return own;
  const ResidualType type = launch.rule.residualType;
  void* residual = static_cast<uint8_t*>(launch.ownResidual) +
                   core::residualOffset(type, call.layout, launch.shard);
  if (!core::isPoisoned(*call.state)) {
    const Values kept = loadResidual(type, residual, nValues);
    for (uint64_t i = 0; i < nValues; ++i) own[i] += kept[i];
  }
  storeResidual(type, Values(nValues, 0.0f), residual);
  return own;
}

Values partOf(const ReduceLaunch& launch, uint32_t part) {
  if (part == launch.ownPart()) return ownPart(launch);
  return decodeShard({launch.call, launch.shard},
                     launch.peers + part * launch.call.layout.strideBytes());
}

Values sumOfParts(const ReduceLaunch& launch) {
  Values sum = partOf(launch, 0);
  for (uint32_t part = 1; part < launch.nParts(); ++part) {
    const Values values = partOf(launch, part);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  for (float& value : sum) value *= launch.factor;
  return sum;
}

bool acceptPeers(const ReduceLaunch& launch) {
  bool accepted = true;
  for (uint32_t part = 0; part < launch.nParts(); ++part)
    if (part != launch.ownPart())
      accepted &= acceptHeader(launch.call, launch.peers + part * launch.call.layout.strideBytes());
  return accepted;
}

// Ends a call with the values of `launch.values`.
void storeSums(const ReduceLaunch& launch, const Values& sums) {
  bool allFinite = true;
  for (size_t i = 0; i < sums.size(); ++i)
    allFinite &= store(launch.call.type, sums[i], launch.values, i);
  core::endLaunch(launch.call, allFinite);
}

}  // namespace

void encodeShards(const EncodeLaunch& launch) {
  const CallContext& call = launch.call;
  const ShardLayout& layout = call.layout;
  const float factor = core::valueOf(launch.inputFactor, call.type);
  core::ErrorSums errors;
  for (uint32_t shard = 0; shard < layout.nShards; ++shard) {
    if (static_cast<int64_t>(shard) == launch.skipShard) continue;
    Values values(layout.shardElems(shard));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = load(call.type, launch.input, layout.firstElem(shard) + i) * factor;
    void* residual = nullptr;
    if (launch.residual)
      residual = static_cast<uint8_t*>(launch.residual) +
                 core::residualOffset(launch.rule.residualType, layout, shard);
    encodeShard({call, shard}, launch.rule, 0, values, residual, errors,
                launch.output + shard * layout.strideBytes());
  }
  if (launch.rule.measure) errors.addTo(*call.state, 0);
}

void reduceShard(const ReduceLaunch& launch) {
  const bool accepted = acceptPeers(launch);
  Values sums = sumOfParts(launch);
  if (!accepted) std::fill(sums.begin(), sums.end(), kNan);
  if (launch.values) return storeSums(launch, sums);
  core::ErrorSums errors;
  encodeShard({launch.call, launch.shard}, launch.rule, 1, sums, launch.residual, errors,
              launch.output);
  if (launch.rule.measure) errors.addTo(*launch.call.state, 1);
}

void decodeShards(const DecodeLaunch& launch) {
  const ShardLayout& layout = launch.call.layout;
  bool allFinite = true;
  for (uint32_t shard = 0; shard < layout.nShards; ++shard) {
    const uint8_t* shardBytes = launch.input + shard * layout.strideBytes();
    Values values = decodeShard({launch.call, shard}, shardBytes);
    if (!acceptHeader(launch.call, shardBytes)) std::fill(values.begin(), values.end(), kNan);
    for (size_t i = 0; i < values.size(); ++i)
      allFinite &= store(launch.call.type, values[i], launch.output, layout.firstElem(shard) + i);
  }
  core::endLaunch(launch.call, allFinite);
}

void sumParts(const SumLaunch& launch) {
  for (uint64_t i = 0; i < launch.count; ++i) {
    float sum = load(launch.type, core::partAt(launch, 0), i);
    for (uint32_t position = 1; position < launch.nParts; ++position)
      sum += load(launch.type, core::partAt(launch, position), i);
    launch.sum[i] = ElementTraits<ElementType::fp32>::fromFloat(sum);
  }
}

}  // namespace cinch::reference
