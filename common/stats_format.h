// The report's figures at one moment, and how they look as text and as JSON. Pure; for common/ and
// for who reads reports.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace cinch {

// Which process's figures these are, and of when.
struct ReportOrigin {
  std::string version;
  std::string host;
  int process = 0;
  std::string batchJob = {};  // of Slurm; empty: none
  double startedAt = 0;       // seconds since 1970
  double writtenAt = 0;
  // How often calls of the program have waited for the ranks to decide, and how long in all.
  uint64_t waits = 0;
  double waitedSeconds = 0;
};

struct GuardValues {
  uint64_t checks = 0;
  uint64_t breaches = 0;
  double nmse = 0;
  double powerRatio = 0;
  double cosine = 0;
  double budget = 0;
};

// How periods are sent, and what they take: plain, stateless and full.
struct SendingValues {
  std::string choice = "plain";
  std::array<double, 3> milliseconds{};  // 0: not timed
  std::array<double, 3> percentSd{};
  uint64_t minBytes = 0;  // of the calls that are compressed
  uint64_t periods = 0;
  uint64_t examinations = 0;
  uint64_t examinedAt = 0;  // period, for the last time
  uint64_t changes = 0;
};

struct SlotFigures {
  std::string name;
  std::string codec;
  double gain = 0;
  uint64_t calls = 0;
  uint64_t bytesIn = 0;
  uint64_t wireBytes = 0;
  double ratio = 0;       // wireRatio() of the slot
  double nmse = 0;        // of stage 1, encode
  double nmseReduce = 0;  // of stage 2
  uint64_t residualResets = 0;
  uint64_t strangers = 0;
  uint64_t overflows = 0;
  uint64_t plans = 0;
  double bitsPerValue = 0;
  uint64_t residualBytes = 0;     // held
  std::string codecInForce = {};  // empty: `codec`
  GuardValues guard = {};
  SendingValues sending = {};  // of calls that have no place in a step
};

struct PassedFigures {
  std::string reason;
  uint64_t calls = 0;
  uint64_t bytes = 0;
};

struct OutcomeFigures {
  std::string reason;
  uint64_t calls = 0;
};

struct CallFigures {
  std::string name;
  std::string callClass;
  uint64_t calls = 0;
  uint64_t bytes = 0;
  uint64_t compressed = 0;  // of the calls
  std::string codec;        // empty: none
  std::string latest;       // reason
  std::vector<OutcomeFigures> outcomes;
  std::string evidence = {};  // of its class, for people; empty: not examined
};

struct Totals {
  uint64_t compressedCalls = 0;
  uint64_t bytesIn = 0;
  uint64_t wireBytes = 0;
  uint64_t passedCalls = 0;
  uint64_t passedBytes = 0;

  void add(const SlotFigures& slot);
  void add(const PassedFigures& passed);
  void add(const Totals& other);
};

struct CommFigures {
  std::string name;
  int rank = 0;
  int nRanks = 0;
  std::string verdict;
  std::vector<SlotFigures> slots;
  std::vector<PassedFigures> passed;  // reasons that occurred
  std::vector<CallFigures> calls;
  std::string agreedName = {};  // what all its ranks call it; empty: they have not agreed
  uint32_t nUsedSms = 0;        // of the GPU: what fits on them the codec's kernels take
  uint32_t nSms = 0;            // 0: there is no GPU
  SendingValues sending = {};   // of its training steps
  uint64_t workspaceBytes = 0;  // of device memory

  Totals totals() const;
  uint64_t residualBytes() const;
};

// Which part of all bytes that a rank has sent were gathers that pass and could be coded: from 0 to
// 1. What passes otherwise counts as AllReduce, which sends most.
double gatheredShare(const CommFigures& comm);

// From half of all bytes on, what a user ought to know of that; else empty.
std::string gatheredRemark(const CommFigures& comm);

// How much smaller the traffic is than plain NCCL's: what one rank of a ring would have sent for
// `bytesIn` of allreduce, 2(P-1)/P of it, over what was sent. 0 where nothing was sent.
double wireRatio(uint64_t bytesIn, uint64_t wireBytes, int nRanks);

// The table of calls, heading included.
std::string formatCalls(const std::vector<CallFigures>& calls);

// Tables for people.
std::string formatText(const std::vector<CommFigures>& comms, const ReportOrigin& origin = {});

// An object with "format": 1; figures that are not finite become null.
std::string formatJson(const std::vector<CommFigures>& comms, const ReportOrigin& origin = {});

}  // namespace cinch
