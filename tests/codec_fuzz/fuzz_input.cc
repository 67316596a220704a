#include "tests/codec_fuzz/fuzz_input.h"

#include "kernels/core/shard_header.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

constexpr uint32_t kMostShards = 4;

wire::CodecFormat chooseCodec(FuzzBytes& bytes) {
  return codec::kCodecs[bytes.byte() % codec::kCodecs.size()].format;
}

// Mostly few: small inputs say as much, and are many.
uint64_t chooseCount(FuzzBytes& bytes) {
  const bool isLarge = bytes.byte() % 32 == 31;
  return bytes.below(isLarge ? 3 * wire::kTileElems : 300);
}

// Finite, as residuals always are.
std::vector<float> residualValues(uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 37 % 101) * 0.01f - 0.5f;
  return values;
}

}  // namespace

FuzzInput::FuzzInput(FuzzBytes bytes) {
  launch = static_cast<FuzzLaunch>(bytes.byte() % 3);
  type = kTypes[bytes.byte() % 3];
  chooseLayout(bytes);
  shard = bytes.byte() % layout.nShards;
  chooseRule(bytes);
  codedOffset = bytes.byte() % 16;
  valueOffset = bytes.byte() % 8 * elementBytes(type);
  const uint32_t withHeaders = bytes.byte();

  encoded = bytes.rest(layout.totalBytes());
  putHeaders(withHeaders);
  const uint64_t shardElems = layout.shardElems(shard);
  const uint64_t nValues = launch == FuzzLaunch::decode ? layout.count : shardElems;
  values = bytes.rest(nValues * elementBytes(type));
  if (!feedback) return;
  residual = toResidual(rule.residualType, layout, residualValues(layout.count));
  ownerResidual = toResidual(rule.residualType, residualValues(shardElems));
}

void FuzzInput::chooseLayout(FuzzBytes& bytes) {
  const uint32_t nShards = 1 + bytes.byte() % kMostShards;
  const uint64_t count = chooseCount(bytes);
  const wire::CodecFormat first = chooseCodec(bytes), second = chooseCodec(bytes);
  const uint64_t nTiles = wire::ShardLayout::tilesOf(count);
  const uint32_t cut = bytes.byte() % 3;
  if (cut == 0) {
    layout = {count, nShards, first};
  } else if (cut == 1 || nTiles < 2) {
    layout = wire::ShardLayout::fixed(count / nShards, nShards, first);
  } else {
    const wire::Segment segments[] = {{1, first}, {nTiles - 1, second}};
    mixed.emplace(count, nShards, segments);
    layout = mixed->layout();
  }
}

void FuzzInput::chooseRule(FuzzBytes& bytes) {
  feedback = bytes.flag();
  rule.gain = static_cast<float>(bytes.byte()) / 256;
  rule.decay = static_cast<float>(bytes.byte()) / 255;
  rule.residualType = kResidualTypes[bytes.byte() % 3];
  rule.measure = bytes.flag();
  if (bytes.flag()) rule.rounding = Rounding::stochastic;
}

void FuzzInput::putHeaders(uint32_t whichShards) {
  const CallContext call{layout, type, kFuzzPlan, kFuzzSlot, nullptr, nullptr};
  const wire::ShardHeader header = core::makeHeader(call, kFuzzOrdinal);
  for (uint32_t each = 0; each < layout.nShards; ++each)
    if (whichShards >> each & 1)
      std::memcpy(&encoded[each * layout.strideBytes()], &header, sizeof header);
}

}  // namespace cinch::test
