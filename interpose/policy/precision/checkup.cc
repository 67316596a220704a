#include "interpose/policy/precision/checkup.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "common/hash.h"
#include "interpose/policy/precision/error_model.h"
#include "interpose/policy/precision/outliers.h"
#include "interpose/policy/precision/segments.h"

namespace cinch {
namespace {

// The first calls of a slot belong to the warm-up of the job.
constexpr uint64_t kFirstCall = 10;
constexpr uint64_t kMostTurns = 16;
constexpr uint64_t kLeastApart = 4;  // what follows from one takes some calls

constexpr double kTolerance = 1.5;
// What rounding alone may do: a block's minimum is kept in bf16, and NCCL rounds 16-bit sums at
// every rank.
constexpr double kRounding = 1e-5;
constexpr double kRoundingPerRank = 2e-6;
constexpr double kLeastFp16Error = 0x1p-48 / 12;  // of a value near the smallest of fp16
constexpr uint32_t kBreachesToRaise = 3;
constexpr uint8_t kMostBits = 8;

constexpr uint8_t kPassWord = 0xff;

constexpr const codec::CodecInfo* kLadder[] = {
    codec::findCodec("q3"), codec::findCodec("q4"), codec::findCodec("q5"),
    codec::findCodec("q6"), codec::findCodec("q8"),
};

// Of adaptive precision. Each keeps a layer's error within an eighth of its power.
constexpr wire::CodecFormat kCandidates[] = {
    codec::formatOf("h2"), codec::formatOf("h3"), codec::formatOf("h4"), codec::formatOf("q4"),
    codec::formatOf("q5"), codec::formatOf("q6"), codec::formatOf("q8"),
};

// Small buckets may be kept raw as a whole, since half of one may be biases. DDP's first bucket has
// 1 MiB; larger ones need more than that in any case.
constexpr uint64_t kSmallRoom = 1 << 20;

std::vector<wire::CodecFormat> candidatesFor(wire::CodecFormat raw) {
  std::vector<wire::CodecFormat> all(std::begin(kCandidates), std::end(kCandidates));
  all.push_back(raw);
  return all;
}

// Of the opening: a quarter of the error of h3, for a third more bytes in 27 calls at most.
// Decision 009 says what training gains by it.
constexpr wire::CodecFormat kOpening = codec::formatOf("h4");

// What a run of tiles amounts to.
SegmentStatistics statisticsOf(std::span<const TileTally> tiles, uint64_t nValues) {
  SegmentStatistics sums{.count = nValues};
  for (const TileTally& tile : tiles) {
    sums.power += static_cast<double>(tile.power);
    sums.squaredRanges += static_cast<double>(tile.squaredRanges);
  }
  return sums;
}

// Calls visit(index, statistics) for each of consecutive runs of tiles.
template <class Runs, class Visit>
void forEachRun(const Runs& runs, std::span<const TileTally> tiles, uint64_t count,
                const Visit& visit) {
  uint64_t first = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const uint64_t n = runs[i].nTiles, firstValue = first * wire::kTileElems;
    const uint64_t nValues = std::min(n * wire::kTileElems, count - std::min(count, firstValue));
    visit(i, statisticsOf(tiles.subspan(first, n), nValues));
    first += n;
  }
}

double powerOf(std::span<const TileTally> tiles) {
  double sum = 0;
  for (const TileTally& tile : tiles) sum += static_cast<double>(tile.power);
  return sum;
}

bool isSame(const std::vector<wire::Segment>& a, const std::vector<wire::Segment>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.nTiles == y.nTiles && x.codec == y.codec;
  });
}

uint32_t planIdOf(const PrecisionPlan& plan) {
  const uint64_t facts[] = {plan.slot, plan.decidedAfter};
  const uint64_t hash = hashBytes(reinterpret_cast<const uint8_t*>(facts), sizeof facts);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

}  // namespace

CheckupSchedule scheduleOf(uint64_t every, uint64_t slotIdentity, bool hasOpening) {
  if (every == 0) return {};
  const uint64_t apart = std::max(every, kLeastApart);
  return {std::min(apart, kFirstCall) + slotIdentity % std::min(apart, kMostTurns), apart,
          hasOpening};
}

uint64_t roomFor(uint64_t count, uint32_t nRanks, wire::CodecFormat standard, uint32_t nChunks) {
  const wire::ShardLayout own{count, nRanks, standard, 0, nChunks};
  const wire::ShardLayout most{count, nRanks, codec::formatOf("q8"), 0, nChunks};
  const wire::ShardLayout raw{count, nRanks, codec::formatOf("fp32"), 0, nChunks};
  return std::max({own.chunkBytes(nChunks), most.chunkBytes(nChunks),
                   std::min(raw.chunkBytes(nChunks), kSmallRoom)});
}

std::vector<uint8_t> encodeAdvice(const Advice& advice) {
  switch (advice.kind) {
    case Advice::Kind::keep:
      return {};
    case Advice::Kind::pass:
      return {kPassWord};
    default:
      return encodePlan(advice.plan);
  }
}

