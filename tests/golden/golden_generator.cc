// Writes the golden vectors of the current wire version into a new folder:
//
//   golden_generator tests/golden/v2
//
// For a new version, or for new kinds of vectors, which then join those of the version. It never
// replaces a file: those of a released version stay as they are.
#include <cstdio>
#include <cstring>
#include <limits>

#include "tests/golden/golden_file.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

constexpr uint32_t kBlock = wire::kBlockElems;
constexpr uint32_t kShards = 3;
constexpr float kFixedInputFactor = -0.37f;

// Shard 0 is one full tile, shard 1 ends in a partial block, shard 2 is empty.
wire::ShardLayout freeCut(wire::Codec codec) {
  return {wire::kTileElems + 300, kShards, codec};
}

// Each shard has a full tile and a second one that ends in a partial block; none but the first
// starts at a multiple of 16 bytes.
wire::ShardLayout fixedCut(wire::Codec codec) {
  return wire::ShardLayout::fixed(wire::kTileElems + 149, kShards, codec);
}

float largestOf(ElementType type) {
  return type == ElementType::fp16   ? 65504.0f
         : type == ElementType::bf16 ? 0x1.fep127f
                                     : std::numeric_limits<float>::max();
}

float smallestOf(ElementType type) {
  return type == ElementType::fp16 ? 0x1p-24f : type == ElementType::bf16 ? 0x1p-133f : 0x1p-149f;
}

// Changes one block of ordinary values into a special one; `index` counts the bucket's blocks.
void makeSpecial(ElementType type, uint64_t index, float* block, uint32_t nValues) {
  using Limits = std::numeric_limits<float>;
  for (uint32_t i = 0; i < nValues; ++i) {
    switch (index) {
      case 1:
        block[i] = i == 77 ? Limits::quiet_NaN() : block[i];
        break;
      case 2:
        block[i] = i == 100 ? -Limits::infinity() : block[i];
        break;
      case 3:
        block[i] = i % 3 ? 0.0f : -0.0f;
        break;
      case 4:
        block[i] = static_cast<float>(i) * smallestOf(type);
        break;
      case 5:
        block[i] = -0.3f;
        break;
      case 6:
        block[i] = i % 5 ? largestOf(type) : -largestOf(type);
        break;
      case 7:
        block[i] *= 0x1p-121f;
        break;
      case 8:
        block[i] *= 1e-3f;
        break;
      case 9:
        block[i] = i == 0 ? 1000.0f : block[i];
        break;
      default:
        break;
    }
  }
}

// Blocks are counted through the bucket, in the order of the shards.
std::vector<float> specialBucket(const wire::ShardLayout& layout, ElementType type) {
  std::vector<float> values = gaussian(layout.count, 1);
  uint64_t block = 0;
  for (uint32_t shard = 0; shard < layout.nShards; ++shard) {
    const uint64_t end = layout.firstElem(shard + 1);
    for (uint64_t first = layout.firstElem(shard); first < end; first += kBlock)
      makeSpecial(type, block++, &values[first],
                  static_cast<uint32_t>(std::min<uint64_t>(kBlock, end - first)));
  }
  return values;
}

// None for the blocks whose values say all by themselves.
std::vector<float> residualOf(const wire::ShardLayout& layout) {
  std::vector<float> residual = gaussian(layout.count, 2, 0.2f);
  std::fill(residual.begin() + 3 * kBlock, residual.begin() + 8 * kBlock, 0.0f);
  return residual;
}

class Generator {
 public:
  Generator(const wire::ShardLayout& layout, ElementType type)
      : layout_(layout),
        type_(type),
        parameters_{.count = layout.count,
                    .nShards = layout.nShards,
                    .codec = wire::bitsOf(layout.codec),
                    .type = static_cast<uint32_t>(type),
                    .planId = 0xc1c4c1c4,
                    .slot = 11,
                    .ordinal = 6,
                    .ownShard = 1,
                    .gain = 0.1f,
                    .factor = 1.0f / 3.0f,
                    .fixedShard = static_cast<uint32_t>(layout.fixedShard)},
        input_(toElements(type, specialBucket(layout, type))) {
    golden_.setParameters(parameters_);
    golden_.setSection("input", input_.data(), input_.size());
    if (layout.fixedShard)
      golden_.setSection("inputFactor", &kFixedInputFactor, sizeof kFixedInputFactor);
  }

  Result<void> write(const std::string& folder) {
    encode();
    decode();
    const std::vector<uint8_t> received = peers();
    golden_.setSection("peers", received.data(), received.size());
    reduceIntoCodes();
    if (layout_.fixedShard) reduceIntoValues();
    const std::string cut = layout_.fixedShard ? "fixed_" : "";
    return golden_.writeNew(folder + "/" + cut + nameOf(layout_.codec) + "_" + nameOf(type_) +
                            ".bin");
  }

