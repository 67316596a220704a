#include "interpose/plan/waves.h"

#include <unordered_map>

namespace cinch {

std::vector<WorkspaceUse> packWaves(std::span<const WorkspaceNeed> needs) {
  std::unordered_map<const void*, WorkspaceUse> next;  // by communicator
  std::vector<WorkspaceUse> uses;
  uses.reserve(needs.size());
  for (const WorkspaceNeed& need : needs) {
    WorkspaceUse& use = next.try_emplace(need.comm, WorkspaceUse{0, 0}).first->second;
    if (use.offset != 0 && use.offset + need.nBytes > need.capacity) use = {use.wave + 1, 0};
    uses.push_back(use);
    use.offset += need.nBytes;
  }
  return uses;
}

}  // namespace cinch
