#include "common/stats.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <list>
#include <mutex>
#include <system_error>

#include "common/param.h"
#include "common/stats_format.h"

namespace cinch {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error fileError(const char* what, const std::string& path) {
  const std::string cause = std::generic_category().message(errno);
  return errorf(Status::systemError, "cannot %s %s: %s (CINCH_STATS says where the report goes)",
                what, path.c_str(), cause.c_str());
}

Result<void> writeFile(const std::string& path, const std::string& content) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return fileError("create", path);
  for (size_t done = 0; done < content.size();) {
    const ssize_t written = ::write(file.get(), content.data() + done, content.size() - done);
    if (written < 0 && errno != EINTR) return fileError("write", path);
    if (written > 0) done += static_cast<size_t>(written);
  }
  return {};
}

// Replaces the file at `path` in one step. The temporary name is this process's own, since ranks
// that share a path may write at the same time.
Result<void> replaceFile(const std::string& path, const std::string& content) {
  const std::string temporary = path + expandPath(".tmp.%h.%p");
  Result<void> written = writeFile(temporary, content);
  if (written && rename(temporary.c_str(), path.c_str()) != 0) {
    written = fileError("replace", path);
  }
  if (!written) unlink(temporary.c_str());
  return written;
}

SlotFigures figuresOf(const SlotStats& slot, int nRanks) {
  SlotFigures figures;
  figures.name = slot.name;
  figures.codec = slot.codec;
  figures.gain = slot.gain;
  figures.calls = slot.compressed;
  figures.bytesIn = slot.bytesIn;
  figures.wireBytes = slot.wireBytes;
  figures.ratio = wireRatio(figures.bytesIn, figures.wireBytes, nRanks);
  figures.nmse = nmse(slot.stage[0]);
  figures.nmseReduce = nmse(slot.stage[1]);
  figures.residualResets = slot.residualResets;
  return figures;
}

std::vector<PassedFigures> passedFigures(const CommStats& comm) {
  std::vector<PassedFigures> figures;
  const auto names = comm.label.reasons;
  for (size_t reason = 0; reason < std::min(names.size(), CommStats::kMaxReasons); ++reason) {
    const uint64_t calls = comm.passedCalls[reason];
    if (calls > 0) figures.push_back({names[reason], calls, comm.passedBytes[reason]});
  }
  return figures;
}

CommFigures figuresOf(const CommStats& comm) {
  const CommLabel& label = comm.label;
  CommFigures figures{label.name, label.rank, label.nRanks, label.verdict, {}, {}};
  for (const SlotStats* slot : comm.slots())
    figures.slots.push_back(figuresOf(*slot, label.nRanks));
  figures.passed = passedFigures(comm);
  return figures;
}

}  // namespace

// A list keeps the address of what is in it.
struct CommStats::Slots {
  mutable std::mutex mutex;
  std::list<SlotStats> list;
};

CommStats::CommStats(CommLabel label)
    : label(std::move(label)), slots_(std::make_unique<Slots>()) {}

CommStats::~CommStats() = default;

SlotStats& CommStats::addSlot(const std::string& name, const std::string& codec, float gain) {
  std::lock_guard lock(slots_->mutex);
  SlotStats& slot = slots_->list.emplace_back();
  slot.name = name;
  slot.codec = codec;
  slot.gain = gain;
  return slot;
}

std::vector<const SlotStats*> CommStats::slots() const {
  std::lock_guard lock(slots_->mutex);
  std::vector<const SlotStats*> result;
  for (const SlotStats& slot : slots_->list) result.push_back(&slot);
  return result;
}

struct Report::State {
  mutable std::mutex mutex;
  std::list<CommStats> comms;
  std::mutex writing;  // two writers of one process share the temporary name

  std::vector<CommFigures> figures() const {
    std::lock_guard lock(mutex);
    std::vector<CommFigures> result;
    for (const CommStats& comm : comms) result.push_back(figuresOf(comm));
    return result;
  }
};

Report::Report() : state_(std::make_unique<State>()) {}

Report::~Report() = default;

CommStats& Report::addComm(CommLabel label) {
  std::lock_guard lock(state_->mutex);
  return state_->comms.emplace_back(std::move(label));
}

std::string Report::text() const {
  return formatText(state_->figures());
}

std::string Report::json() const {
  return formatJson(state_->figures());
}

Result<void> Report::write(const std::string& path) const {
  std::lock_guard lock(state_->writing);
  const std::vector<CommFigures> figures = state_->figures();
  CINCH_TRY(replaceFile(path + ".txt", formatText(figures)));
  return replaceFile(path + ".json", formatJson(figures));
}

double nmse(const ErrorSums& sums) {
  const double power = sums.power;
  return power == 0 ? 0 : sums.error / power;
}

}  // namespace cinch
