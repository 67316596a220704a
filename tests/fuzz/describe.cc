// Programs in readable form.
#include <algorithm>
#include <map>

#include "tests/fuzz/program.h"
#include "tests/fuzz/text.h"

namespace cinch::fuzz {
namespace {

const char* nameOf(ncclRedOp_t op) {
  static const char* const kNames[] = {"Sum", "Prod", "Max", "Min", "Avg", "PreMulSum"};
  return kNames[op];
}

const char* nameOf(Fault fault) {
  static const char* const kNames[] = {
      "", " WRONG type", " WRONG op", " NULL buffers", " WRONG root", " NULL comm"};
  return kNames[static_cast<int>(fault)];
}

std::string listOf(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += format(text.empty() ? "%d" : " %d", number);
  return text;
}

struct Describer {
  std::string operator()(const Call& call) const {
    std::string text = format("%s c%d %s x %zu", fuzz::nameOf(call.kind), call.comm,
                              fuzz::nameOf(call.type), call.count);
    if (reduces(call.kind)) text += format(" %s", nameOf(call.op));
    if (call.userOp >= 0) text += format(" op%d", call.userOp);
    if (call.peer >= 0)
      text += format(isPointToPoint(call.kind) ? " peer %d" : " root %d", call.peer);
    text += format(" s%d.%d", call.stream, call.slot);
    if (call.offset > 0) text += format("+%d", call.offset);
    if (call.inPlace) text += " in place";
    if (call.special >= 0) text += format(" special %d", call.special);
    return text + nameOf(call.fault) + (call.idle ? " idle" : "") +
           (call.abandoned ? " abandoned" : "") + format(" #%d", call.uid);
  }
  std::string operator()(const InitRank& it) const {
    return format("init c%d%s", it.comm, it.withConfig ? " with config" : "");
  }
  std::string operator()(const Split& it) const {
    return format("split c%d -> c%d color %d key %d", it.parent, it.comm, it.color, it.key);
  }
  std::string operator()(const Finalize& it) const { return format("finalize c%d", it.comm); }
  std::string operator()(const Destroy& it) const { return format("destroy c%d", it.comm); }
  std::string operator()(const Abort& it) const {
    return format("abort c%d%s", it.comm, it.fromAnotherThread ? " from another thread" : "");
  }
  std::string operator()(const GroupStart&) const { return "{"; }
  std::string operator()(const GroupEnd&) const { return "}"; }
  std::string operator()(const SimulateEnd&) const { return "} simulated"; }
  std::string operator()(const MakeOp& it) const {
    return format("op%d = PreMulSum c%d %s %g%s", it.op, it.comm, fuzz::nameOf(it.type), it.scalar,
                  it.onDevice ? " on device" : "");
  }
  std::string operator()(const DropOp& it) const { return format("drop op%d", it.op); }
  std::string operator()(const Sync&) const { return "sync"; }
  std::string operator()(const BeginCapture& it) const {
    return format("capture s%d as g%d {", it.stream, it.graph);
  }
  std::string operator()(const EndCapture&) const { return "} captured"; }
  std::string operator()(const Replay& it) const {
    return format("replay g%d round %d", it.graph, it.round);
  }
  std::string operator()(const DropGraph& it) const { return format("drop g%d", it.graph); }
  std::string operator()(const Parallel&) const { return "two threads"; }
};

// By step, the lines of each rank.
using Lines = std::map<int, std::map<int, std::vector<std::string>>>;

void collect(const std::vector<Stepped>& actions, int rank, const char* prefix, Lines& lines) {
  for (const Stepped& stepped : actions) {
    lines[stepped.step][rank].push_back(prefix + std::visit(Describer{}, stepped.action));
    if (const auto* parallel = std::get_if<Parallel>(&stepped.action)) {
      collect(parallel->first, rank, "A: ", lines);
      collect(parallel->second, rank, "B: ", lines);
    }
  }
}

}  // namespace

int Comm::rankOf(int worldRank) const {
  const auto found = std::find(members.begin(), members.end(), worldRank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

const char* nameOf(Kind kind) {
  static const char* const kNames[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast",
                                       "Bcast",     "Reduce",        "Send",      "Recv"};
  return kNames[static_cast<int>(kind)];
}

const char* nameOf(ncclDataType_t type) {
  static const char* const kNames[] = {"int8",   "uint8", "int32", "uint32", "int64",
                                       "uint64", "fp16",  "fp32",  "fp64",   "bf16"};
  return kNames[type];
}

std::string describe(const Program&, const Action& action) {
  return std::visit(Describer{}, action);
}

std::string describe(const Program& program) {
  std::string text = format("program %lu: %d ranks in %d processes, %d streams\n",
                            static_cast<unsigned long>(program.seed), program.nRanks(),
                            program.nProcesses(), program.nStreams);
  for (size_t comm = 0; comm < program.comms.size(); ++comm)
    text += format("c%zu = ranks %s%s\n", comm, listOf(program.comms[comm].members).c_str(),
                   program.comms[comm].nonBlocking ? ", non-blocking" : "");
  Lines lines;
  for (int rank = 0; rank < program.nRanks(); ++rank) collect(program.ranks[rank], rank, "", lines);
  for (const auto& [step, byRank] : lines) {
    std::map<std::vector<std::string>, std::vector<int>> same;
    for (const auto& [rank, calls] : byRank) same[calls].push_back(rank);
    for (const auto& [calls, ranks] : same) {
      text += format("step %d, ranks %s:\n", step, listOf(ranks).c_str());
      for (const std::string& line : calls) text += "    " + line + '\n';
    }
  }
  return text;
}

namespace {

std::vector<Stepped> kept(const std::vector<Stepped>& actions, const std::vector<int>& dropped) {
  std::vector<Stepped> result;
  for (const Stepped& stepped : actions) {
    if (std::find(dropped.begin(), dropped.end(), stepped.step) != dropped.end()) continue;
    result.push_back(stepped);
    if (auto* parallel = std::get_if<Parallel>(&result.back().action)) {
      parallel->first = kept(parallel->first, dropped);
      parallel->second = kept(parallel->second, dropped);
    }
  }
  return result;
}

}  // namespace

Program without(const Program& program, const std::vector<int>& steps) {
  Program result = program;
  for (auto& actions : result.ranks) actions = kept(actions, steps);
  return result;
}

}  // namespace cinch::fuzz
