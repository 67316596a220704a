// The guard of a slot: every so often a call of it is also reduced exactly, and rank 0 compares the
// two, says whether the codec does what it should, and which precision each segment deserves. Pure;
// what it concludes reaches all ranks as the same bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/result.h"
#include "interpose/policy/precision/precision_plan.h"
#include "kernels/codec/registry.h"
#include "kernels/device_table.h"

namespace cinch {

// Which calls of a slot, counted from 0 and the same on all ranks, are examined, unless what
// follows from the last examination is not in force yet; and whether rank 0 has an opening for the
// first one. Slots take turns.
struct CheckupSchedule {
  uint64_t first = 0;
  uint64_t every = 0;  // 0: never
  bool hasOpening = false;

  bool examines(uint64_t call) const {
    return every > 0 && call >= first && (call - first) % every == 0;
  }
};
CheckupSchedule scheduleOf(uint64_t every, uint64_t slotIdentity, bool hasOpening = false);

// How a slot is coded, as far as precision goes.
struct Precision {
  const codec::CodecInfo* standard;  // what all segments have, or would have
  bool isAdaptive = false;           // each segment gets its own
  std::vector<PrecisionSegment> segments{};
};

// What rank 0 measured at one call.
struct Examination {
  std::span<const TileTally> own;     // by tile: its own values times its factor
  std::span<const TileTally> result;  // values: the exact result; others: the compressed one
  double codedError = 0;              // stage 1's account: summed squared error of what was coded,
  double codedPower = 0;              // and its power
  bool isOneBucket = true;            // false: several buckets share the slot
};

struct Finding {
  double nmse = 0;        // |compressed - exact|^2 / |exact|^2
  double powerRatio = 0;  // |compressed|^2 / |exact|^2
  double cosine = 0;      // of the angle between them
  double budget = 0;      // what nmse may be
  bool isBreach = false;
};

// What all ranks are told after an examination.
struct Advice {
  enum class Kind : uint8_t { keep, change, pass };
  Kind kind = Kind::keep;
  PrecisionPlan plan{};  // of a change
};

std::vector<uint8_t> encodeAdvice(const Advice& advice);
// Refuses everything but what encodeAdvice() writes for slot `slot` with a bucket of `nTiles`.
Result<Advice> decodeAdvice(std::span<const uint8_t> bytes, uint64_t slot, uint64_t nTiles);

// Rank 0's judgement of one slot.
class Adviser {
 public:
  struct Facts {
    uint64_t slot = 0;  // identity
    uint64_t count = 0;
    ElementType type{};
    uint32_t nRanks = 1;
    uint32_t nChunks = 1;
    uint32_t nLanes = 1;  // parts of the bucket that are coded apart (plan/host_plan.h),
    uint32_t nHosts = 0;  // each in so many shards; 0: in one for each rank
    bool isPair = false;  // or each as a whole, and not again as a sum (plan/collective_plan.h)
    float factor = 1;     // of the sum
    CodingRule rule{};
    uint64_t roomBytes = 0;  // what a plan's buffers may take, of each lane
  };
  Adviser(const Facts& facts, Precision precision);

  // The budget is 1.5 times what theory expects of the codecs in force: their error on the own
  // values of every rank but the owner, and on the exact sum (of a pair, on the values of both),
  // times 2 / (2 - gain) where feedback shapes it. Three breaches in a row raise the standard for
  // good; past 8 bits the slot passes. Where each segment gets its own, tiles with outliers
  // (outliers.h) are kept raw. Where several buckets share the slot there are neither.
  Advice advise(const Examination& examination, uint64_t call);
  // What holds from the first call to the first advice, where each segment gets its own precision:
  // what is known to be kept raw is, and all else gets more bits than the standard, since gradients
  // change most in the first steps. Also where a slot begins anew that had been given back.
  Advice opening();
  // From the next advice on, other segments; as many tiles.
  void cut(std::vector<PrecisionSegment> segments) { precision_.segments = std::move(segments); }

  bool isAdaptive() const { return precision_.isAdaptive; }
  const Finding& finding() const { return finding_; }
  const codec::CodecInfo& standard() const { return *precision_.standard; }

 private:
  Finding judge(const Examination& examination) const;
  double errorOf(std::span<const TileTally> tiles, double accounted) const;
  double nCoded() const;
  double expectedError(const Examination& examination) const;
  double roundingOf(double powers) const;
  bool raise();
  std::vector<PrecisionSegment> segmentsFor(std::span<const TileTally> result) const;
  std::vector<wire::Segment> uniform() const;
  std::vector<wire::CodecFormat> rawForms() const;
  std::vector<wire::Segment> wantedRuns(const Examination& examination,
                                        wire::CodecFormat raw) const;
  std::vector<wire::Segment> openingRuns(wire::CodecFormat codec, wire::CodecFormat raw) const;
  template <class RunsWith>
  std::vector<wire::Segment> fitting(const std::vector<wire::CodecFormat>& forms,
                                     const RunsWith& runsWith) const;
  bool fits(const std::vector<wire::Segment>& runs, bool mustPay) const;
  Advice change(std::vector<wire::Segment> runs, uint64_t decidedAfter);

  Facts facts_;
  Precision precision_;
  std::vector<wire::Segment> runs_;  // what it said last
  Finding finding_;
  uint32_t nBreaches_ = 0;  // in a row, of the standard in force
};

// Memory that any plan of a slot may need: that of 8 bits, and for small buckets that of fp32.
uint64_t roomFor(uint64_t count, uint32_t nRanks, wire::CodecFormat standard, uint32_t nChunks = 1);

}  // namespace cinch
