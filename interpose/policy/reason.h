// Why a call is compressed or passes, and what it is taken for, as values with texts for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cinch {

// Reason::none: it does not pass, but is compressed. reasons.def explains the others.
enum class Reason : uint8_t {
#define CINCH_REASON(id, ...) id,
#include "interpose/policy/reasons.def"
#undef CINCH_REASON
  count_,
};

// What a recurring call is taken for.
enum class CallClass : uint8_t { unknown, gradient, state, activation, other };

inline constexpr int kReasonCount = static_cast<int>(Reason::count_);

// In the order of the enum: names for the report, and what a call is taken for that passes so:
// "gradient", "weights or state", "activation", "other" or "unknown".
extern const char* const kReasonNames[kReasonCount];
extern const char* const kReasonClasses[kReasonCount];

// What to tell a user: half a sentence on why a call passed, and on what can be done about it.
struct ReasonText {
  const char* why;
  const char* remedy;
};
ReasonText textOf(Reason reason);

// The reason of a name in a report.
std::optional<Reason> reasonOf(std::string_view name);

}  // namespace cinch
