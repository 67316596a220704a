#include "tests/unit/kernels/golden_vectors.h"

#include <gtest/gtest.h>

#include "tests/golden/golden_file.h"
#include "tests/unit/kernels/support.h"

namespace cinch::test {
namespace {

// The launches of a golden file, from the sections that it says they start from.
class GoldenLaunches {
 public:
  GoldenLaunches(const host::HostCodec& codec, const GoldenFile& golden)
      : codec_(codec), golden_(golden), p_(golden.parameters()), layout_(golden.layout()) {}

  void expectEncode() {
    GuardedBytes residual(golden_.section("residual")), encoded(layout_.totalBytes(), 0);
    codec_.encodeShards({.call = startCall(),
                         .input = golden_.section("input").data(),
                         .inputFactor = golden_.inputFactor(),
                         .residual = residual.floats(),
                         .gain = p_.gain,
                         .output = encoded.data(),
                         .skipShard = -1,
                         .measure = false});
    EXPECT_EQ(encoded.content(), golden_.section("encoded"));
    EXPECT_EQ(residual.content(), golden_.section("nextResidual"));
  }

  void expectReduce() {
    GuardedBytes residual(golden_.section("residual"));
    GuardedBytes ownerResidual(golden_.section("ownerResidual"));
    GuardedBytes reduced(layout_.strideBytes(), 0);
    ReduceLaunch launch = reduceLaunch(residual);
    launch.residual = ownerResidual.floats();
    launch.output = reduced.data();
    codec_.reduceShard(launch);
    EXPECT_EQ(reduced.content(), golden_.section("reduced"));
    EXPECT_EQ(ownerResidual.content(), golden_.section("nextOwnerResidual"));
    EXPECT_EQ(fault_, 0u);
  }

  void expectReduceIntoValues() {
    GuardedBytes residual(golden_.section("residual"));
    GuardedBytes values(golden_.section("values").size(), 0);
    ReduceLaunch launch = reduceLaunch(residual);
    launch.values = values.data();
    codec_.reduceShard(launch);
    EXPECT_EQ(values.content(), golden_.section("values"));
    expectEndOfCall();
  }

  void expectDecode() {
    GuardedBytes decoded(golden_.section("input").size(), 0);
    codec_.decodeShards({.call = startCall(),
                         .input = golden_.section("encoded").data(),
                         .output = decoded.data()});
    EXPECT_EQ(decoded.content(), golden_.section("decoded"));
    expectEndOfCall();
  }

 private:
  CallContext startCall() {
    state_ = {};
    state_.ordinal = p_.ordinal;
    return {layout_, golden_.type(), p_.planId, p_.slot, &state_, &fault_};
  }

  ReduceLaunch reduceLaunch(GuardedBytes& residual) {
    const uint64_t first = layout_.firstElem(p_.ownShard);
    return {.call = startCall(),
            .shard = p_.ownShard,
            .peers = golden_.section("peers").data(),
            .ownInput = &golden_.section("input")[first * elementBytes(golden_.type())],
            .inputFactor = golden_.inputFactor(),
            .ownResidual = residual.floats() + first,
            .residual = nullptr,
            .gain = p_.gain,
            .factor = p_.factor,
            .output = nullptr,
            .measure = false};
  }

  void expectEndOfCall() const {
    EXPECT_EQ(state_.ordinal, p_.ordinal + 1);
    EXPECT_EQ(state_.poisonOrdinal, state_.ordinal) << "the vectors hold NaNs";
    EXPECT_EQ(fault_, 0u);
  }

  const host::HostCodec& codec_;
  const GoldenFile& golden_;
  const GoldenParameters p_;
  const wire::ShardLayout layout_;
  SlotState state_{};
  uint32_t fault_ = 0;
};

void expectGoldenFile(const host::HostCodec& codec, const std::string& name) {
  SCOPED_TRACE(name);
  const auto file = GoldenFile::read(CINCH_GOLDEN_FOLDER "/v1/" + name);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const GoldenFile& golden = file.value();
  const wire::ShardLayout layout = golden.layout();
  ASSERT_EQ(golden.section("input").size(), layout.count * elementBytes(golden.type()));
  ASSERT_EQ(golden.section("encoded").size(), layout.totalBytes());
  GoldenLaunches launches(codec, golden);
  launches.expectEncode();
  launches.expectReduce();
  launches.expectDecode();
  if (layout.fixedShard) launches.expectReduceIntoValues();
}

}  // namespace

void expectGoldenVectors(const host::HostCodec& codec) {
  for (const wire::Codec bits : kCodecs)
    for (const ElementType type : kTypes)
      for (const char* cut : {"", "fixed_"})
        expectGoldenFile(codec, cut + nameOf(bits) + "_" + nameOf(type) + ".bin");
}

}  // namespace cinch::test
