#include "interpose/policy/precision/precision_plan.h"

#include <algorithm>

#include "common/byte_order.h"
#include "common/hash.h"
#include "kernels/codec/registry.h"

namespace cinch {
namespace {

constexpr uint32_t kPlanMagic = 0x4C505043;  // "CPPL"
constexpr uint32_t kPlanVersion = 1;
constexpr size_t kHeadBytes = 32;
constexpr size_t kRunBytes = 8;
constexpr size_t kHashBytes = 8;
constexpr uint64_t kMaxTiles = uint64_t{1} << 40;  // of a run: sums do not overflow

size_t sizeFor(uint32_t nRuns) {
  return kHeadBytes + size_t{nRuns} * kRunBytes + kHashBytes;
}

Error refused(const char* why) {
  return errorf(Status::remoteError, "a plan of precisions is refused: %s", why);
}

// Head, size and hash: that the bytes are whole and of this version.
Result<void> checkFrame(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeadBytes) return refused("it is too short");
  if (loadLittle<uint32_t>(&bytes[0]) != kPlanMagic) return refused("it is no plan");
  if (loadLittle<uint32_t>(&bytes[4]) != kPlanVersion) return refused("its version is unknown");
  const auto nRuns = loadLittle<uint32_t>(&bytes[12]);
  if (nRuns == 0 || nRuns > kMaxSegments || bytes.size() != sizeFor(nRuns))
    return refused("its size is not what it says");
  const size_t hashed = bytes.size() - kHashBytes;
  if (loadLittle<uint64_t>(&bytes[hashed]) != hashBytes(bytes.data(), hashed))
    return refused("its bytes are damaged");
  return {};
}

Result<wire::Segment> decodeRun(uint64_t stored) {
  const codec::CodecInfo* codec = codec::findCodec(static_cast<uint8_t>(stored));
  const uint64_t nTiles = stored >> 8;
  if (!codec) return refused("it names a codec that is unknown");
  if (nTiles == 0 || nTiles > kMaxTiles) return refused("a run has no length that can be");
  return wire::Segment{nTiles, codec->format};
}

uint64_t tilesOf(const PrecisionPlan& plan) {
  uint64_t n = 0;
  for (const wire::Segment& run : plan.runs) n += run.nTiles;
  return n;
}

}  // namespace

std::vector<wire::Segment> runsOf(const PrecisionProblem& problem, const PrecisionChoice& choice) {
  std::vector<wire::Segment> runs;
  for (size_t i = 0; i < choice.candidates.size(); ++i) {
    const wire::CodecFormat& codec = problem.candidates[choice.candidates[i]];
    if (runs.empty() || !(runs.back().codec == codec)) runs.push_back({0, codec});
    runs.back().nTiles += problem.segments[i].nTiles;
  }
  return runs;
}

std::vector<wire::Segment> cutRuns(std::span<const wire::Segment> runs, uint64_t firstTile,
                                   uint64_t nTiles) {
  std::vector<wire::Segment> cut;
  uint64_t begin = 0;
  for (const wire::Segment& run : runs) {
    const uint64_t from = std::max(begin, firstTile);
    const uint64_t to = std::min(begin + run.nTiles, firstTile + nTiles);
    if (from < to) cut.push_back({to - from, run.codec});
    begin += run.nTiles;
  }
  return cut;
}

std::vector<uint8_t> encodePlan(const PrecisionPlan& plan) {
  std::vector<uint8_t> bytes(sizeFor(static_cast<uint32_t>(plan.runs.size())));
  storeLittle(kPlanMagic, &bytes[0]);
  storeLittle(kPlanVersion, &bytes[4]);
  storeLittle(plan.id, &bytes[8]);
  storeLittle(static_cast<uint32_t>(plan.runs.size()), &bytes[12]);
  storeLittle(plan.slot, &bytes[16]);
  storeLittle(plan.decidedAfter, &bytes[24]);
  uint8_t* at = &bytes[kHeadBytes];
  for (const wire::Segment& run : plan.runs) {
    storeLittle(run.nTiles << 8 | run.codec.id, at);
    at += kRunBytes;
  }
  storeLittle(hashBytes(bytes.data(), bytes.size() - kHashBytes), at);
  return bytes;
}

Result<PrecisionPlan> decodePlan(std::span<const uint8_t> bytes, const TilesOfSlot& tilesOfSlot) {
  CINCH_TRY(checkFrame(bytes));
  PrecisionPlan plan{.id = loadLittle<uint32_t>(&bytes[8]),
                     .slot = loadLittle<uint64_t>(&bytes[16]),
                     .decidedAfter = loadLittle<uint64_t>(&bytes[24]),
                     .runs = {}};
  for (size_t at = kHeadBytes; at < bytes.size() - kHashBytes; at += kRunBytes) {
    auto run = decodeRun(loadLittle<uint64_t>(&bytes[at]));
    CINCH_TRY(run);
    plan.runs.push_back(run.value());
  }
  const uint64_t nTiles = tilesOfSlot(plan.slot);
  if (nTiles == 0) return refused("it is for a call that is unknown");
  if (tilesOf(plan) != nTiles) return refused("its tiles are not those of the bucket");
  return plan;
}

}  // namespace cinch
