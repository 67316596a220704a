#include "interpose/comm/plan_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "common/log.h"
#include "common/param.h"
#include "common/signals_blocked.h"
#include "common/text_file.h"
#include "interpose/comm/comm_plan.h"
#include "interpose/policy/recorded_plan.h"

namespace cinch {
namespace {

constexpr std::chrono::seconds kPatience{5};

Error because(int number) {
  return errorf(Status::systemError, "%s", strerror(number));
}

}  // namespace

PlanFile& PlanFile::ofProcess() {
  static auto& file = *new PlanFile(expandPath(processPlan().value().setting.path));
  return file;
}

// Where a mutex may be locked for ever, and nobody writes.
bool PlanFile::isFork() const {
  return process_ != 0 && process_ != getpid();
}

bool PlanFile::start() {
  if (process_ != 0) return true;
  const SignalsBlocked blocked;
  try {
    std::thread([this] { work(); }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  process_ = getpid();
  return true;
}

void PlanFile::add(const std::string& lines) {
  if (isFork()) return;
  const std::lock_guard lock(mutex_);
  if (!start()) return;
  pending_ += lines;
  added_.notify_one();
}

void PlanFile::flush() {
  if (isFork()) return;
  std::unique_lock lock(mutex_);
  const auto isDone = [this] { return pending_.empty() && !isWriting_; };
  if (isGivenUp_ || written_.wait_for(lock, kPatience, isDone)) return;
  isGivenUp_ = true;
  lock.unlock();
  CINCH_WARN("POLICY", "CINCH_PLAN: %s has not been written for %d s: it may lack its end",
             path_.c_str(), static_cast<int>(kPatience.count()));
}

void PlanFile::work() {
  bool hasFailed = false;
  for (std::unique_lock lock(mutex_);;) {
    added_.wait(lock, [this] { return !pending_.empty(); });
    std::string text = std::exchange(pending_, {});
    isWriting_ = true;
    lock.unlock();
    const Result<void> done = hasFailed ? Result<void>() : append(std::move(text));
    if (!done.ok())
      CINCH_WARN("POLICY", "CINCH_PLAN: %s is not written from here on: %s", path_.c_str(),
                 done.error().message.c_str());
    hasFailed = hasFailed || !done.ok();
    lock.lock();
    isWriting_ = false;
    written_.notify_all();
  }
}

Result<void> PlanFile::append(std::string text) {
  if (file_ < 0) CINCH_TRY(open());
  const off_t length = lseek(file_, 0, SEEK_END);
  if (length == 0) text.insert(0, planHeader());
  // What is longer could not be read again.
  if (static_cast<size_t>(length) + text.size() > kMaxTextFileBytes) return because(EFBIG);
  const ssize_t written = ::write(file_, text.data(), text.size());
  if (written < 0) return because(errno);
  return written == static_cast<ssize_t>(text.size()) ? Result<void>() : because(ENOSPC);
}

// A pipe would have neither an end nor, perhaps, a reader.
Result<void> PlanFile::open() {
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (file_ < 0) return because(errno);
  struct stat facts {};
  if (fstat(file_, &facts) != 0) return because(errno);
  if (!S_ISREG(facts.st_mode)) return errorf(Status::invalidUsage, "it is not a regular file");
  return {};
}

}  // namespace cinch
