// One pass through a site: its actions, appended to the ranks' lists.
#include <algorithm>

#include "tests/fuzz/call_sites.h"

namespace cinch::fuzz {
namespace {

using Actions = std::vector<Action>;

// What one pass through a site has for itself.
struct Pass {
  int uid;
  int op;       // number of the user's operation; -1: none
  int special;  // as Call::special
};

bool sumsFloats(const Call& call) {
  const bool sum = call.op == ncclSum || call.op == ncclAvg;
  const bool type =
      call.type == ncclFloat16 || call.type == ncclFloat32 || call.type == ncclBfloat16;
  return sum && type && (call.kind == Kind::allReduce || call.kind == Kind::reduceScatter);
}

Pass newPass(Builder& builder, const Site& site) {
  Pass pass{builder.newUid(), -1, -1};
  if (!site.scalars.empty()) pass.op = builder.newOp();
  if (sumsFloats(site.call) && site.call.count > 0 && builder.random.percent(4))
    pass.special = builder.random.below(static_cast<int>(site.call.count));
  return pass;
}

Call callOf(const Site& site, const Pass& pass, int worldRank, int slot) {
  Call call = site.call;
  call.uid = pass.uid;
  call.userOp = pass.op;
  call.special = pass.special;
  call.stream = site.streams[worldRank];
  call.offset = site.offsets[worldRank];
  call.inPlace = site.inPlace[worldRank];
  call.slot = slot;
  return call;
}

// The call, between the making and the dropping of its operation: NCCL lets it be dropped before
// the group ends, and then gives its number to another one.
Actions actionsOf(const Site& site, const Pass& pass, int worldRank, int slot) {
  const Call call = callOf(site, pass, worldRank, slot);
  if (pass.op < 0) return {call};
  return {MakeOp{pass.op, call.comm, call.type, site.scalars[worldRank], site.scalarOnDevice}, call,
          DropOp{pass.op, call.comm}};
}

Call callOf(const Message& message, int uid, bool sends, int slot) {
  Call call = message.call;
  call.uid = uid;
  call.kind = sends ? Kind::send : Kind::receive;
  call.peer = sends ? message.to : message.from;
  call.stream = sends ? message.fromStream : message.toStream;
  call.slot = slot;
  return call;
}

const Call& callIn(const Actions& actions) {
  return std::get<Call>(actions[actions.size() / 2]);
}

// NCCL drops empty calls: the first half must hold another one, or the order in which
// communicators come into use would change.
size_t halfOf(const std::vector<Actions>& part) {
  size_t half = 0;
  while (half < part.size() && callIn(part[half]).count == 0) ++half;
  return std::max(std::min(half + 1, part.size()), (part.size() + 1) / 2);
}

// One pass through a group.
class GroupPass {
 public:
  GroupPass(Builder& builder, const GroupSite& group, int firstSlot)
      : builder_(builder), group_(group), firstSlot_(firstSlot), lastSlot_(firstSlot) {
    for (const GroupSite::Part& part : group.parts) {
      passes_.emplace_back();
      for (const Site& site : part.sites) passes_.back().push_back(newPass(builder, site));
      for (size_t i = 0; i < part.messages.size(); ++i)
        passes_.back().push_back({builder.newUid(), -1, -1});
    }
  }

  void emit(int worldRank) {
    const std::vector<Actions> calls = callsOf(worldRank);
    if (calls.empty()) return;
    const int nested = group_.nesting[worldRank];
    builder_.add(worldRank, GroupStart{});
    for (size_t i = 0; i < calls.size(); ++i) {
      if (i == calls.size() / 3) repeat(nested, worldRank, GroupStart{});
      for (const Action& action : calls[i]) builder_.add(worldRank, action);
    }
    repeat(nested, worldRank, GroupEnd{});
    builder_.add(worldRank, GroupEnd{});
  }

  int lastSlot() const { return lastSlot_; }

 private:
  void repeat(int times, int worldRank, const Action& action) {
    for (int i = 0; i < times; ++i) builder_.add(worldRank, action);
  }

  std::vector<Actions> callsOf(int worldRank) {
    std::vector<Actions> first, second;
    slot_ = firstSlot_;
    for (size_t p = 0; p < group_.parts.size(); ++p) {
      const std::vector<Actions> part = partOf(group_.parts[p], passes_[p], worldRank);
      const size_t half = group_.interleaved[worldRank] ? halfOf(part) : part.size();
      const auto border = part.begin() + static_cast<std::ptrdiff_t>(half);
      first.insert(first.end(), part.begin(), border);
      second.insert(second.end(), border, part.end());
    }
    first.insert(first.end(), second.begin(), second.end());
    lastSlot_ = std::max(lastSlot_, slot_);
    return first;
  }

  std::vector<Actions> partOf(const GroupSite::Part& part, const std::vector<Pass>& passes,
                              int worldRank) {
    const int rank = builder_.comm(part.comm).rankOf(worldRank);
    std::vector<Actions> calls;
    if (rank < 0) return calls;
    for (const int item : part.order[rank]) {
      if (item >= 0) {
        calls.push_back(actionsOf(part.sites[item], passes[item], worldRank, slot_++));
        continue;
      }
      const Message& message = part.messages[-1 - item];
      const int uid = passes[part.sites.size() - 1 - item].uid;
      if (message.from == rank) calls.push_back({callOf(message, uid, true, slot_++)});
      if (message.to == rank) calls.push_back({callOf(message, uid, false, slot_++)});
    }
    return calls;
  }

  Builder& builder_;
  const GroupSite& group_;
  const int firstSlot_;
  int lastSlot_;
  int slot_ = 0;
  std::vector<std::vector<Pass>> passes_;  // by part: of its sites, then of its messages
};

}  // namespace

void emitSite(Builder& builder, const Site& site, int slot) {
  const Pass pass = newPass(builder, site);
  for (const int rank : builder.comm(site.call.comm).members)
    for (const Action& action : actionsOf(site, pass, rank, slot)) builder.add(rank, action);
}

int emitGroup(Builder& builder, const GroupSite& group, int slot) {
  GroupPass pass(builder, group, slot);
  for (int rank = 0; rank < builder.nRanks(); ++rank) pass.emit(rank);
  return pass.lastSlot();
}

}  // namespace cinch::fuzz
