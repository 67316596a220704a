// Writes the golden vectors of the current wire version into a folder:
//
//   golden_generator tests/golden/v2
//
// For a new version only. It creates files and never replaces one: those of a released version stay
// as they are.
#include <cstdio>
#include <cstring>
#include <limits>

#include "tests/golden/golden_file.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

constexpr uint32_t kBlock = wire::kBlockElems;
// Shard 0 is one full tile, shard 1 ends in a partial block, shard 2 is empty.
constexpr uint64_t kCount = wire::kTileElems + 300;
constexpr uint32_t kShards = 3;

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

std::vector<float> specialBucket(ElementType type) {
  std::vector<float> values = gaussian(kCount, 1);
  for (uint64_t first = 0; first < kCount; first += kBlock)
    makeSpecial(type, first / kBlock, &values[first],
                static_cast<uint32_t>(std::min<uint64_t>(kBlock, kCount - first)));
  return values;
}

// None for the blocks whose values say all by themselves.
std::vector<float> residualOf() {
  std::vector<float> residual = gaussian(kCount, 2, 0.2f);
  std::fill(residual.begin() + 3 * kBlock, residual.begin() + 8 * kBlock, 0.0f);
  return residual;
}

class Generator {
 public:
  Generator(wire::Codec codec, ElementType type)
      : layout_{kCount, kShards, codec},
        type_(type),
        parameters_{kCount,
                    kShards,
                    wire::bitsOf(codec),
                    static_cast<uint32_t>(type),
                    0xc1c4c1c4,
                    11,
                    6,
                    1,
                    0.1f,
                    1.0f / 3.0f,
                    0},
        input_(toElements(type, specialBucket(type))) {
    state_.ordinal = parameters_.ordinal;
    golden_.setParameters(parameters_);
    golden_.setSection("input", input_.data(), input_.size());
  }

  Result<void> write(const std::string& folder) {
    encodeAndDecode();
    reduce();
    return golden_.writeNew(folder + "/" + nameOf(layout_.codec) + "_" + nameOf(type_) + ".bin");
  }

 private:
  CallContext call() {
    return {layout_, type_, parameters_.planId, parameters_.slot, &state_, &fault_};
  }

  void setFloats(const char* name, const std::vector<float>& values) {
    golden_.setSection(name, values.data(), values.size() * sizeof(float));
  }

  void encodeAndDecode() {
    std::vector<float> residual = residualOf();
    std::vector<uint8_t> encoded(layout_.totalBytes()), decoded(input_.size());
    setFloats("residual", residual);
    codec_.encodeShards(
        {call(), input_.data(), residual.data(), parameters_.gain, encoded.data(), -1, false});
    codec_.decodeShards({call(), encoded.data(), decoded.data()});
    state_ = {};
    state_.ordinal = parameters_.ordinal;
    golden_.setSection("encoded", encoded.data(), encoded.size());
    golden_.setSection("decoded", decoded.data(), decoded.size());
    setFloats("nextResidual", residual);
  }

  std::vector<uint8_t> peers() {
    const size_t stride = layout_.strideBytes();
    std::vector<uint8_t> peers(layout_.totalBytes()), encoded(layout_.totalBytes());
    for (uint32_t rank = 0; rank < kShards; ++rank) {
      if (rank == parameters_.ownShard) continue;
      std::vector<float> values = gaussian(kCount, 10 + rank);
      if (rank == 0) values[wire::kTileElems + 5] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<uint8_t> elements = toElements(type_, values);
      codec_.encodeShards({call(), elements.data(), nullptr, 0, encoded.data(), -1, false});
      std::memcpy(&peers[rank * stride], &encoded[parameters_.ownShard * stride], stride);
    }
    return peers;
  }

  void reduce() {
    const uint64_t first = layout_.firstElem(parameters_.ownShard);
    const std::vector<uint8_t> received = peers();
    std::vector<float> residual = residualOf();
    std::vector<float> ownerResidual = gaussian(layout_.shardElems(parameters_.ownShard), 3, 0.2f);
    std::vector<uint8_t> reduced(layout_.strideBytes());
    golden_.setSection("peers", received.data(), received.size());
    setFloats("ownerResidual", ownerResidual);
    codec_.reduceShard({call(), parameters_.ownShard, received.data(),
                        &input_[first * elementBytes(type_)], &residual[first],
                        ownerResidual.data(), parameters_.gain, parameters_.factor, reduced.data(),
                        false});
    golden_.setSection("reduced", reduced.data(), reduced.size());
    setFloats("nextOwnerResidual", ownerResidual);
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
      if (const Result<void> result = Generator(codec, type).write(folder); !result.ok()) {
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
