// Reads tests/traces/NAME.csv: what a framework sends through NCCL, call by call, with what its
// buffers really hold. The format is described in tests/traces/README.md.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "interpose/policy/signature.h"
#include "interpose/policy/value_evidence.h"

namespace cinch::test {

struct TraceCall {
  int step;
  int comm;
  Signature signature;
  std::string buffer;
  std::string thread;  // "main", "autograd", ...
  std::string truth;   // "g12": gradients, of the same parameters as all other "g12"

  bool isGradient() const { return truth.starts_with('g'); }
};

struct Trace {
  std::map<std::string, std::string> header;
  std::vector<int> nRanks;  // by communicator
  std::vector<TraceCall> calls;
  std::map<size_t, SampledCall> values;  // of rank 0, by call, where they were recorded
};

// Throws std::runtime_error for a file that is not there or not well formed.
Trace readTrace(const std::string& name);

// The names of all committed traces.
std::vector<std::string> traceNames();

}  // namespace cinch::test
