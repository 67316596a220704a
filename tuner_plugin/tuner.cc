#include "tuner_plugin/tuner.h"

#include "tuner_plugin/log.h"

namespace cinch::tuner {
namespace {

constexpr float kBest = 0;  // NCCL takes the smallest

// What costs so many times the cheapest is no estimate: NCCL multiplies by 1024 what would lose
// precision (rings of 8-bit floats of more than 8 ranks, updateCollCostTable() since 2.24).
constexpr float kFarDearer = 256;

bool isFarDearer(const CostGrid& grid, float cost) {
  for (int i = 0; i < grid.nAlgorithms * grid.nProtocols; ++i)
    if (grid.costs[i] >= 0 && cost > kFarDearer * grid.costs[i]) return true;
  return false;
}

bool isUsable(const CostGrid& grid, const Rule& rule) {
  if (!grid.has(rule.algorithm, rule.protocol)) return false;
  const float cost = grid.at(rule.algorithm, rule.protocol);
  return cost >= 0 && !isFarDearer(grid, cost);
}

// Whether NCCL takes the number as the most there may be. Between hosts, where the network
// switches sum, it takes it as it is, and would use channels that the communicator lacks
// (scheduleCollTasksToPlan(), isCollnet, since 2.22).
bool isChannelLimit(Algorithm algorithm, uint64_t nNodes) {
  const bool isCollnet =
      algorithm == Algorithm::collnetDirect || algorithm == Algorithm::collnetChain;
  return !isCollnet && (algorithm != Algorithm::nvls || nNodes == 1);
}

// What NCCL 2.21 can do on every communicator: other algorithms depend on the machine.
bool isAlwaysPossible(const Rule& rule) {
  const bool isTree = rule.algorithm == Algorithm::tree;
  return rule.algorithm == Algorithm::ring ||
         (isTree && rule.collective == TunedCollective::allReduce);
}

}  // namespace

Tuner::Tuner(std::vector<RuleFile> files, uint64_t nRanks, uint64_t nNodes, CostStore* costs)
    : files_(std::move(files)), nNodes_(nNodes), costs_(costs) {
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
  const bool isUsed = isUsable(grid, rule);
  if (isUsed) {
    grid.at(rule.algorithm, rule.protocol) = kBest;
    const bool hasChannels = rule.channels != kAny && isChannelLimit(rule.algorithm, nNodes_);
    if (hasChannels && nChannels != nullptr) *nChannels = rule.channels;
  }
  say(*entry, call, isUsed);
}

std::optional<Choice> Tuner::chooseBlindly(const Call& call, bool allowsLl128) {
  Entry* const entry = find(call);
  if (entry == nullptr) return std::nullopt;
  const Rule& rule = entry->rule;
  const bool isSafe = rule.protocol != Protocol::ll128 || (allowsLl128 && entry->file->isOwn);
  const bool isUsed = isSafe && isAlwaysPossible(rule);
  say(*entry, call, isUsed);
  return isUsed ? std::optional(Choice{rule.algorithm, rule.protocol}) : std::nullopt;
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
