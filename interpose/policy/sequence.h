// Where in the training step a collective stands. A job makes the same calls in every step, so the
// stream of one communicator's collectives repeats itself; its period is learned here from their
// signatures, and the position of a call in the period then says which parameters its buffer holds.
//
// Pure, and fed by one communicator's collectives only, so that every rank learns the same at the
// same call. Whatever is in doubt is unknown.
//
// - A period counts when it has held for three times as long as any structure that broke: runs of
//   equal layers repeat themselves, too.
// - It is ambiguous, and may be made of layers or of activations, unless it is seen to reduce the
//   whole model by reductions that can be told apart. Then it counts from its fourth time on.
// - A step is made of large calls: sums and averages of floating-point values, gathers, and
//   broadcasts of floating-point values. Losses, norms, counts, maxima and orders say nothing: a
//   rank may capture them into a graph of its own, where they are not seen, while another one makes
//   them.
// - Calls that are not part of the period are ignored unless they are large reductions: what an
//   evaluation gathers. Any other surprise ends the epoch, and the position is
//   unknown until a whole period has been seen again. An ambiguous period is forgotten then, and so
//   is one that holds for less than two periods. Where the period has gone on as if there had been
//   no surprise, the next one like it is ignored, of one call or of several in a row: averages of
//   weights every so often.
// - New parameters end an epoch, too. The period goes on if they are as many as before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "interpose/policy/evidence.h"
#include "interpose/policy/model_size.h"
#include "interpose/policy/period_finder.h"
#include "interpose/policy/signature.h"

namespace cinch {

struct Place {
  enum class Kind : uint8_t {
    unknown,    // no period, or the call is not part of it
    ambiguous,  // there is a period, which may be less than a step, or of no gradients
    known,
  };
  Kind kind = Kind::unknown;
  uint32_t epoch = 0;  // of the learned period; never used again
  uint32_t slot = 0;  // of a large reduction; two of an epoch have the same for the same parameters
  uint32_t position = 0;  // in the period, from wherever that was learned on
  bool operator==(const Place&) const = default;
};

// An AllReduce of floating-point values in the learned period.
struct GradientCall {
  ncclDataType_t type;
  uint64_t count;                // elements
  std::optional<uint32_t> slot;  // that of its Place; none where it is small
  bool operator==(const GradientCall&) const = default;
};

class Sequence {
 public:
  // The place of the next call. `index` is that of its signature, `isLarge` whether it moves enough
  // bytes to matter.
  Place observe(const Signature& signature, uint32_t index, bool isLarge);
  // The same for a call whose signature has no index any more: large ones are like no other.
  Place observeUnknown(const Signature& signature, bool isLarge);
  // How many calls of a period have the signature of that index; 1 where that is not known.
  uint32_t timesPerPeriod(uint32_t index) const {
    return index < period_.times.size() ? std::max(period_.times[index], 1u) : 1;
  }
  // Calls of the learned period; 0 where there is none, or where its position is lost.
  uint32_t period() const {
    return cursor_.isOnTrack ? static_cast<uint32_t>(period_.word.size()) : 0;
  }

  // Those of the learned period in order, from any of them on, and the small ones that were made
  // between them last, which may differ from rank to rank; none where calls have no known place.
  std::vector<GradientCall> gradients() const;

  // The learned period, as what it reduces is to be judged, and a number for it: it keeps that when
  // it goes on after a surprise, in another epoch.
  TrainingStep step() const;
  uint32_t learned() const { return period_.number; }
  // Of a next call with that signature while the position is lost: where it belongs if the period
  // goes on. None where the period has several such calls.
  std::optional<Place> expected(uint32_t index) const;

  // Whether a large reduction was made since parameters were broadcast.
  bool hasReduced() const { return model_.hasReduced(); }

 private:
  struct Symbol {
    Signature signature{};
    bool isLarge = false;
    uint64_t times = 0;  // that it was observed
    bool isOfStep() const { return cinch::isOfStep(signature, isLarge); }
    bool isLargeReduction() const;
    bool isLargeGather() const;
  };
  struct Observed {
    uint32_t symbol;
    uint32_t position;  // in the learned period, where it has one
    bool bringsParameters;
  };
  // What ended the epoch: calls in a row that are no part of the period, and where they came.
  struct Surprise {
    std::vector<uint32_t> calls;
    uint32_t position = 0;  // that the first one had in place of the period's own call
    bool bringsParameters = false;
  };
  struct Cursor {
    bool isOnTrack = false;
    uint32_t position = 0;  // of the next call
  };
  // One position of the learned period.
  struct Step {
    uint32_t symbol;
    uint32_t slot;
    // When it was made last, for gradients(): nothing else depends on them.
    std::vector<GradientCall> smallBefore;
  };

  // Large reductions that are no part of the period: it went on as if they had not been made.
  struct Beside {
    std::vector<uint32_t> calls;  // each as often as it may come in a row
    uint32_t nInARow = 0;         // of the last ones
    uint32_t since = 0;           // calls of the period since then
  };

  // The learned one.
  struct Period {
    std::vector<Step> word;
    std::vector<uint32_t> times;  // that each symbol occurs in it
    Beside beside;
    Place::Kind kind = Place::Kind::unknown;
    bool isSharded = false;
    uint64_t parameters = 0;  // of the model that was broadcast
    uint32_t number = 0;      // of those learned so far
    bool isYoung(uint32_t heldFor) const;
    bool has(uint32_t symbol) const;
    bool isBeside(uint32_t symbol) const;
  };

  // What the calls of a period amount to.
  struct Content {
    std::vector<uint32_t> reductions;  // the large ones
    uint64_t gathered = 0;             // values, by large calls
    uint32_t nRuns = 0;                // runs of calls of either sort, round and round
    uint32_t nPerStep = 0;  // reductions that differ in what they hold; then others like them
    bool isSharded = false;
    bool isWholeModel = false;  // or all of a sharded one
    bool looksAlike() const;
  };

  Place follow(const Observed& call);
  bool isIgnorable(uint32_t symbol) const;
  bool isNewParameters(uint32_t symbol) const;
  // The search for a period goes on with the calls before, where they may be part of one.
  void forget(bool isPartOfStream = false);
  void lose(const Observed& surprise);
  void keep(const Observed& call);
  void rejoin(uint32_t symbol);
  bool fitsParameters() const;
  void takeForBeside();
  void noteBeside();
  void learn(uint32_t symbol);
  void lock(uint32_t length);

  uint32_t callsEnoughFor(std::span<const uint32_t> word) const;
  Content contentOf(std::span<const uint32_t> word) const;
  uint64_t valuesOf(std::span<const uint32_t> calls) const;
  uint64_t parametersFor(std::span<const uint32_t> reductions) const;
  bool isWholeModel(std::span<const uint32_t> reductions) const;
  bool isShardedModel(const Content& content) const;
  uint32_t callsPerStep(std::span<const uint32_t> reductions) const;

  std::vector<Symbol> symbols_;  // by index of the signature
  Cursor cursor_;
  Period period_;
  // Its calls since the word began to repeat itself, or was seen whole again.
  uint32_t heldFor_ = 0;
  uint32_t epoch_ = 0;
  // While lost: the calls with which that began, how many calls have fitted each rotation of the
  // word, and how many had to.
  Surprise surprise_;
  std::vector<uint32_t> fits_;
  uint32_t sinceLost_ = 0;
  bool wentOn_ = false;  // after those calls, as if they had not been made

  std::vector<GradientCall> small_;  // since the last call of the period
  PeriodFinder finder_;
  ModelSize model_;
};

}  // namespace cinch
