// Parameters: read once from the environment, checked, and passed down as one constant struct.
//
// The only place in Cinch that reads the environment. The table is params.def.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/codec_names.h"
#include "common/result.h"

namespace cinch {

enum class Mode : int { off, observe, on };
enum class ResidualChoice : int { fp32, bf16, int8 };
enum class RoundingChoice : int { nearest, stochastic };
enum class WhenChoice : int { automatic, always };
enum class HierarchyChoice : int { automatic, off };
enum class PairChoice : int { automatic, off };
enum class SameHostChoice : int { automatic, pass, compress };
enum class SlotChoice : int { signature, sequence };
enum class ChunkChoice : int { kib32, kib64, kib128 };
enum class ChecksumChoice : int { off, sampled, all };
enum class NetChoice : int { automatic, verbs, socket };

struct Params {
#define CINCH_CHOICE(field, Enum, NAME, ...) Enum field;
#define CINCH_NAME(field, NAME, ...) std::string field;
#define CINCH_SIZE(field, NAME, ...) uint64_t field;
#define CINCH_INT(field, NAME, ...) int64_t field;
#define CINCH_BOOL(field, NAME, ...) bool field;
#define CINCH_GAIN(field, NAME, ...) std::string field;
#define CINCH_TEXT(field, NAME, ...) std::string field;
#include "common/params.def"
#undef CINCH_CHOICE
#undef CINCH_NAME
#undef CINCH_SIZE
#undef CINCH_INT
#undef CINCH_BOOL
#undef CINCH_GAIN
#undef CINCH_TEXT
};

// One row of the table with the value in force: what `cinch config` prints.
struct ParamRow {
  const char* name;      // CINCH_...
  const char* kind;      // choice, name, size, int, bool, gain, text
  std::string value;     // as text, normalised
  const char* fallback;  // the default, as text
  std::string range;     // "off|observe|on", "1K..1T", "1..3600 seconds", ""
  const char* source;    // "default" or "environment"
  const char* help;
  bool wire;
};

// All that was read, with what the user should be told about it.
struct ParamSet {
  Params params;
  std::vector<ParamRow> rows;
  std::vector<std::string> warnings;  // unknown names with a suggestion, bad values with the range
  std::vector<std::string> notices;   // old values for which their successors are taken
};

// Reads `environment` (NAME=VALUE strings, ended by null). An empty value counts as unset, and of
// several entries of one name the first counts, as for getenv. A bad value falls back to the
// default and is named in `warnings`; so is every CINCH_* name that the table lacks.
ParamSet readParams(const char* const* environment);

// The process's own parameters, read at the first call; its warnings are logged once, by the
// interposer when it arms. Thread-safe.
const ParamSet& processParams();

// The error feedback gain that `params.errorFeedback` asks for: 0 is off; `automatic` where it
// leaves the choice.
float errorFeedbackGain(const Params& params, float automatic);

// All parameters marked `wire` as "CINCH_MODE=on CINCH_CODEC=q4 ...", for messages that name a
// difference.
std::string settingsText(const Params& params);

// A variable that belongs to somebody else (NCCL_DEBUG, NCCL_HOSTID, ...); null where unset.
const char* environmentVariable(const char* name);
// CUDA_DEVICE_MAX_CONNECTIONS=1: streams share a queue, in which work waits for what was enqueued
// before it on any of them.
bool hasOneDeviceQueue();

// The path that the report goes to, expanded: empty where CINCH_STATS asks for none.
std::string statsPath(const Params& params);
// The same of the metrics and CINCH_METRICS.
std::string metricsPath(const Params& params);
std::string tracePath(const Params& params);
std::string callLogPath(const Params& params);

// The folder of what was measured on this machine, expanded: empty where neither CINCH_CACHE_DIR
// nor a home says which.
std::string cacheFolder(const Params& params);

// Replaces %h by the short host name and %p by the process id, %% by %; any other % stays.
std::string expandPath(const std::string& pattern);

}  // namespace cinch
