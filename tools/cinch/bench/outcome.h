// What Cinch did with the calls of a size: read from the report that it writes (CINCH_STATS).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/result.h"
#include "interpose/policy/signature.h"
#include "tools/cinch/bench/session.h"

namespace cinch::bench {

enum class Path { plain, passed, compressed, mixed };

// All that a report says of one sort of call, so far.
struct CallRecord {
  uint64_t calls = 0;
  uint64_t compressed = 0;
  std::string latest;           // "compressed", or why it passed
  std::string codec;            // "q4", "auto"
  double gain = 0;              // of the error feedback
  double wireBytesPerCall = 0;  // of compressed calls, that this rank sends
};

// Of the communicator of `ranks` ranks that the report, JSON, lists first; zero calls where it has
// none of the name.
Result<CallRecord> recordOf(const std::string& report, const std::string& name, int ranks);

// What became of the calls between two records, the last `timed` of which count.
Path pathOf(const CallRecord& before, const CallRecord& after, uint64_t timed);
const char* nameOf(Path path);

// Where this rank's report goes: where CINCH_STATS says, else to a temporary file, which goes away
// with the process. Ranks that were given the same file write to PATH.rankN, all but rank 0. To be
// made before NCCL is called.
class ReportFile {
 public:
  explicit ReportFile(int rank);
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  // Has Cinch write the report, which it does whenever a communicator ends, and reads it. Throws
  // std::runtime_error.
  std::string refresh(const Library& library) const;

 private:
  std::string path_;
};

}  // namespace cinch::bench
