#include "tuner_plugin/tuner.h"

#include "tuner_plugin/log.h"

namespace cinch::tuner {
namespace {

constexpr float kBest = 0;  // NCCL takes the smallest

// What NCCL 2.21 can do on every communicator: other algorithms depend on the machine.
bool isAlwaysPossible(const Rule& rule) {
  const bool isTree = rule.algorithm == Algorithm::tree;
  return rule.algorithm == Algorithm::ring ||
         (isTree && rule.collective == TunedCollective::allReduce);
}

}  // namespace

Tuner::Tuner(std::vector<RuleFile> files, uint64_t nRanks, uint64_t nNodes, CostStore* costs)
    : files_(std::move(files)), costs_(costs) {
  for (const RuleFile& file : files_)
    for (const Rule& rule : file.rules) {
      if (!suits(rule, nRanks, nNodes)) continue;
      rules_.push_back(std::make_unique<Entry>(rule, file));
      byCollective_[static_cast<int>(rule.collective)].push_back(rules_.back().get());
    }
}

Tuner::Entry* Tuner::find(const Call& call) {
  if (call.collective < 0 || call.collective >= kTunedCollectives) return nullptr;
  for (Entry* entry : byCollective_[call.collective])
    if (holds(entry->rule, call.nBytes, call.nPipeOps)) return entry;
  return nullptr;
}

void Tuner::choose(const Call& call, const CostGrid& grid, int* nChannels) {
  if (call.collective < 0 || call.collective >= kTunedCollectives) return;
  if (costs_ != nullptr)
    costs_->record(static_cast<TunedCollective>(call.collective), call.nBytes, call.nPipeOps, grid);
  Entry* const entry = find(call);
  if (entry == nullptr) return;
  const Rule& rule = entry->rule;
  const bool isUsable =
      grid.has(rule.algorithm, rule.protocol) && grid.at(rule.algorithm, rule.protocol) >= 0;
  if (isUsable) {
    grid.at(rule.algorithm, rule.protocol) = kBest;
    if (rule.channels != kAny && nChannels != nullptr) *nChannels = rule.channels;
  }
  say(*entry, call, isUsable);
}

std::optional<Choice> Tuner::chooseBlindly(const Call& call, bool allowsLl128) {
  Entry* const entry = find(call);
  if (entry == nullptr) return std::nullopt;
  const Rule& rule = entry->rule;
  const bool isSafe = rule.protocol != Protocol::ll128 || (allowsLl128 && entry->file->isOwn);
  const bool isUsable = isSafe && isAlwaysPossible(rule);
  say(*entry, call, isUsable);
  return isUsable ? std::optional(Choice{rule.algorithm, rule.protocol}) : std::nullopt;
}

// Once for each rule, at its first call.
void Tuner::say(Entry& entry, const Call& call, bool isUsed) {
  if (entry.isSaid.load(std::memory_order_relaxed) || entry.isSaid.exchange(true)) return;
  const Rule& rule = entry.rule;
  CINCH_TUNER_INFO("%s of %llu bytes: %s, %s, %d channels (%s:%zu)%s",
                   nameOf(rule.collective).c_str(), static_cast<unsigned long long>(call.nBytes),
                   nameOf(rule.algorithm).c_str(), nameOf(rule.protocol).c_str(), rule.channels,
                   entry.file->path.c_str(), rule.line,
                   isUsed ? "" : ": not possible or not safe here, the choice is NCCL's");
}

}  // namespace cinch::tuner