 private:
  CallContext startCall() {
    state_ = {};
    state_.ordinal = parameters_.ordinal;
    return {layout_, type_, parameters_.planId, parameters_.slot, &state_, &fault_};
  }

  void setFloats(const char* name, const std::vector<float>& values) {
    golden_.setSection(name, values.data(), values.size() * sizeof(float));
  }

  void encode() {
    std::vector<float> residual = residualOf(layout_);
    std::vector<uint8_t> encoded(layout_.totalBytes());
    setFloats("residual", residual);
    codec_.encodeShards({.call = startCall(),
                         .input = input_.data(),
                         .inputFactor = golden_.inputFactor(),
                         .residual = residual.data(),
                         .gain = parameters_.gain,
                         .output = encoded.data(),
                         .skipShard = -1,
                         .measure = false});
    golden_.setSection("encoded", encoded.data(), encoded.size());
    setFloats("nextResidual", residual);
  }

  void decode() {
    std::vector<uint8_t> decoded(input_.size());
    codec_.decodeShards({startCall(), golden_.section("encoded").data(), decoded.data()});
    golden_.setSection("decoded", decoded.data(), decoded.size());
  }

  std::vector<uint8_t> peers() {
    const size_t stride = layout_.strideBytes();
    std::vector<uint8_t> peers(layout_.totalBytes()), encoded(layout_.totalBytes());
    for (uint32_t rank = 0; rank < kShards; ++rank) {
      if (rank == parameters_.ownShard) continue;
      std::vector<float> values = gaussian(layout_.count, 10 + rank);
      if (rank == 0)
        values[layout_.firstElem(parameters_.ownShard) + 5] =
            std::numeric_limits<float>::quiet_NaN();
      const std::vector<uint8_t> elements = toElements(type_, values);
      codec_.encodeShards({.call = startCall(),
                           .input = elements.data(),
                           .residual = nullptr,
                           .gain = 0,
                           .output = encoded.data(),
                           .skipShard = -1,
                           .measure = false});
      std::memcpy(&peers[rank * stride], &encoded[parameters_.ownShard * stride], stride);
    }
    return peers;
  }

  // Stage 2 without an output yet; uses up the own shard's part of `residual`.
  ReduceLaunch reduceLaunch(std::vector<float>& residual) {
    const uint64_t first = layout_.firstElem(parameters_.ownShard);
    return {.call = startCall(),
            .shard = parameters_.ownShard,
            .peers = golden_.section("peers").data(),
            .ownInput = &input_[first * elementBytes(type_)],
            .inputFactor = golden_.inputFactor(),
            .ownResidual = &residual[first],
            .residual = nullptr,
            .gain = parameters_.gain,
            .factor = parameters_.factor,
            .output = nullptr,
            .measure = false};
  }

  void reduceIntoCodes() {
    std::vector<float> residual = residualOf(layout_);
    std::vector<float> ownerResidual = gaussian(layout_.shardElems(parameters_.ownShard), 3, 0.2f);
    std::vector<uint8_t> reduced(layout_.strideBytes());
    setFloats("ownerResidual", ownerResidual);
    ReduceLaunch launch = reduceLaunch(residual);
    launch.residual = ownerResidual.data();
    launch.output = reduced.data();
    codec_.reduceShard(launch);
    golden_.setSection("reduced", reduced.data(), reduced.size());
    setFloats("nextOwnerResidual", ownerResidual);
  }

  void reduceIntoValues() {
    std::vector<float> residual = residualOf(layout_);
    std::vector<uint8_t> values(layout_.shardElems(parameters_.ownShard) * elementBytes(type_));
    ReduceLaunch launch = reduceLaunch(residual);
    launch.values = values.data();
    codec_.reduceShard(launch);
    golden_.setSection("values", values.data(), values.size());
  }

  const host::HostCodec& codec_ = *host::findHostCodec("reference");
  wire::ShardLayout layout_;
  ElementType type_;
  GoldenParameters parameters_;
  std::vector<uint8_t> input_;
  SlotState state_{};
  uint32_t fault_ = 0;
  GoldenFile golden_;
};

int run(const std::string& folder) {
  for (wire::Codec codec : kCodecs)
    for (ElementType type : kTypes)
      for (const wire::ShardLayout& layout : {freeCut(codec), fixedCut(codec)})
        if (const Result<void> result = Generator(layout, type).write(folder); !result.ok()) {
          std::fprintf(stderr, "%s\n", result.error().message.c_str());
          return 1;
        }
  return 0;
}

}  // namespace
}  // namespace cinch::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: golden_generator FOLDER\n");
    return 2;
  }
  return cinch::test::run(argv[1]);
}