Result<Advice> decodeAdvice(std::span<const uint8_t> bytes, uint64_t slot, uint64_t nTiles) {
  if (bytes.empty()) return Advice{};
  if (bytes.size() == 1 && bytes[0] == kPassWord) return Advice{.kind = Advice::Kind::pass};
  auto plan = decodePlan(bytes, [&](uint64_t other) { return other == slot ? nTiles : 0; });
  CINCH_TRY(plan);
  return Advice{Advice::Kind::change, std::move(plan.value())};
}

Adviser::Adviser(const Facts& facts, Precision precision)
    : facts_(facts), precision_(std::move(precision)) {
  runs_ = uniform();
}

Advice Adviser::advise(const Examination& examination, uint64_t call) {
  finding_ = judge(examination);
  // Where the exact values are not finite, or all zero, there is nothing to learn.
  if (!(finding_.budget > 0 && std::isfinite(finding_.budget))) return {};
  nBreaches_ = finding_.isBreach ? nBreaches_ + 1 : 0;
  if (nBreaches_ == kBreachesToRaise && !raise()) return Advice{.kind = Advice::Kind::pass};
  const auto wanted = [&](wire::CodecFormat raw) { return wantedRuns(examination, raw); };
  return change(fitting(rawForms(), wanted), call + 1);
}

// A slot that was given back before its first call begins anew.
Advice Adviser::opening() {
  runs_ = uniform();
  nBreaches_ = 0;
  if (!precision_.isAdaptive) return {};
  const wire::CodecFormat standard = precision_.standard->format;
  const wire::CodecFormat codec = standard.bits < kOpening.bits ? kOpening : standard;
  std::vector<wire::CodecFormat> forms = rawForms();
  forms.push_back(codec);
  return change(fitting(forms, [&](wire::CodecFormat raw) { return openingRuns(codec, raw); }), 0);
}

std::vector<wire::Segment> Adviser::openingRuns(wire::CodecFormat codec,
                                                wire::CodecFormat raw) const {
  std::vector<wire::Segment> runs;
  for (const PrecisionSegment& segment : precision_.segments) {
    const wire::CodecFormat own = segment.keptRaw ? raw : codec;
    if (runs.empty() || runs.back().codec != own) runs.push_back({0, own});
    runs.back().nTiles += segment.nTiles;
  }
  return runs;
}

std::vector<wire::Segment> Adviser::uniform() const {
  return {{wire::ShardLayout::tilesOf(facts_.count), precision_.standard->format}};
}

// What is kept raw arrives as NCCL would deliver it, in the type of the buffer; sums of hosts,
// which are divided later, may be too large for fp16. Where there are too many such tiles, in 16
// bits.
std::vector<wire::CodecFormat> Adviser::rawForms() const {
  if (facts_.type == ElementType::fp32 || (facts_.type == ElementType::fp16 && facts_.nHosts > 0))
    return {codec::formatOf("fp32"), codec::formatOf("bf16")};
  return {facts_.type == ElementType::fp16 ? codec::formatOf("fp16") : codec::formatOf("bf16")};
}

// The runs with the first of these raw forms that fits; where none does, the standard for all.
template <class RunsWith>
std::vector<wire::Segment> Adviser::fitting(const std::vector<wire::CodecFormat>& forms,
                                            const RunsWith& runsWith) const {
  for (const wire::CodecFormat& raw : forms) {
    std::vector<wire::Segment> runs = runsWith(raw);
    if (fits(runs, true)) return runs;
  }
  return uniform();
}

Finding Adviser::judge(const Examination& examination) const {
  double exact = 0, compressed = 0, product = 0, error = 0;
  for (const TileTally& tile : examination.result) {
    exact += static_cast<double>(tile.power);
    compressed += static_cast<double>(tile.otherPower);
    product += static_cast<double>(tile.product);
    error += static_cast<double>(tile.error);
  }
  Finding finding;
  if (exact == 0) return finding;
  finding.nmse = error / exact;
  finding.powerRatio = compressed / exact;
  finding.cosine = compressed > 0 ? product / std::sqrt(exact * compressed) : 0;
  finding.budget = kTolerance * expectedError(examination) / exact;
  finding.isBreach = std::isfinite(finding.budget) && !(finding.nmse <= finding.budget);
  return finding;
}

// Of coding these values once. Theory is off by up to 2 where most values are zero: stage 1's own
// account is trusted that far, and altogether for codecs that theory does not cover.
double Adviser::errorOf(std::span<const TileTally> tiles, double accounted) const {
  double predicted = 0;
  bool isPredicted = true;
  forEachRun(runs_, tiles, facts_.count, [&](size_t i, const SegmentStatistics& statistics) {
    const auto error =
        predictError(*codec::findCodec(runs_[i].codec.id), facts_.rule.rounding, statistics);
    isPredicted = isPredicted && error;
    predicted += error.value_or(0);
  });
  const double told = accounted * powerOf(tiles);
  return isPredicted ? std::max(predicted, std::min(told, 2 * predicted)) : told;
}

