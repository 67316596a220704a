#include "tests/unit/kernels/support.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/element/element_traits.h"

namespace cinch::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

uint16_t toHalf(ElementType type, float value) {
  return type == ElementType::fp16 ? ElementTraits<ElementType::fp16>::fromFloat(value)
                                   : ElementTraits<ElementType::bf16>::fromFloat(value);
}

float fromHalf(ElementType type, uint16_t value) {
  return type == ElementType::fp16 ? ElementTraits<ElementType::fp16>::toFloat(value)
                                   : ElementTraits<ElementType::bf16>::toFloat(value);
}

// One value of an awkward block of the given kind, made of an ordinary one.
float awkwardValue(uint32_t kind, uint32_t index, float ordinary, std::mt19937& random) {
  switch (kind) {
    case 0:
      return 3.14159f;
    case 1:
      return index % 2 ? -0.0f : 0.0f;
    case 2:
      return static_cast<float>(random() % 1000) * kSmallest;
    case 3:
      return index % 3 ? kLargest : -kLargest;
    case 4:
      return index % 50 == 7 ? kNan : ordinary;
    case 5:
      return index % 60 == 9 ? -kInfinity : ordinary;
    case 6:
      return 1.0f + ordinary * 1e-6f;
    case 7:
      return index == 11 ? 1e30f : ordinary;
    case 8:
      return floatOfBits(static_cast<uint32_t>(random()));
    case 9:
      return ordinary * 0x1p-121f;
    case 10:
      return ordinary * 3e4f;
    default:
      return ordinary * 1e-3f;
  }
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

std::string nameOf(wire::Codec codec) {
  switch (codec) {
    case wire::Codec::q2:
      return "q2";
    case wire::Codec::q4:
      return "q4";
    case wire::Codec::q8:
      return "q8";
  }
  return "?";
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

std::vector<float> gaussian(size_t count, uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> awkward(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  uint32_t kind = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i % wire::kBlockElems == 0) kind = static_cast<uint32_t>(random() % 16);
    values[i] = awkwardValue(kind, i % wire::kBlockElems, normal(random), random);
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

VirtualRanks::VirtualRanks(const Collective& settings, const host::HostCodec& codec)
    : settings_(settings),
      codec_(codec),
      layout_(settings.fixedShard
                  ? wire::ShardLayout::fixed(settings.fixedShard, settings.nRanks, settings.codec)
                  : wire::ShardLayout{settings.count, settings.nRanks, settings.codec}),
      ranks_(settings.nRanks) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    VirtualRank& each = ranks_[rank];
    each.input.resize(layout_.count * elementBytes(settings.type));
    each.output.resize(each.input.size());
    each.encoded.resize(layout_.totalBytes());
    each.received.resize(layout_.totalBytes());
    each.reduced.resize(layout_.strideBytes());
    each.residual.resize(layout_.count);
    each.ownerResidual.resize(layout_.shardElems(static_cast<uint32_t>(rank)));
    each.state.ordinal = 1;
  }
}

CallContext VirtualRanks::callOf(VirtualRank& rank) {
  return {layout_, settings_.type, 0x1234, 5, &rank.state, &rank.fault};
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
                         .gain = settings_.gain,
                         .output = each.encoded.data(),
                         .skipShard = static_cast<int32_t>(rank),
                         .measure = settings_.measure});
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
  const uint64_t first = layout_.firstElem(rank);
  return {.call = callOf(each),
          .shard = rank,
          .peers = each.received.data(),
          .ownInput = each.input.data() + first * elementBytes(settings_.type),
          .inputFactor = settings_.inputFactor,
          .ownResidual = settings_.feedback ? each.residual.data() + first : nullptr,
          .residual = nullptr,
          .gain = settings_.gain,
          .factor = settings_.factor,
          .output = nullptr,
          .measure = settings_.measure};
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

}  // namespace cinch::test
