// What one communicator's tuner says: NCCL's choice, unless a rule holds for the call and NCCL can
// do what it asks for. Behind the tables of all versions (abi/).
//
// Ranks that choose differently hang. So an answer depends on the rules, the communicator's shape,
// and of the call only on what NCCL itself asks to be equal on all ranks.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tuner_plugin/cost_store.h"
#include "tuner_plugin/rules.h"

namespace cinch::tuner {

// A file of rules, as it was when the communicator was made.
struct RuleFile {
  std::string path;
  std::vector<Rule> rules;
  bool isOwn = false;  // the user's, not what was measured
};

// What NCCL asks about; any numbers.
struct Call {
  int collective;
  uint64_t nBytes;
  int nPipeOps;
};

struct Choice {
  Algorithm algorithm;
  Protocol protocol;
};

class Tuner {
 public:
  // The first rule that holds is the one that counts, in the order of the files. `costs` may be
  // null and outlives it.
  Tuner(std::vector<RuleFile> files, uint64_t nRanks, uint64_t nNodes, CostStore* costs);

  // Marks NCCL's table so that it takes what a rule says, and sets `nChannels` where one says it
  // and NCCL takes it as a limit (it may be null). What NCCL has marked as unusable stays so, which
  // is how LL128 stays away from where it is not safe, and so does what it makes dearer than any
  // estimate. Writes nothing where no rule holds.
  void choose(const Call& call, const CostGrid& grid, int* nChannels);

  // Where NCCL shows no table (version 2 of the interface): only what every communicator can do.
  // `allowsLl128`: the user says that it is safe here; only the user's own rules may then ask for
  // it.
  std::optional<Choice> chooseBlindly(const Call& call, bool allowsLl128);

  size_t countRules() const { return rules_.size(); }
  CostStore* costs() const { return costs_; }

 private:
  struct Entry {
    Entry(const Rule& rule, const RuleFile& file) : rule(rule), file(&file) {}
    const Rule rule;
    const RuleFile* const file;
    std::atomic<bool> isSaid{false};
  };

  Entry* find(const Call& call);
  void say(Entry& entry, const Call& call, bool isUsed);

  const std::vector<RuleFile> files_;
  const uint64_t nNodes_;
  std::vector<std::unique_ptr<Entry>> rules_;
  std::vector<Entry*> byCollective_[kTunedCollectives];
  CostStore* const costs_;
};

}  // namespace cinch::tuner
