// Writes the golden vectors that a folder lacks, as the specification makes them:
//
//   golden_generator tests/golden/v1
//
// For new codecs, new kinds of vectors, or a new version in a folder of its own. It never replaces
// a file: those that were released stay as they are.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

#include "kernels/core/reference_codec.h"
#include "tests/golden/golden_file.h"
#include "tests/unit/kernels/data_sets.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

constexpr uint32_t kBlock = wire::kBlockElems;
constexpr uint32_t kShards = 3;
constexpr float kFixedInputFactor = -0.37f;

// Shard 0 is one full tile, shard 1 ends in a partial block, shard 2 is empty.
constexpr uint64_t kFreeCount = wire::kTileElems + 300;

// Each shard has a full tile and a second one that ends in a partial block; none but the first
// starts at a multiple of 16 bytes.
constexpr uint32_t kFixedShard = wire::kTileElems + 149;

// The vectors of one file.
struct Vectors {
  std::string name;
  wire::CodecFormat codec;
  ElementType type;
  uint32_t fixedShard = 0;
  std::optional<CodingRule> feedback = {};  // none: no residuals
  std::vector<wire::Segment> segments = {};
  bool isPair = false;

  uint64_t count() const {
    if (!segments.empty()) return 5 * wire::kTileElems + 300;
    return fixedShard ? uint64_t{fixedShard} * kShards : kFreeCount;
  }
};

// Those of the first release, with plain feedback.
void addFirst(std::vector<Vectors>& all) {
  for (const char* codec : {"q2", "q4", "q8"})
    for (ElementType type : kTypes)
      for (uint32_t fixedShard : {0u, kFixedShard})
        all.push_back({(fixedShard ? "fixed_" : "") + std::string(codec) + "_" + nameOf(type),
                       codec::findCodec(codec)->format, type, fixedShard,
                       CodingRule{.gain = 0.1f}});
}

void addEveryCodec(std::vector<Vectors>& all) {
  for (const codec::CodecInfo& codec : codec::kCodecs)
    for (ElementType type : kTypes)
      all.push_back({std::string(codec.name) + "_" + nameOf(type), codec.format, type});
}

// Residuals of all storages, with decay, and stochastic rounding, which some codecs ignore.
void addRules(std::vector<Vectors>& all) {
  const auto add = [&](const char* codec, ElementType type, ResidualType residualType,
                       float decay) {
    all.push_back({"rule_" + std::string(codec) + "_" + nameOf(type),
                   codec::findCodec(codec)->format, type, 0,
                   CodingRule{.gain = 0.5f,
                              .decay = decay,
                              .residualType = residualType,
                              .rounding = Rounding::stochastic,
                              .seed = 0x0123456789abcdef}});
  };
  add("q4", ElementType::fp32, ResidualType::bf16, 0.9f);
  add("q8", ElementType::bf16, ResidualType::int8, 0.5f);
  add("q3", ElementType::fp16, ResidualType::fp32, 0.9f);
  add("q6", ElementType::bf16, ResidualType::bf16, 1.0f);
  add("h3", ElementType::bf16, ResidualType::int8, 0.9f);
  add("h4", ElementType::fp16, ResidualType::bf16, 0.5f);
}

void addMixed(std::vector<Vectors>& all) {
  const auto segment = [](uint64_t nTiles, const char* codec) {
    return wire::Segment{nTiles, codec::findCodec(codec)->format};
  };
  all.push_back({"mixed_fp16",
                 {},
                 ElementType::fp16,
                 0,
                 CodingRule{.gain = 0.1f, .residualType = ResidualType::int8},
                 {segment(2, "q4"), segment(1, "h3"), segment(1, "q8"), segment(2, "q2")},
                 true});
  all.push_back({"mixed_fp32",
                 {},
                 ElementType::fp32,
                 0,
                 CodingRule{.gain = 0.1f},
                 {segment(2, "h3"), segment(1, "fp32"), segment(2, "q4"), segment(1, "fp32")}});
}

// Of two ranks that exchange whole buckets, each adds up two codes.
void addPairs(std::vector<Vectors>& all) {
  for (const char* codec : {"q4", "h3", "q8", "sign"})
    for (const ElementType type : {ElementType::fp32, ElementType::bf16})
      all.push_back({.name = "pair_" + std::string(codec) + "_" + nameOf(type),
                     .codec = codec::findCodec(codec)->format,
                     .type = type,
                     .isPair = true});
}

