// The report: what Cinch did with every call, per communicator, as text and as JSON.
//
// Counters are plain atomics that the call path adds to; a writer walks them. Nothing here knows
// NCCL or CUDA.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"

namespace cinch {

// A running figure that any thread may add to.
using Counter = std::atomic<uint64_t>;

// Codec error of one slot and stage, as sums over the measured calls; written by whoever reads
// them back from the device.
struct ErrorSums {
  std::atomic<double> error{0};  // sum of (p - decoded)^2
  std::atomic<double> power{0};  // sum of p^2
};

// One recurring call: the text that names it ("AllReduce fp32 Sum x 4194304") and its figures.
struct SlotStats {
  std::string name;
  std::string codec;          // "q4"
  float gain = 0;             // of the error feedback; 0: off
  Counter compressed{0};      // calls
  Counter bytesIn{0};         // of those calls, count x element size
  Counter wireBytes{0};       // of those calls, what this rank sends to other ranks
  Counter residualResets{0};  // how often the local residual was dropped
  ErrorSums stage[2];         // encode, reduce
};

// What a communicator is called, and what its figures are sorted by.
struct CommLabel {
  std::string name;  // "communicator 1 rank 0 of 4"
  int rank = -1;
  int nRanks = 0;
  std::string verdict;                     // whether its calls may be compressed, and if not, why
  std::span<const char* const> reasons{};  // why calls pass; the names live as long as the report
};

struct CommStats {
  static constexpr size_t kMaxReasons = 32;
  const CommLabel label;
  // Passed calls and their bytes, by reason.
  std::array<Counter, kMaxReasons> passedCalls{};
  std::array<Counter, kMaxReasons> passedBytes{};

  explicit CommStats(CommLabel label);
  ~CommStats();

  // Slots are added under a lock and never removed; the reference stays valid.
  SlotStats& addSlot(const std::string& name, const std::string& codec, float gain);
  // All slots so far, in the order in which they were added.
  std::vector<const SlotStats*> slots() const;

 private:
  struct Slots;
  std::unique_ptr<Slots> slots_;
};

// All communicators that this process ever had. Thread-safe.
class Report {
 public:
  Report();
  ~Report();
  // A new communicator's figures; lives as long as the report.
  CommStats& addComm(CommLabel label);
  std::string text() const;
  std::string json() const;
  // Writes path.txt and path.json, each to a temporary file beside it that is then renamed over the
  // old one, so that a reader never sees half a report. An error names the file and the cause.
  Result<void> write(const std::string& path) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Error over power, or 0 where nothing was measured.
double nmse(const ErrorSums& sums);

}  // namespace cinch
