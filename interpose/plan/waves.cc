#include "interpose/plan/waves.h"

#include <unordered_map>
#include <unordered_set>

namespace cinch {

namespace {

// The wave of a communicator that is being filled.
class Filling {
 public:
  WorkspaceUse add(const WorkspaceNeed& need) {
    const bool isFull = next_.offset != 0 && next_.offset + need.nBytes > need.capacity;
    if (isFull || slots_.contains(need.slot)) beginWave();
    slots_.insert(need.slot);
    const WorkspaceUse use = next_;
    next_.offset += need.nBytes;
    return use;
  }

 private:
  void beginWave() {
    next_ = {next_.wave + 1, 0};
    slots_.clear();
  }

  WorkspaceUse next_{0, 0};
  std::unordered_set<const void*> slots_;  // of the wave
};

}  // namespace

std::vector<WorkspaceUse> packWaves(std::span<const WorkspaceNeed> needs) {
  std::unordered_map<const void*, Filling> filling;  // by communicator
  std::vector<WorkspaceUse> uses;
  uses.reserve(needs.size());
  for (const WorkspaceNeed& need : needs) uses.push_back(filling[need.comm].add(need));
  return uses;
}

}  // namespace cinch