std::vector<Vectors> allVectors() {
  std::vector<Vectors> all;
  addFirst(all);
  addEveryCodec(all);
  addRules(all);
  addMixed(all);
  addPairs(all);
  return all;
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
  explicit Generator(const Vectors& vectors)
      : type_(vectors.type),
        isPair_(vectors.isPair),
        hasFeedback_(vectors.feedback),
        rule_(vectors.feedback.value_or(CodingRule{})),
        parameters_{.count = vectors.count(),
                    .nShards = kShards,
                    .codec = vectors.codec.id,
                    .type = static_cast<uint32_t>(vectors.type),
                    .planId = 0xc1c4c1c4,
                    .slot = 11,
                    .ordinal = 6,
                    .ownShard = 1,
                    .gain = rule_.gain,
                    .factor = 1.0f / 3.0f,
                    .fixedShard = vectors.fixedShard} {
    golden_.setParameters(parameters_);
    if (!vectors.segments.empty()) golden_.setSegments(vectors.segments);
    if (!isDefault(rule_)) golden_.setRule(rule_);
    layout_ = golden_.layout();
    input_ = toElements(type_, specialBucket(layout_, type_));
    setSection("input", input_);
    if (layout_.fixedShard)
      golden_.setSection("inputFactor", &kFixedInputFactor, sizeof kFixedInputFactor);
  }

  GoldenFile made() {
    encode();
    decode();
    setSection("peers", peers());
    reduceIntoCodes();
    if (layout_.fixedShard) reduceIntoValues();
    if (isPair_) reducePair();
    return std::move(golden_);
  }

 private:
  // The gain apart.
  static bool isDefault(const CodingRule& rule) {
    const CodingRule usual;
    return rule.decay == usual.decay && rule.residualType == usual.residualType &&
           rule.rounding == usual.rounding;
  }

  CallContext startCall() {
    state_ = {};
    state_.ordinal = parameters_.ordinal;
    return {layout_, type_, parameters_.planId, parameters_.slot, &state_, &fault_};
  }

  void setSection(const char* name, const std::vector<uint8_t>& bytes) {
    golden_.setSection(name, bytes.data(), bytes.size());
  }

  // Empty without feedback.
  std::vector<uint8_t> bucketResidual() const {
    if (!hasFeedback_) return {};
    return toResidual(rule_.residualType, layout_, residualOf(layout_));
  }
  std::vector<uint8_t> ownerResidual() const {
    if (!hasFeedback_) return {};
    return toResidual(rule_.residualType,
                      gaussian(layout_.shardElems(parameters_.ownShard), 3, 0.2f));
  }
  // Where the residual is empty the launches get none, and the file has no section.
  void setResidual(const char* name, const std::vector<uint8_t>& residual) {
    if (hasFeedback_) setSection(name, residual);
  }
  void* pointerTo(std::vector<uint8_t>& residual) const {
    return hasFeedback_ ? residual.data() : nullptr;
  }

  void encode() {
    std::vector<uint8_t> residual = bucketResidual();
    std::vector<uint8_t> encoded(layout_.totalBytes());
    setResidual("residual", residual);
    reference::encodeShards({.call = startCall(),
                             .input = input_.data(),
                             .inputFactor = golden_.inputFactor(),
                             .residual = pointerTo(residual),
                             .rule = rule_,
                             .output = encoded.data()});
    setSection("encoded", encoded);
    setResidual("nextResidual", residual);
  }

  void decode() {
    std::vector<uint8_t> decoded(input_.size());
    reference::decodeShards({startCall(), golden_.section("encoded").data(), decoded.data()});
    setSection("decoded", decoded);
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
      reference::encodeShards({.call = startCall(),
                               .input = elements.data(),
                               .residual = nullptr,
                               .output = encoded.data()});
      std::memcpy(&peers[rank * stride], &encoded[parameters_.ownShard * stride], stride);
    }
    return peers;
  }

  // Stage 2 without an output yet; uses up the own shard's part of `residual`.
  ReduceLaunch reduceLaunch(std::vector<uint8_t>& residual) {
    const uint64_t first = layout_.firstElem(parameters_.ownShard);
    return {.call = startCall(),
            .shard = parameters_.ownShard,
            .peers = golden_.section("peers").data(),
            .ownInput = &input_[first * elementBytes(type_)],
            .inputFactor = golden_.inputFactor(),
            .ownResidual = pointerTo(residual),
            .residual = nullptr,
            .rule = rule_,
            .factor = parameters_.factor,
            .output = nullptr};
  }

  void reduceIntoCodes() {
    std::vector<uint8_t> residual = bucketResidual(), owner = ownerResidual();
    std::vector<uint8_t> reduced(layout_.strideBytes());
    setResidual("ownerResidual", owner);
    ReduceLaunch launch = reduceLaunch(residual);
    launch.residual = pointerTo(owner);
    launch.output = reduced.data();
    reference::reduceShard(launch);
    setSection("reduced", reduced);
    setResidual("nextOwnerResidual", owner);
  }

  void reduceIntoValues() {
    std::vector<uint8_t> residual = bucketResidual();
    std::vector<uint8_t> values(layout_.shardElems(parameters_.ownShard) * elementBytes(type_));
    ReduceLaunch launch = reduceLaunch(residual);
    launch.values = values.data();
    reference::reduceShard(launch);
    setSection("values", values);
  }

  void reducePair() {
    const uint64_t own = parameters_.ownShard * layout_.strideBytes();
    std::vector<uint8_t> values(layout_.shardElems(parameters_.ownShard) * elementBytes(type_));
    reference::reduceShard({.call = startCall(),
                            .shard = parameters_.ownShard,
                            .peers = golden_.section("peers").data(),
                            .ownInput = nullptr,
                            .ownCodes = golden_.section("encoded").data() + own,
                            .ownResidual = nullptr,
                            .residual = nullptr,
                            .factor = parameters_.factor,
                            .output = nullptr,
                            .values = values.data()});
    setSection("pairValues", values);
  }

  ElementType type_;
  bool isPair_;
  bool hasFeedback_;
  CodingRule rule_;
  GoldenParameters parameters_;
  wire::ShardLayout layout_;
  std::vector<uint8_t> input_;
  SlotState state_{};
  uint32_t fault_ = 0;
  GoldenFile golden_;
};

int run(const std::filesystem::path& folder) {
  for (const Vectors& vectors : allVectors()) {
    const std::filesystem::path path = folder / (vectors.name + ".bin");
    if (std::filesystem::exists(path)) continue;
    if (const Result<void> result = Generator(vectors).made().writeNew(path); !result.ok()) {
      std::fprintf(stderr, "%s\n", result.error().message.c_str());
      return 1;
    }
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
