#include "tests/unit/kernels/virtual_ranks.h"

#include <cstring>

#include "kernels/core/residual_layout.h"

namespace cinch::test {
namespace {

wire::ShardLayout layoutOf(const Collective& settings) {
  if (settings.mixed) return settings.mixed->layout();
  if (settings.fixedShard)
    return wire::ShardLayout::fixed(settings.fixedShard, settings.nRanks, settings.codec);
  return {settings.count, settings.nRanks, settings.codec};
}

}  // namespace

VirtualRanks::VirtualRanks(const Collective& settings, const host::HostCodec& codec)
    : settings_(settings), codec_(codec), layout_(layoutOf(settings)), ranks_(layout_.nShards) {
  const ResidualType residualType = settings.rule.residualType;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    VirtualRank& each = ranks_[rank];
    const uint64_t shardElems = layout_.shardElems(static_cast<uint32_t>(rank));
    each.input.resize(layout_.count * elementBytes(settings.type));
    each.output.resize(each.input.size());
    each.encoded.resize(layout_.totalBytes());
    each.received.resize(layout_.totalBytes());
    each.reduced.resize(layout_.strideBytes());
    each.residual.resize(core::residualBytes(residualType, layout_));
    each.ownerResidual.resize(core::residualBytes(residualType, shardElems));
    each.state.ordinal = 1;
  }
}

CallContext VirtualRanks::callOf(VirtualRank& rank) {
  return {layout_, settings_.type, 0x1234, 5, &rank.state, &rank.fault};
}

CodingRule VirtualRanks::ruleOf(size_t rank) const {
  CodingRule rule = settings_.rule;
  rule.seed += rank;
  return rule;
}

void VirtualRanks::run() {
  encode();
  exchange();
  reduce();
  gatherAndDecode();
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
                         .skipShard = static_cast<int32_t>(rank)});
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
    launch.residual = settings_.feedback ? ranks_[rank].ownerResidual.data() : nullptr;
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
  return fromElements(settings_.type, ranks_[rank].input.data(), layout_.count);
}

std::vector<float> VirtualRanks::outputOf(size_t rank) const {
  const std::vector<uint8_t>& output = ranks_[rank].output;
  return fromElements(settings_.type, output.data(), output.size() / elementBytes(settings_.type));
}

std::vector<float> VirtualRanks::residualOf(size_t rank) const {
  return fromResidual(settings_.rule.residualType, layout_, ranks_[rank].residual.data());
}

std::vector<float> VirtualRanks::ownerResidualOf(size_t rank) const {
  return fromResidual(settings_.rule.residualType, ranks_[rank].ownerResidual.data(),
                      layout_.shardElems(static_cast<uint32_t>(rank)));
}

}  // namespace cinch::test
