// One run of `cinch bench`: what it found, or why there is nothing.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/result.h"
#include "tools/cinch/tune/options.h"

namespace cinch::tune {

struct Timing {
  uint64_t nBytes;
  double microseconds;
  bool operator==(const Timing&) const = default;
};

struct Measurement {
  std::string ncclVersion;
  bool emulator = false;
  int nRanks = 0;
  int nNodes = 0;
  std::vector<Timing> timings;  // by size, rising
};

// Of what `cinch bench -J` writes.
Result<Measurement> measurementOf(const std::string& json);

nlohmann::json toJson(const Measurement& measurement);
Result<Measurement> measurementFrom(const nlohmann::json& json);

// Runs it with these variables (NAME=VALUE), without Cinch and without any other tuner. Its files
// are `scratch` with .json and .log, which do not outlive the call. The error is what it said last.
Result<Measurement> measure(const Options& options, const std::string& collective,
                            const std::vector<std::string>& variables, const std::string& scratch);

}  // namespace cinch::tune
