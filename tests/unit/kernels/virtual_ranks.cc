#include "tests/unit/kernels/virtual_ranks.h"

#include <cstring>

#include "kernels/core/residual_layout.h"

namespace cinch::test {
namespace {

wire::ShardLayout layoutOf(const Collective& settings) {
  if (settings.mixed) return settings.mixed->layout();
  if (settings.fixedShard)
    return wire::ShardLayout::fixed(settings.fixedShard, settings.nRanks, settings.codec);
  return {settings.count, settings.isPair ? 1 : settings.nRanks, settings.codec, 0,
          settings.nChunks};
}

}  // namespace

VirtualRanks::VirtualRanks(const Collective& settings, const host::HostCodec& codec)
    : settings_(settings),
      codec_(codec),
      whole_(layoutOf(settings)),
      layout_(whole_),
      ranks_(settings.isPair ? 2 : layout_.nShards) {
  const ResidualType residualType = settings.rule.residualType;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    VirtualRank& each = ranks_[rank];
    const uint64_t shardElems =
        settings.isPair ? 0 : layout_.shardElems(static_cast<uint32_t>(rank));
    each.input.resize(layout_.count * elementBytes(settings.type));
    each.output.resize(each.input.size());
    each.residual.resize(core::residualBytes(residualType, layout_));
    each.ownerResidual.resize(core::residualBytes(residualType, shardElems));
    each.state.ordinal = 1;
  }
  enterChunk(whole_.nChunks > 1 ? 0 : wire::kWholeShards);
}

void VirtualRanks::enterChunk(uint32_t chunk) {
  layout_ = whole_.ofChunk(chunk);
  endsCall_ = chunk == wire::kWholeShards || chunk + 1 == whole_.nChunks;
  for (VirtualRank& each : ranks_) {
    each.encoded.resize(layout_.totalBytes());
    each.received.resize(layout_.totalBytes());
    each.reduced.resize(layout_.strideBytes());
  }
}

CallContext VirtualRanks::callOf(VirtualRank& rank) {
  return {layout_, settings_.type, 0x1234, 5, &rank.state, &rank.fault, endsCall_};
}

CodingRule VirtualRanks::ruleOf(size_t rank) const {
  CodingRule rule = settings_.rule;
  rule.seed += rank;
  return rule;
}

void VirtualRanks::run() {
  for (uint32_t chunk = 0; chunk < whole_.nChunks; ++chunk) {
    if (whole_.nChunks > 1) enterChunk(chunk);
    encode();
    exchange();
    reduce();
    gatherAndDecode();
  }
}

void VirtualRanks::runPair() {
  for (uint32_t chunk = 0; chunk < whole_.nChunks; ++chunk) {
    if (whole_.nChunks > 1) enterChunk(chunk);
    encode();
    reducePair();
  }
  if (!settings_.inPlace) return;
  for (VirtualRank& each : ranks_) each.output = each.input;
}

void VirtualRanks::runReduceScatter() {
  encode();
  exchange();
  reduceIntoValues();
}

void VirtualRanks::encode() {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    VirtualRank& each = ranks_[rank];
    codec_.encodeShards({.call = callOf(each),
                         .input = each.input.data(),
                         .inputFactor = settings_.inputFactor,
                         .residual = settings_.feedback ? each.residual.data() : nullptr,
                         .rule = ruleOf(rank),
                         .output = each.encoded.data(),
                         .skipShard = settings_.isPair ? -1 : static_cast<int32_t>(rank)});
  }
}

void VirtualRanks::exchange() {
  const size_t stride = layout_.strideBytes();
  for (size_t to = 0; to < ranks_.size(); ++to)
    for (size_t from = 0; from < ranks_.size(); ++from)
      if (from != to)
        std::memcpy(&ranks_[to].received[from * stride], &ranks_[from].encoded[to * stride],
                    stride);
}

ReduceLaunch VirtualRanks::reduceLaunch(uint32_t rank) {
  VirtualRank& each = ranks_[rank];
  return {.call = callOf(each),
          .shard = rank,
          .peers = each.received.data(),
          .ownInput = each.input.data() + layout_.firstElem(rank) * elementBytes(settings_.type),
          .inputFactor = settings_.inputFactor,
          .ownResidual = settings_.feedback ? each.residual.data() : nullptr,
          .residual = nullptr,
          .rule = ruleOf(rank),
          .factor = settings_.factor,
          .output = nullptr};
}

void VirtualRanks::reduce() {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    ReduceLaunch launch = reduceLaunch(rank);
    const ResidualType type = settings_.rule.residualType;
    const uint64_t chunk =
        core::residualOffset(type, layout_, rank) - core::residualOffset(type, whole_, rank);
    launch.residual = settings_.feedback ? ranks_[rank].ownerResidual.data() + chunk : nullptr;
    launch.output = ranks_[rank].reduced.data();
    codec_.reduceShard(launch);
  }
}

void VirtualRanks::reduceIntoValues() {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    VirtualRank& each = ranks_[rank];
    const uint32_t nBytes = elementBytes(settings_.type);
    uint8_t* const own = each.input.data() + layout_.firstElem(rank) * nBytes;
    each.output.resize(layout_.shardElems(rank) * nBytes);
    ReduceLaunch launch = reduceLaunch(rank);
    launch.values = settings_.inPlace ? own : each.output.data();
    codec_.reduceShard(launch);
    if (settings_.inPlace) std::memcpy(each.output.data(), own, each.output.size());
  }
}

// What a rank has encoded is what the other one receives.
void VirtualRanks::reducePair() {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    VirtualRank& each = ranks_[rank];
    uint8_t* const values = settings_.inPlace ? each.input.data() : each.output.data();
    codec_.reduceShard({.call = callOf(each),
                        .shard = 0,
                        .peers = ranks_[1 - rank].encoded.data(),
                        .ownInput = nullptr,
                        .ownCodes = each.encoded.data(),
                        .ownResidual = nullptr,
                        .residual = nullptr,
                        .factor = settings_.factor,
                        .output = nullptr,
                        .values = values + layout_.firstElem(0) * elementBytes(settings_.type)});
  }
}

void VirtualRanks::gatherAndDecode() {
  std::vector<uint8_t> gathered;
  for (const VirtualRank& each : ranks_)
    gathered.insert(gathered.end(), each.reduced.begin(), each.reduced.end());
  for (VirtualRank& each : ranks_)
    codec_.decodeShards({callOf(each), gathered.data(), each.output.data()});
}

void VirtualRanks::setInput(size_t rank, const std::vector<float>& values) {
  ranks_[rank].input = toElements(settings_.type, values);
}

std::vector<float> VirtualRanks::inputOf(size_t rank) const {
  return fromElements(settings_.type, ranks_[rank].input.data(), whole_.count);
}

std::vector<float> VirtualRanks::outputOf(size_t rank) const {
  const std::vector<uint8_t>& output = ranks_[rank].output;
  return fromElements(settings_.type, output.data(), output.size() / elementBytes(settings_.type));
}

std::vector<float> VirtualRanks::residualOf(size_t rank) const {
  return fromResidual(settings_.rule.residualType, whole_, ranks_[rank].residual.data());
}

std::vector<float> VirtualRanks::ownerResidualOf(size_t rank) const {
  return fromResidual(settings_.rule.residualType, ranks_[rank].ownerResidual.data(),
                      whole_.shardElems(static_cast<uint32_t>(rank)));
}

}  // namespace cinch::test
