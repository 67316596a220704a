// What the user says of calls (CINCH_RULES, docs/rules.md). Pure: a rule sees only facts that are
// equal on all ranks, and all ranks compare fingerprints of their rules before they compress.
//
// A rule never makes Cinch compress what it cannot: other sums than those of floats, calls that
// would not get smaller, communicators whose ranks do not agree.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "interpose/policy/signature.h"
#include "kernels/codec/registry.h"

namespace cinch {

// From `min` to `max`, both included.
struct Range {
  uint64_t min = 0;
  uint64_t max = std::numeric_limits<uint64_t>::max();
  bool holds(uint64_t value) const { return min <= value && value <= max; }
  bool operator==(const Range&) const = default;
};

struct Rule {
  // Actions, of which `passes` excludes the others.
  bool passes = false;
  bool isWanted = false;                    // whatever its size, and the switches of its kind, say
  bool isGradient = false;                  // whatever its place in the step says
  const codec::CodecInfo* codec = nullptr;  // null: the one that CINCH_CODEC names
  std::string retiredCodec;                 // the old name that `codec` was written with

  // Conditions, of which all must hold.
  std::optional<CallKind> kind;
  std::optional<ncclDataType_t> dataType;
  std::optional<OpClass> op;
  Range bytes;    // of the whole buffer
  Range ranks;    // of the communicator
  Range ordinal;  // calls of the same signature that the communicator made before

  bool operator==(const Rule&) const = default;
};

class Rules {
 public:
  Rules() = default;
  explicit Rules(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  // The first rule that holds for a call; null where none does. `seenBefore`: how often the
  // communicator has made such a call.
  const Rule* find(const Signature& signature, int nRanks, uint64_t seenBefore) const {
    return rules_.empty() ? nullptr : search(signature, nRanks, seenBefore);
  }

  bool empty() const { return rules_.empty(); }
  // What to tell users of names that are taken for one more release.
  std::vector<std::string> notices() const;
  // "none", or a number that is the same for the same rules, however they are written.
  std::string fingerprint() const;

  static constexpr size_t kMaxRules = 256;

 private:
  const Rule* search(const Signature& signature, int nRanks, uint64_t seenBefore) const;

  std::vector<Rule> rules_;
};

// "compress q4 operation=AllReduce min_bytes=1M; pass ranks=2": actions, then conditions. Errors
// name the rule and what is allowed.
Result<Rules> parseRules(std::string_view text);

// The same as CSV, whose first line names the columns. Empty lines and what follows a '#' are
// skipped. Errors name line and column.
Result<Rules> parseRuleFile(std::string_view text);

// The rule as parseRules() reads it, in one normalised form.
std::string describe(const Rule& rule);

}  // namespace cinch
