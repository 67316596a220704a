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
#include <utility>
#include <vector>

#include "common/result.h"

namespace cinch {

struct ReportOrigin;
struct CommFigures;

// A running figure that any thread may add to.
using Counter = std::atomic<uint64_t>;

// Codec error of one slot and stage, as sums over the measured calls; written by whoever reads
// them back from the device.
struct ErrorSums {
  std::atomic<double> error{0};  // sum of (p - decoded)^2
  std::atomic<double> power{0};  // sum of p^2
};

// What the guard found: compressed results beside exact ones.
//
// The error of single calls says little of error feedback, and ranks its kinds in the wrong order:
// what one call leaves out, later ones bring. Momentum sees the error of a mean over some ten
// calls; to measure that takes the exact sums of as many calls on end, where the guard knows those
// of calls that are CINCH_GUARD_EVERY apart. What is known too is the power of the result, in which
// Adam's second moment sees what feedback adds.
struct GuardFigures {
  Counter checks{0};
  Counter breaches{0};                // checks beyond the budget of the codec
  std::atomic<double> nmse{0};        // of the last check: |out - exact|^2 / |exact|^2
  std::atomic<double> powerRatio{0};  // and |out|^2 / |exact|^2
  std::atomic<double> cosine{0};      // and of the angle between the two
  std::atomic<double> budget{0};      // and what the error was allowed to be
};

// How periods are sent (interpose/policy/selector), and what they take: the training steps of a
// communicator, or the calls of a slot that has no place in a step. The least of all ranks' times.
struct SendingFigures {
  // By sending (kSendingTexts), when last timed: ns of a period; 0: not timed.
  Counter times[3] = {};
  Counter percentSd[3] = {};  // their standard deviations
  Counter periods{0};         // so far
  Counter examinations{0};    // 0: how they are sent has not been selected
  Counter examinedAt{0};      // period, for the last time
  Counter changes{0};
  Counter minBytes{0};  // of the calls that are compressed
  std::atomic<uint32_t> choice{0};
};
inline constexpr const char* kSendingTexts[3] = {"plain", "stateless", "full"};

// One recurring call: the text that names it ("AllReduce fp32 Sum x 4194304") and its figures.
struct SlotStats {
  std::string name;
  std::string codec;                    // "q4"
  float gain = 0;                       // of the error feedback; 0: off
  Counter compressed{0};                // calls
  Counter bytesIn{0};                   // of those calls, count x element size
  Counter wireBytes{0};                 // of those calls, what this rank sends to other ranks
  Counter residualBytes{0};             // that are held now
  Counter residualResets{0};            // how often the local residual was dropped by the host
  Counter strangers{0};                 // and by the device: another buffer's profile of scales
  Counter overflows{0};                 // and: out of proportion
  Counter plans{0};                     // changes of precision that took effect
  std::atomic<double> bitsPerValue{0};  // on the wire, in force
  std::atomic<const char*> codecInForce{nullptr};  // where the guard raised it; static storage
  GuardFigures guard;
  SendingFigures sending;
  ErrorSums stage[2];  // encode, reduce
};

inline constexpr size_t kMaxReasons = 32;

// One sort of call, whether it was compressed or not. Written by the one thread that uses the
// communicator, read by any.
struct CallStats {
  explicit CallStats(std::string name) : name(std::move(name)) {}
  const std::string name;                       // "AllReduce fp32 Sum x 4194304"
  std::array<Counter, kMaxReasons> outcomes{};  // calls, by reason
  Counter bytes{0};
  std::atomic<size_t> latest{0};            // reason
  std::atomic<const char*> codec{nullptr};  // that it gets, or would get; static storage
  // Half a sentence on why it is of its class; static storage. Null where that was not examined.
  std::atomic<const char*> evidence{nullptr};

  // Plain additions, since there is one writer: they cost a call next to nothing.
  void count(size_t reason, uint64_t nBytes) {
    const auto add = [](Counter& counter, uint64_t n) {
      counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    };
    add(outcomes[reason], 1);
    add(bytes, nBytes);
    latest.store(reason, std::memory_order_relaxed);
  }
};

// What a communicator is called, and what its figures are sorted by.
struct CommLabel {
  std::string name;  // "communicator 1 rank 0 of 4"
  int rank = -1;
  int nRanks = 0;
  std::string verdict;  // whether its calls may be compressed, and if not, why
  // Why calls pass, the first one that of those that do not, and what a call is taken for that
  // passes so. Names live as long as the report.
  std::span<const char* const> reasons{};
  std::span<const char* const> classes{};
  std::string agreedName = {};  // what all ranks call it; empty: they have not agreed
  // Of the GPU, of which the codec's kernels take some; none where there is no GPU.
  uint32_t nUsedSms = 0;
  uint32_t nSms = 0;
};

struct CommStats {
  static constexpr size_t kMaxCalls = 256;
  const CommLabel label;
  // Passed calls and their bytes, by reason.
  std::array<Counter, kMaxReasons> passedCalls{};
  std::array<Counter, kMaxReasons> passedBytes{};
  SendingFigures sending;     // its training steps
  Counter workspaceBytes{0};  // of device memory, for all its calls

  explicit CommStats(CommLabel label);
  ~CommStats();

  // Slots and calls are added under a lock and never removed; the reference stays valid.
  SlotStats& addSlot(const std::string& name, const std::string& codec, float gain);
  // Beyond kMaxCalls all that are added share one, "other calls".
  CallStats& addCall(const std::string& name);
  // All so far, in the order in which they were added.
  std::vector<const SlotStats*> slots() const;
  std::vector<const CallStats*> calls() const;

  // What they all say now.
  CommFigures figures() const;
  // The calls as a table for people, a line each.
  std::string callTable() const;

 private:
  struct Lists;
  std::unique_ptr<Lists> lists_;
};

// All communicators that this process ever had. Thread-safe.
class Report {
 public:
  Report();
  ~Report();
  // A new communicator's figures; lives as long as the report.
  CommStats& addComm(CommLabel label);
  // Of the process, so far: ReportOrigin::waits.
  void setWaits(uint64_t count, double seconds);
  std::string text() const;
  std::string json() const;
  // For Prometheus (metrics_format.h).
  std::string metrics() const;
  // Of what is written now (stats_format.h).
  ReportOrigin origin() const;
  // Writes path.txt and path.json, as common/report_file.h says.
  Result<void> write(const std::string& path) const;
  // Writes path.prom in the same way.
  Result<void> writeMetrics(const std::string& path) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Error over power, or 0 where nothing was measured.
double nmse(const ErrorSums& sums);

}  // namespace cinch
