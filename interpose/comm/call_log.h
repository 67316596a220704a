// CINCH_CALL_LOG: every call that the program makes on communicators that Cinch follows, in the
// order in which they are made, a line of JSON for each (docs/call-log.md), with samples of values.
//
// A line is written when its samples have arrived and all lines before it are written, by the
// thread that makes the next call or by the background thread. Nobody waits for the device; a line
// that waits too long is written without samples, so that a job that hangs leaves its calls.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "interpose/comm/value_sample.h"

namespace cinch {

// What is written of a call, in this order.
struct CallRecord {
  uint64_t ordinal = 0;  // of the process's calls, from 1
  double time = 0;       // microseconds of CLOCK_MONOTONIC
  int communicator = 0, rank = 0, nRanks = 0;
  std::string kind;  // "AllReduce", ... "Send", "Recv"
  std::string op;    // "None" where the kind has none
  std::string type;
  uint64_t count = 0;
  int root = -1;  // the other rank of Send and Recv; -1: none
  uint64_t send = 0, recv = 0, stream = 0;
  uint64_t group = 0;  // the number of the outermost ncclGroupStart, from 1; 0: no group
  bool isCaptured = false;
  std::string thread;
  std::string outcome;  // "compressed", or why it passed, as in the report
  int result = -1;      // NCCL's; -1: it has not returned
  SampledValues input, output;
};

// One line, with its end.
std::string formatCall(const CallRecord& call);

// What the thread is called; "main" for the process's first one. The same at all calls of a thread.
const std::string& threadName();

// Where a call is made.
struct CallPlace {
  const DeviceTable* device = nullptr;  // null: unknown, nothing is sampled
  int cudaDevice = 0;
  void* stream = nullptr;
};

class CallLog {
 public:
  // A call that has been made and is not written yet.
  struct Entry {
    CallRecord call;
    CallPlace place;
    DeviceValues output;  // to be sampled when it is there
    bool isMessage = false;
    ValueSample* sample = nullptr;
    SamplePool* pool = nullptr;
    bool isClosed = false;  // nothing more will be copied
    std::chrono::steady_clock::time_point begun{};
  };
  using Handle = std::shared_ptr<Entry>;

  // Null where CINCH_CALL_LOG asks for none or its file cannot be written, and in a fork of the
  // process.
  static CallLog* instance();

  explicit CallLog(std::string path) : path_(std::move(path)) {}
  Result<void> open();

  // A call is about to be made; copies from `input` are put on its stream.
  Handle begin(CallRecord call, const CallPlace& place, const DeviceValues& input,
               const DeviceValues& output);
  // It was made. Copies of its output follow it on its stream, in a group behind the group's end.
  void end(const Handle& entry, ncclResult_t result, const char* outcome);

  // The thread's groups.
  void groupStart();
  void groupEnd(ncclResult_t result);

  // Writes what is ready.
  void collect();
  // Writes all, with those samples that are known to have arrived: the process ends.
  void finish();

 private:
  SamplePool* poolFor(const CallPlace& place, bool isMessage);
  void takeSample(Entry& entry, const DeviceValues& input);
  void close(const Handle& entry, ncclResult_t result);
  bool isReady(const Entry& entry, std::chrono::steady_clock::time_point now) const;
  std::string lineOf(Entry& entry);
  void writeReady();
  void write(const std::string& lines);
  bool collectInBackground();
  void collectLater();

  const std::string path_;
  int file_ = -1;
  int process_ = 0;
  std::mutex mutex_;
  uint64_t nCalls_ = 0, nGroups_ = 0;
  std::deque<Handle> pending_;
  // Null where one cannot be made.
  std::map<std::pair<int, bool>, std::unique_ptr<SamplePool>> pools_;
  bool isCollecting_ = false;
};

}  // namespace cinch
