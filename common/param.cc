#include "common/param.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <set>
#include <string_view>

#include "common/host_name.h"
#include "common/param_kinds.h"

namespace cinch {
namespace {

constexpr std::string_view kPrefix = "CINCH_";

// Variables that the emulator reads, in processes where Cinch runs, too.
constexpr std::string_view kEmulatorPrefixes[] = {"CINCH_EMULATOR_", "CINCH_TORCH_"};
constexpr size_t kMaxQuoted = 64;

// Settings that had another name, and one of their values with it: read for one more release.
struct FormerName {
  std::string_view name, formerName;
  std::string_view value, formerValue;
};
constexpr FormerName kFormerNames[] = {{"CINCH_WHEN", "CINCH_STRATEGY", "always", "sra"}};

// The constant part of one entry of the table.
struct Entry {
  const char* name;
  const char* fallback;
  bool wire;
  const char* help;
};

// Calls visit(field, entry, kind) for every entry of the table, in its order.
template <class P, class Visitor>
void visitParams(P& params, Visitor&& visit) {
#define CINCH_CHOICE(field, Enum, NAME, fallback, choices, wire, help) \
  visit(params.field, Entry{#NAME, fallback, wire, help}, ChoiceKind<Enum>{choices});
#define CINCH_NAME(field, NAME, fallback, choices, wire, help) \
  visit(params.field, Entry{#NAME, fallback, wire, help}, NameKind{choices});
#define CINCH_SIZE(field, NAME, fallback, min, max, wire, help) \
  visit(params.field, Entry{#NAME, fallback, wire, help}, SizeKind{min, max});
#define CINCH_INT(field, NAME, fallback, min, max, unit, wire, help) \
  visit(params.field, Entry{#NAME, fallback, wire, help}, IntKind{min, max, unit});
#define CINCH_BOOL(field, NAME, fallback, wire, help) \
  visit(params.field, Entry{#NAME, fallback, wire, help}, BoolKind{});
#define CINCH_GAIN(field, NAME, fallback, wire, help) \
  visit(params.field, Entry{#NAME, fallback, wire, help}, GainKind{});
#define CINCH_TEXT(field, NAME, fallback, wire, help) \
  visit(params.field, Entry{#NAME, fallback, wire, help}, TextKind{});
#include "common/params.def"
#undef CINCH_CHOICE
#undef CINCH_NAME
#undef CINCH_SIZE
#undef CINCH_INT
#undef CINCH_BOOL
#undef CINCH_GAIN
#undef CINCH_TEXT
}

// What `environment` says for `name`; empty where it says nothing.
std::string_view lookUp(const char* const* environment, std::string_view name) {
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

// `text` for a message: one line, of bounded length.
std::string quoted(std::string_view text) {
  std::string result(text.substr(0, kMaxQuoted));
  std::replace_if(
      result.begin(), result.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  if (text.size() > kMaxQuoted) result += "...";
  return result;
}

// Reads one entry into its field and appends its row, and a warning where the value is bad.
struct EntryReader {
  const char* const* environment;
  ParamSet& set;

  template <class Kind>
  void operator()(typename Kind::Value& field, const Entry& entry, const Kind& kind) {
    std::string_view given = lookUp(environment, entry.name);
    if (given.empty()) given = lookUpFormer(entry.name);
    if constexpr (std::is_same_v<Kind, NameKind>)
      if (const char* const successor = kind.parse(given) ? nullptr : successorOfCodec(given)) {
        set.notices.push_back(std::string(entry.name) + ": " + retiredCodecText(given));
        given = successor;
      }
    const std::optional<typename Kind::Value> parsed = kind.parse(given);
    const bool fromEnvironment = !given.empty() && parsed;
    if (!given.empty() && !parsed) warn(entry, given, kind.range());
    field = fromEnvironment ? *parsed : kind.parse(entry.fallback).value_or(field);
    set.rows.push_back({entry.name, Kind::kName, kind.format(field), entry.fallback, kind.range(),
                        fromEnvironment ? "environment" : "default", entry.help, entry.wire});
  }

  std::string_view lookUpFormer(std::string_view name) {
    for (const FormerName& former : kFormerNames) {
      const std::string_view given =
          former.name == name ? lookUp(environment, former.formerName) : std::string_view();
      if (given.empty()) continue;
      const std::string_view value = given == former.formerValue ? former.value : given;
      set.notices.push_back(std::string(former.formerName) + " is called " +
                            std::string(former.name) + " now, and its value " +
                            std::string(former.formerValue) + " is called " +
                            std::string(former.value) + ": the next release will not read it");
      return value;
    }
    return {};
  }

  void warn(const Entry& entry, std::string_view given, const std::string& range) {
    set.warnings.push_back(std::string(entry.name) + "=" + quoted(given) + " is not valid (" +
                           range + "); using the default, " + entry.fallback);
  }
};

// Levenshtein's distance, one row at a time.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

const char* nearestName(const std::vector<ParamRow>& rows, std::string_view name) {
  const auto nearer = [name](const ParamRow& a, const ParamRow& b) {
    return editDistance(name, a.name) < editDistance(name, b.name);
  };
  return std::min_element(rows.begin(), rows.end(), nearer)->name;
}

bool isEmulators(std::string_view name) {
  return std::any_of(std::begin(kEmulatorPrefixes), std::end(kEmulatorPrefixes),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

void warnOfUnknownNames(const char* const* environment, ParamSet& set) {
  std::set<std::string_view> seen;
  for (const ParamRow& row : set.rows) seen.insert(row.name);
  for (const FormerName& former : kFormerNames) seen.insert(former.formerName);
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || isEmulators(name) || !seen.insert(name).second) continue;
    // Only the start is compared: a name that is longer than any parameter's is like none of them.
    const char* nearest = nearestName(set.rows, name.substr(0, kMaxQuoted));
    set.warnings.push_back(quoted(name) + " is not a parameter of Cinch; did you mean " + nearest +
                           "? (`cinch config` lists all)");
  }
}

// A path, or whether there is to be one: then `usual`.
std::string pathOr(const std::string& asked, const char* usual) {
  if (asked.empty()) return {};
  const std::optional<bool> wanted = BoolKind{}.parse(asked);
  if (!wanted) return expandPath(asked);
  return *wanted ? expandPath(usual) : std::string();
}

}  // namespace

ParamSet readParams(const char* const* environment) {
  ParamSet set{};
  visitParams(set.params, EntryReader{environment, set});
  warnOfUnknownNames(environment, set);
  return set;
}

const ParamSet& processParams() {
  // Never destroyed: the last report is written while the process's statics go.
  static const ParamSet* const set = new ParamSet(readParams(environ));
  return *set;
}

float errorFeedbackGain(const Params& params, float automatic) {
  if (params.errorFeedback == "auto") return automatic;
  return parseGainNumber(params.errorFeedback).value_or(0.0f);
}

std::string settingsText(const Params& params) {
  std::string text;
  visitParams(params, [&text](const auto& field, const Entry& entry, const auto& kind) {
    if (!entry.wire) return;
    if (!text.empty()) text += ' ';
    text += std::string(entry.name) + "=" + kind.format(field);
  });
  return text;
}

const char* environmentVariable(const char* name) {
  return std::getenv(name);
}

bool hasOneDeviceQueue() {
  const char* const connections = environmentVariable("CUDA_DEVICE_MAX_CONNECTIONS");
  return connections != nullptr && std::string_view(connections) == "1";
}

std::string statsPath(const Params& params) {
  return pathOr(params.stats, "cinch-stats.%h.%p");
}

std::string metricsPath(const Params& params) {
  return pathOr(params.metrics, "cinch.%h.%p");
}

std::string tracePath(const Params& params) {
  return pathOr(params.trace, "cinch.%h.%p");
}

std::string callLogPath(const Params& params) {
  return pathOr(params.callLog, "cinch.%h.%p");
}

std::string cacheFolder(const Params& params) {
  if (!params.cacheDir.empty()) return expandPath(params.cacheDir);
  const auto below = [](const char* variable, const char* folder) {
    const char* const home = environmentVariable(variable);
    return home == nullptr || *home != '/' ? std::string() : std::string(home) + folder;
  };
  const std::string shared = below("XDG_CACHE_HOME", "/cinch");
  return shared.empty() ? below("HOME", "/.cache/cinch") : shared;
}

std::string expandPath(const std::string& pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') {
      path += hostName();
    } else if (next == 'p') {
      path += std::to_string(getpid());
    } else if (next == '%') {
      path += '%';
    } else {
      path += pattern[i];
      continue;
    }
    ++i;
  }
  return path;
}

}  // namespace cinch
