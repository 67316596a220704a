#include "tools/cinch/stats/merge.h"

#include <algorithm>

namespace cinch::stats {
namespace {

// Communicators whose ranks have not agreed on a name have those of their processes, which count
// alike where all make the same ones: "communicator 2 rank 1 of 4" is "communicator 2 of 4".
std::string commonName(const CommFigures& comm) {
  if (!comm.agreedName.empty()) return comm.agreedName;
  const std::string rank = " rank " + std::to_string(comm.rank) + " ";
  std::string name = comm.name;
  const size_t at = name.find(rank);
  return at == std::string::npos ? name : name.replace(at, rank.size(), " ");
}

// What one report adds to rates, beside the one before it.
class Progress {
 public:
  Progress(const RankReport& now, const std::vector<RankReport>& before) {
    const auto found = std::find_if(before.begin(), before.end(), [&](const RankReport& it) {
      return it.origin.host == now.origin.host && it.origin.process == now.origin.process;
    });
    before_ = found == before.end() ? nullptr : &*found;
    seconds_ = now.origin.writtenAt -
               (before_ == nullptr ? now.origin.startedAt : before_->origin.writtenAt);
  }

  void add(const CommFigures& comm, size_t slot, MergedSlot& merged) const {
    if (seconds_ <= 0) return;
    const SlotFigures none, &now = comm.slots[slot], &then = before(comm, slot, none);
    merged.payloadRate += static_cast<double>(now.bytesIn - then.bytesIn) / seconds_;
    merged.wireRate += static_cast<double>(now.wireBytes - then.wireBytes) / seconds_;
  }

 private:
  const SlotFigures& before(const CommFigures& comm, size_t slot, const SlotFigures& none) const {
    if (before_ == nullptr) return none;
    for (const CommFigures& it : before_->comms) {
      if (it.name == comm.name && slot < it.slots.size()) return it.slots[slot];
    }
    return none;
  }

  const RankReport* before_ = nullptr;
  double seconds_ = 0;
};

void add(const SlotFigures& slot, MergedSlot& merged) {
  merged.call = slot.name;
  merged.codec = slot.codecInForce.empty() ? slot.codec : slot.codecInForce;
  ++merged.nRanks;
  merged.calls = std::max(merged.calls, slot.calls);
  merged.bytesIn += slot.bytesIn;
  merged.wireBytes += slot.wireBytes;
  merged.nmse = std::max(merged.nmse, slot.nmse);
  merged.bitsPerValue = std::max(merged.bitsPerValue, slot.bitsPerValue);
  merged.checks = std::max(merged.checks, slot.guard.checks);
  merged.breaches = std::max(merged.breaches, slot.guard.breaches);
  merged.drops += slot.residualResets + slot.strangers + slot.overflows;
}

void add(const CommFigures& comm, const Progress& progress, MergedComm& merged) {
  merged.verdict = comm.verdict;
  merged.nRanks = comm.nRanks;
  ++merged.nReports;
  if (merged.slots.size() < comm.slots.size()) merged.slots.resize(comm.slots.size());
  for (size_t i = 0; i < comm.slots.size(); ++i) {
    add(comm.slots[i], merged.slots[i]);
    progress.add(comm, i, merged.slots[i]);
  }
  for (const PassedFigures& passed : comm.passed) {
    MergedPass& sum = merged.passed[passed.reason];
    sum.calls += passed.calls;
    sum.bytes += passed.bytes;
  }
}

MergedComm& commOf(Merged& merged, const CommFigures& comm) {
  const std::string name = commonName(comm);
  for (MergedComm& it : merged.comms) {
    if (it.name == name && it.nRanks == comm.nRanks) return it;
  }
  merged.comms.emplace_back().name = name;
  return merged.comms.back();
}

void finish(MergedSlot& slot, int nRanks) {
  slot.ratio = wireRatio(slot.bytesIn, slot.wireBytes, nRanks);
  const auto n = static_cast<double>(std::max<size_t>(slot.nRanks, 1));
  slot.payloadRate /= n;
  slot.wireRate /= n;
}

}  // namespace

std::vector<RankReport> History::before(const std::vector<RankReport>& reports) {
  std::vector<RankReport> found;
  for (const RankReport& report : reports) {
    const Process process{report.origin.host, report.origin.process};
    const auto last = last_.find(process);
    const bool isNew =
        last == last_.end() || report.origin.writtenAt > last->second.origin.writtenAt;
    if (isNew && last != last_.end()) before_[process] = last->second;
    if (isNew) last_[process] = report;
    const auto before = before_.find(process);
    if (before != before_.end()) found.push_back(before->second);
  }
  return found;
}

Merged merge(const std::vector<RankReport>& reports, const std::vector<RankReport>& before) {
  Merged merged;
  merged.nReports = reports.size();
  for (const RankReport& report : reports) {
    const Progress progress(report, before);
    for (const CommFigures& comm : report.comms) add(comm, progress, commOf(merged, comm));
    const double at = report.origin.writtenAt;
    merged.oldest = merged.oldest == 0 ? at : std::min(merged.oldest, at);
    merged.newest = std::max(merged.newest, at);
  }
  for (MergedComm& comm : merged.comms) {
    for (MergedSlot& slot : comm.slots) finish(slot, comm.nRanks);
  }
  return merged;
}

}  // namespace cinch::stats
