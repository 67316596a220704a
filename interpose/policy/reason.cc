#include "interpose/policy/reason.h"

#include <algorithm>
#include <iterator>

namespace cinch {
namespace {

constexpr const char* kClassNames[] = {"unknown", "gradient", "weights or state", "activation",
                                       "other"};

constexpr const char* classNameOf(CallClass callClass) {
  return kClassNames[static_cast<size_t>(callClass)];
}

constexpr ReasonText kTexts[kReasonCount] = {
#define CINCH_REASON(id, name, callClass, why, remedy) {why, remedy},
#include "interpose/policy/reasons.def"
#undef CINCH_REASON
};

}  // namespace

const char* const kReasonNames[kReasonCount] = {
#define CINCH_REASON(id, name, ...) name,
#include "interpose/policy/reasons.def"
#undef CINCH_REASON
};

const char* const kReasonClasses[kReasonCount] = {
#define CINCH_REASON(id, name, callClass, ...) classNameOf(CallClass::callClass),
#include "interpose/policy/reasons.def"
#undef CINCH_REASON
};

ReasonText textOf(Reason reason) {
  return kTexts[static_cast<size_t>(reason)];
}

std::optional<Reason> reasonOf(std::string_view name) {
  const auto found = std::find(std::begin(kReasonNames), std::end(kReasonNames), name);
  if (found == std::end(kReasonNames)) return std::nullopt;
  return static_cast<Reason>(found - std::begin(kReasonNames));
}

}  // namespace cinch
