// The commands of `cinch`. Each does its work, prints for the user, and returns the exit status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cinch {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // of `cinch doctor`: something would go wrong
inline constexpr int kExitUsage = 2;
// Of `cinch run`, as env(1) and timeout(1) have them; every other status is the command's own.
inline constexpr int kExitCannotRun = 125;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

struct RunOptions {
  bool net = false;                  // use Cinch's net plugin too
  bool tuner = false;                // use Cinch's tuner plugin too
  std::vector<std::string> command;  // program and arguments
};

// Replaces this process by the command, with Cinch preloaded. Returns only where that fails.
int runCommand(const RunOptions& options);

enum class OutputFormat { text, json, markdown };

// Prints every parameter with its value and source; Markdown describes the parameters only, and so
// is the same in every environment.
int printConfig(OutputFormat format);

// Prints the manual page that describes them, for man.
int printManPage();

struct ExplainOptions {
  std::string report;     // to explain instead of codecs, where there is one
  std::string tolerance;  // a codec's name, to state what a check has to accept of it
  OutputFormat format = OutputFormat::text;
  uint64_t nValues = 1 << 18;  // that errors are measured on
  double scale = 1.0;          // their standard deviation, but for heavy tails
};

// Prints every codec: what it sends for a value, and the error that it makes, measured now.
int explainCodecs(const ExplainOptions& options);

// A call and the machines it would run on, as the command line has them: not yet looked at.
struct ExplainedCall {
  std::string op;  // "allreduce", "reduce_scatter"; empty: no call is to be explained
  std::string bytes, link;
  std::string dtype = "fp32";
  std::string codec;               // empty: what CINCH_CODEC says
  std::string codecRate;           // empty: measured, once on a machine
  bool remeasure = false;          // also where CINCH_CACHE_DIR has it
  std::string latency = "20us";    // of a hop between hosts
  std::string localLink = "200G";  // of each rank inside its host
  std::string localLatency = "5us";
  std::string messageTime = "1us";  // of each message of an exchange
  int64_t ranks = 0;
  int64_t nodes = 0;  // 0: one for each rank
};

// Prints what each scheme would take for a call, and where each number comes from.
int explainCall(const ExplainedCall& call, OutputFormat format);

// Prints "VALUE,NMSE", what a check has to accept of a codec, as the patched nccl-tests take it.
int explainTolerance(const std::string& codec);

// Prints what became of each sort of call in a report (CINCH_STATS, JSON), why, and what can be
// done about it.
int explainReport(const std::string& path);

struct StatsOptions {
  std::vector<std::string> files;  // reports of CINCH_STATS (JSON), or folders of them
  double watch = 0;                // seconds between two views; 0: one view
  int views = 0;                   // after which it ends; 0: never
  OutputFormat format = OutputFormat::text;
};

// Prints what all ranks together have done, from the report of each.
int showStats(const StatsOptions& options);

struct DoctorOptions {
  std::vector<std::string> command;  // that would be run; may be empty
  OutputFormat format = OutputFormat::text;
};

// Prints what would happen to a job on this machine, a line for each check. kExitFailed where one
// has failed.
int diagnose(const DoctorOptions& options);

namespace bench {
struct Options;
}

// Measures a collective as nccl-tests does, on every rank of the job or on ranks of its own.
int runBenchmark(const bench::Options& options);

namespace tune {
struct Options;
}

// Measures what NCCL could choose beside what it does choose, and writes the tuner plugin's rules.
int runTune(const tune::Options& options);

// Writes what is wrong with the CINCH_* variables to stderr.
void printWarnings();

}  // namespace cinch
