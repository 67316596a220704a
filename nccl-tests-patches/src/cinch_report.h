// What Cinch says of the calls of one size: read from the report that CINCH_STATS asks for. C++14,
// host only; knows neither NCCL nor CUDA.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace cinch {
inline namespace nccl_tests {  // the library has types of the same names

struct CallFigures {
  uint64_t calls = 0;
  uint64_t compressed = 0;
  uint64_t wireBytes = 0;  // of all compressed calls, what this rank sends
  std::string latest;      // "compressed", or why it passed
  std::string codec;
};

// One object of a JSON text, from its "name" to the next one's.
struct JsonPart {
  const std::string& text;
  size_t from;
  size_t to;

  // The value of a field, without quotes; empty where there is none.
  std::string field(const std::string& key) const {
    const std::string quoted = "\"" + key + "\":";
    size_t at = text.find(quoted, from);
    if (at == std::string::npos || at >= to) return "";
    at = text.find_first_not_of(" \n", at + quoted.size());
    if (at == std::string::npos) return "";
    if (text[at] == '"') return text.substr(at + 1, text.find('"', at + 1) - at - 1);
    return text.substr(at, text.find_first_of(",}] \n", at) - at);
  }
  uint64_t number(const std::string& key) const {
    return std::strtoull(field(key).c_str(), nullptr, 10);
  }
};

// Figures of the calls of a name ("AllReduce fp32 Sum x 1024"), of the first communicator that made
// some. A report has them in two places: all calls, with their "class", and the compressed ones.
inline CallFigures figuresOf(const std::string& report, const std::string& name) {
  CallFigures figures;
  bool hasCalls = false;
  bool hasSlot = false;
  const std::string start = "\"name\": \"" + name + "\"";
  for (size_t at = report.find(start); at != std::string::npos;) {
    const JsonPart part{report, at, report.find("\"name\":", at + 1)};
    at = report.find(start, at + 1);
    if (part.field("class").empty()) {
      if (hasSlot) continue;
      hasSlot = true;
      figures.wireBytes = part.number("wire_bytes");
      figures.codec = part.field("codec");
      const std::string inForce = part.field("codec_in_force");
      if (figures.codec != "auto" && inForce != "null") figures.codec = inForce;
    } else if (!hasCalls) {
      hasCalls = true;
      figures.calls = part.number("calls");
      figures.compressed = part.number("compressed");
      figures.latest = part.field("latest");
    }
  }
  return figures;
}

// What became of the calls between two readings.
inline std::string pathOf(const CallFigures& before, const CallFigures& after) {
  const uint64_t calls = after.calls - before.calls;
  const uint64_t compressed = after.compressed - before.compressed;
  if (calls == 0) return "unknown";
  if (compressed == 0) return "passed:" + after.latest;
  return (compressed == calls ? "compressed:" : "mixed:") + after.codec;
}

inline std::string& temporaryReport() {
  static std::string path;
  return path;
}

// Cinch writes its report once more when the process ends: this runs after that if it is called
// before Cinch is.
inline void removeReportAtExit(const std::string& path) {
  temporaryReport() = path;
  std::atexit([] {
    for (const char* suffix : {".txt", ".json"}) std::remove((temporaryReport() + suffix).c_str());
  });
}

// Where this process's report goes, which it is told: where CINCH_STATS says, with the process's
// number at the end unless it is in it already; else a file in the folder for temporary ones, which
// goes with the process.
inline std::string claimReport() {
  const char* given = std::getenv("CINCH_STATS");
  const char* folder = std::getenv("TMPDIR");
  const std::string pid = std::to_string(getpid());
  const bool isGiven = given != nullptr && *given != 0;
  std::string path =
      isGiven ? given : std::string(folder != nullptr ? folder : "/tmp") + "/cinch-nccl-tests";
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const auto replace = [&path](const std::string& mark, const std::string& by) {
    const size_t at = path.find(mark);
    if (at != std::string::npos) path.replace(at, mark.size(), by);
    return at != std::string::npos;
  };
  replace("%h", host);
  if (!replace("%p", pid)) path += "." + pid;
  if (!isGiven) removeReportAtExit(path);
  setenv("CINCH_STATS", path.c_str(), 1);
  return path;
}

inline std::string readAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace nccl_tests
}  // namespace cinch
