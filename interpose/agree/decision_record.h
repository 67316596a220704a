// What one rank of a communicator knows of the ranks' decisions, and what it has promised. Pure,
// without locks: decisions.h has both.
//
// All ranks count the communicator's calls alike: 0, 1, 2, ... A decision is in force from one of
// them on. The ranks' control threads settle which, by a two-phase commit at a call that no rank
// has claimed yet (docs/agreement.md, "Decisions"):
//
//   free      nothing is asked of this rank
//   marked    it has promised not to claim the call `mark` before it knows the outcome
//   in doubt  it had promised, and its connection has ended: the server must be asked
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/result.h"

namespace cinch {

// No call has this number. As `openBelow`: nothing will be decided any more.
inline constexpr uint64_t kNoOrdinal = UINT64_MAX;

struct Decision {
  uint64_t topic = 0;  // what it is about; the ranks use each number once, for the same
  std::vector<uint8_t> bytes{};
  auto operator<=>(const Decision&) const = default;
};

// Messages (agreement_wire.h).
struct Prepare;
struct Prepared;
struct Commit;
struct Withdraw;

class DecisionRecord {
 public:
  // Of the next call.
  enum class State { free, marked, inDoubt };
  State state() const;

  // In a state that is free: this rank makes its next call. Takes what is in force from that call
  // on and was not before.
  std::vector<Decision> claim();
  // The last call that was claimed did not take place: its number will be used again. What has been
  // claimed once is never promised.
  void takeBack();
  uint64_t claimed() const { return claimed_; }
  // This rank has had to wait before a mark.
  void noteWait() { hasWaited_ = true; }
  // How many calls the program makes in one training step; 0: not known.
  void setPeriod(uint64_t calls) { period_ = calls; }

  // From the server; errors where it breaks the protocol. prepare() refuses while a group is open
  // (`isBusy`). What arrives after the end is ignored, but for the outcome of what was promised.
  Result<std::optional<Prepared>> prepare(const Prepare& message, bool isBusy);
  Result<void> commit(const Commit& message);
  Result<void> withdraw(const Withdraw& message);
  // The connection has ended. Without this rank nothing can be decided any more.
  void end() { ended_ = true; }

  bool isMarked() const { return mark_.has_value(); }
  // The round of the promise that there is.
  std::optional<uint64_t> markedRound() const {
    return mark_ ? std::optional(mark_->round) : std::nullopt;
  }
  // True where nothing will be decided any more, as far as is known here.
  bool isOver() const { return ended_ || openBelow_ == kNoOrdinal; }
  bool hasEnded() const { return ended_; }
  // Whether what is known settles if a decision on `topic` is in force from the next call on: it
  // is, or that call is claimed by another rank, or none can be decided.
  std::optional<bool> isInForceAtNext(uint64_t topic) const;
  // What has been decided on `topic` and is not in force yet.
  const Decision* findCommitted(uint64_t topic) const;

  // Two that are equal go on alike.
  auto operator<=>(const DecisionRecord&) const = default;

 private:
  struct Mark {
    uint64_t round = 0;
    uint64_t ordinal = 0;
    uint64_t claimedBefore = 0;
    auto operator<=>(const Mark&) const = default;
  };
  struct Committed {
    uint64_t ordinal = 0;
    std::vector<Decision> decisions;
    auto operator<=>(const Committed&) const = default;
  };

  const Committed* committedWith(uint64_t topic) const;
  uint64_t lead() const;
  void forgetMark();

  uint64_t claimed_ = 0;
  uint64_t highest_ = 0;    // ever claimed, though taken back
  uint64_t openBelow_ = 0;  // no decision to come is in force from a call below
  uint64_t period_ = 0;
  uint64_t advance_ = 0;    // calls that must lie between a promise and its call
  bool hasWaited_ = false;  // before the mark that there is,
  bool isWary_ = false;     // or before an earlier one
  bool ended_ = false;
  std::optional<Mark> mark_;
  std::vector<Committed> committed_;  // by ordinal
};

}  // namespace cinch
