#include "tests/unit/kernels/golden_vectors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

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
    GuardedBytes residual(golden_.section("residual"));
    GuardedBytes encoded(layout_.totalBytes(), 0);
    codec_.encodeShards({.call = startCall(),
                         .input = golden_.section("input").data(),
                         .inputFactor = golden_.inputFactor(),
                         .residual = pointerTo(residual),
                         .rule = golden_.rule(),
                         .output = encoded.data()});
    EXPECT_EQ(encoded.content(), golden_.section("encoded"));
    EXPECT_EQ(residual.content(), golden_.section("nextResidual"));
  }

  void expectReduce() {
    GuardedBytes residual(golden_.section("residual"));
    GuardedBytes ownerResidual(golden_.section("ownerResidual"));
    GuardedBytes reduced(layout_.strideBytes(), 0);
    ReduceLaunch launch = reduceLaunch(residual);
    launch.residual = pointerTo(ownerResidual);
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

  void expectReduceOfTwoCodes() {
    GuardedBytes values(golden_.section("pairValues").size(), 0);
    const uint64_t own = p_.ownShard * layout_.strideBytes();
    codec_.reduceShard({.call = startCall(),
                        .shard = p_.ownShard,
                        .peers = golden_.section("peers").data(),
                        .ownInput = nullptr,
                        .ownCodes = golden_.section("encoded").data() + own,
                        .ownResidual = nullptr,
                        .residual = nullptr,
                        .factor = p_.factor,
                        .output = nullptr,
                        .values = values.data()});
    EXPECT_EQ(values.content(), golden_.section("pairValues"));
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
            .ownResidual = pointerTo(residual),
            .residual = nullptr,
            .rule = golden_.rule(),
            .factor = p_.factor,
            .output = nullptr};
  }

  // Files without residuals are of calls without feedback.
  static uint8_t* pointerTo(GuardedBytes& residual) {
    return residual.size() > 0 ? residual.data() : nullptr;
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

void expectGoldenFile(const host::HostCodec& codec, const GoldenFile& golden) {
  const wire::ShardLayout layout = golden.layout();
  ASSERT_EQ(golden.section("input").size(), layout.count * elementBytes(golden.type()));
  ASSERT_EQ(golden.section("encoded").size(), layout.totalBytes());
  GoldenLaunches launches(codec, golden);
  launches.expectEncode();
  launches.expectReduce();
  launches.expectDecode();
  if (layout.fixedShard) launches.expectReduceIntoValues();
  if (!golden.section("pairValues").empty()) launches.expectReduceOfTwoCodes();
}

// Of codecs that the libraries have no more: tests/golden/independent_codec.py still decodes them.
constexpr size_t kRetiredFiles = 112;

std::vector<std::filesystem::path> goldenPaths() {
  const std::filesystem::directory_iterator folder(CINCH_GOLDEN_FOLDER "/v1");
  std::vector<std::filesystem::path> paths(begin(folder), end(folder));
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

void expectGoldenVectors(const host::HostCodec& codec) {
  size_t nRetired = 0;
  for (const auto& path : goldenPaths()) {
    SCOPED_TRACE(path.filename());
    const auto file = GoldenFile::read(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    if (file.value().layout().nShards == 0)
      ++nRetired;
    else
      expectGoldenFile(codec, file.value());
  }
  EXPECT_EQ(nRetired, kRetiredFiles);
}

void expectVectorsOfAllCodecs() {
  std::set<std::pair<uint8_t, ElementType>> seen;
  for (const auto& path : goldenPaths())
    if (const auto file = GoldenFile::read(path); file.ok())
      seen.emplace(file.value().layout().codec.id, file.value().type());
  for (const codec::CodecInfo& codec : codec::kCodecs)
    for (const ElementType type : kTypes)
      EXPECT_TRUE(seen.contains({codec.format.id, type}))
          << "no golden vectors of " << codec.name << " and " << nameOf(type);
}

}  // namespace cinch::test