// Of how many ranks the sum has values that were coded: all but the owner, or but its host's.
double Adviser::nCoded() const {
  const double nRanks = facts_.nRanks, nParts = facts_.nHosts ? facts_.nHosts : nRanks;
  if (facts_.isPair) return nRanks;
  return nRanks * (nParts - 1) / nParts;
}

// The ranks' values are taken to have rank 0's power and nothing in common, but no less than the
// sum: it may be the one that has nothing to add.
double Adviser::expectedError(const Examination& examination) const {
  const double accounted =
      examination.codedPower > 0 ? examination.codedError / examination.codedPower : 0;
  const double squares =
      static_cast<double>(facts_.factor) * static_cast<double>(facts_.factor) * nCoded();
  const double second = errorOf(examination.result, accounted);
  const double first = std::max(squares * errorOf(examination.own, accounted), second);
  const double shaping = 2 / (2 - static_cast<double>(facts_.rule.gain));
  const double powers = squares * powerOf(examination.own) + powerOf(examination.result);
  return shaping * (facts_.isPair ? first : first + second) + roundingOf(powers);
}

double Adviser::roundingOf(double powers) const {
  const bool isShort = facts_.type != ElementType::fp32;
  const double relative = kRounding + (isShort ? kRoundingPerRank * facts_.nRanks : 0);
  const double nRounded =
      facts_.type == ElementType::fp16 ? static_cast<double>(facts_.count) * facts_.nRanks : 0;
  return relative * powers + kLeastFp16Error * nRounded;
}

// False where there is nothing above.
bool Adviser::raise() {
  nBreaches_ = 0;
  const uint8_t bits = precision_.standard->format.bits;
  const auto next = std::find_if(std::begin(kLadder), std::end(kLadder),
                                 [&](const auto* codec) { return codec->format.bits > bits; });
  if (bits >= kMostBits || next == std::end(kLadder)) return false;
  precision_.standard = *next;
  return true;
}

std::vector<PrecisionSegment> Adviser::segmentsFor(std::span<const TileTally> result) const {
  const std::vector<uint64_t> outliers = outlierTiles(result);
  if (precision_.segments.size() + 2 * outliers.size() > kMaxSegments) return precision_.segments;
  return withRawTiles(precision_.segments, outliers);
}

std::vector<wire::Segment> Adviser::wantedRuns(const Examination& examination,
                                               wire::CodecFormat raw) const {
  if (!precision_.isAdaptive || !examination.isOneBucket) return uniform();
  const wire::CodecFormat standard = precision_.standard->format;
  const std::vector<wire::CodecFormat> candidates = candidatesFor(raw);
  const std::vector<PrecisionSegment> segments = segmentsFor(examination.result);
  // Layers that had nothing to add this time keep the standard.
  const double unknown = std::nan("");
  std::vector<double> errors;
  forEachRun(
      segments, examination.result, facts_.count, [&](size_t, const SegmentStatistics& statistics) {
        for (const wire::CodecFormat& candidate : candidates) {
          const auto error =
              predictError(*codec::findCodec(candidate.id), facts_.rule.rounding, statistics);
          errors.push_back(statistics.power > 0 ? error.value_or(unknown) : unknown);
        }
      });
  const auto place = std::find(candidates.begin(), candidates.end(), standard);
  const PrecisionProblem problem{.segments = segments,
                                 .candidates = candidates,
                                 .standard = static_cast<uint32_t>(place - candidates.begin()),
                                 .raw = static_cast<uint32_t>(candidates.size() - 1),
                                 .errors = errors};
  return runsOf(problem, fewestBytes(problem));
}

// Into the room that there is, and `mustPay`: into three quarters of what NCCL would send. Each
// shard takes the bytes of the largest one: of small buckets among many ranks a single raw tile is
// much.
bool Adviser::fits(const std::vector<wire::Segment>& runs, bool mustPay) const {
  const wire::ShardLayout lanes{facts_.count, facts_.nLanes, {}};
  const uint32_t nParts = facts_.nHosts ? facts_.nHosts : facts_.nRanks;
  const uint32_t nShards = facts_.isPair ? 1 : nParts;
  for (uint32_t lane = 0; lane < facts_.nLanes; ++lane) {
    const auto ownRuns = cutRuns(runs, lanes.firstTile(lane), lanes.shardTiles(lane));
    const wire::MixedLayout layout(lanes.shardElems(lane), nShards, ownRuns, facts_.nChunks);
    const uint64_t nBytes = layout.layout().chunkBytes(facts_.nChunks);
    const uint64_t plain = lanes.shardElems(lane) * elementBytes(facts_.type);
    if (nBytes > facts_.roomBytes || (mustPay && nBytes > plain - plain / 4)) return false;
  }
  return true;
}

Advice Adviser::change(std::vector<wire::Segment> runs, uint64_t decidedAfter) {
  if (isSame(runs, runs_) || !fits(runs, false)) return {};
  runs_ = std::move(runs);
  Advice advice{Advice::Kind::change, {}};
  advice.plan.slot = facts_.slot;
  advice.plan.decidedAfter = decidedAfter;
  advice.plan.runs = runs_;
  advice.plan.id = planIdOf(advice.plan);
  return advice;
}

}  // namespace cinch
