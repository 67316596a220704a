// The file that CINCH_PLAN=record:FILE adds lines to.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "common/result.h"

namespace cinch {

// Several processes may add to one file: lines are appended together, never a part of one. A file
// that cannot be written any further is named in the log, once.
class PlanFile {
 public:
  // Of the process; never destroyed, since communicators may outlive the process's statics.
  static PlanFile& ofProcess();

  explicit PlanFile(std::string path) : path_(std::move(path)) {}
  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;
  ~PlanFile() = delete;  // its thread has no end

  // Soon, by a thread of its own: a file system may hang, and nobody else is to wait for it.
  // Thread-safe.
  void add(const std::string& lines);
  // Until all that was added has been written, or for a few seconds, once. Thread-safe.
  void flush();

 private:
  bool isFork() const;
  bool start();
  [[noreturn]] void work();
  Result<void> append(std::string text);
  Result<void> open();

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable added_, written_;
  std::string pending_;
  bool isWriting_ = false;
  bool isGivenUp_ = false;         // nobody waits any more
  std::atomic<pid_t> process_{0};  // that has the thread; a fork of it has not
  int file_ = -1;                  // the thread's
};

}  // namespace cinch
