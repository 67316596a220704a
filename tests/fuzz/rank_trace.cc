#include "tests/fuzz/rank_trace.h"

#include <algorithm>
#include <map>
#include <set>

namespace cinch::fuzz {
namespace {

class Tracer {
 public:
  Tracer(const Program& program, int worldRank, bool dropEmptyMessages, RankTrace& trace)
      : program_(program),
        worldRank_(worldRank),
        dropEmptyMessages_(dropEmptyMessages),
        trace_(trace) {}

  std::vector<Event> run(const std::vector<Stepped>& actions) {
    for (const Stepped& stepped : actions) {
      step_ = stepped.step;
      std::visit(*this, stepped.action);
    }
    require(depth_ == 0, "ends with an open group");
    require(graph_ < 0, "ends with an open capture");
    return std::move(events_);
  }

  void operator()(const Call& call) {
    require(call.fault == Fault::communicator || alive_.count(call.comm) != 0,
            "calls a communicator that is not there");
    require(program_.comms[call.comm].rankOf(worldRank_) >= 0, "is not a member");
    require(call.stream >= 0 && call.stream < program_.nStreams, "has no such stream");
    require(call.userOp < 0 || ops_.count(call.userOp) != 0, "uses an operation that is not there");
    require(graph_ < 0 || call.stream == captureStream_, "calls outside the captured stream");
    if (depth_ > 0 || graph_ >= 0)
      require(memory_.insert({call.stream, call.slot}).second, "uses memory twice at once");
    require(call.fault == Fault::none || call.idle, "a wrong call is not marked idle");
    wrong_ = wrong_ || call.fault != Fault::none;
    record(call);
    if (depth_ == 0) launch();
  }
  void operator()(const InitRank& it) { meet("init", it.comm, it.comm); }
  void operator()(const Split& it) {
    require(alive_.count(it.parent) != 0, "splits what is not there");
    require(it.comm < 0 || program_.comms[it.comm].rankOf(worldRank_) >= 0, "is not a member");
    meet("split of c" + std::to_string(it.parent), it.parent, it.comm);
  }
  void operator()(const Finalize& it) { require(usable(it.comm), "finalizes what is not there"); }
  void operator()(const Destroy& it) { end(it.comm); }
  void operator()(const Abort& it) {
    Event event{Event::Kind::abandon};
    event.comm = it.comm;
    events_.push_back(std::move(event));
    undrained_.erase(it.comm);
    end(it.comm);
  }
  void operator()(const GroupStart&) { ++depth_; }
  void operator()(const GroupEnd&) {
    require(depth_ > 0, "ends a group that is not open");
    if (--depth_ == 0) launch();
  }
  void operator()(const SimulateEnd&) {
    require(depth_ == 1, "simulates an inner group");
    depth_ = 0;
    for (const Call& call : calls_) require(call.idle, "simulates a call not marked idle");
    calls_.clear();
    memory_.clear();
  }
  void operator()(const MakeOp& it) {
    require(usable(it.comm), "makes an operation of what is not there");
    require(ops_.insert(it.op).second, "makes an operation twice");
  }
  void operator()(const DropOp& it) {
    require(ops_.erase(it.op) == 1, "drops an operation that is not there");
  }
  void operator()(const Sync&) {
    require(depth_ == 0 && graph_ < 0, "waits in an open group or capture");
    events_.push_back({Event::Kind::drain});
    undrained_.clear();
  }
  void operator()(const BeginCapture& it) {
    require(depth_ == 0 && graph_ < 0, "captures in an open group or capture");
    graph_ = it.graph;
    captureStream_ = it.stream;
    captured_[graph_].clear();
  }
  void operator()(const EndCapture&) {
    require(depth_ == 0 && graph_ >= 0, "ends a capture that is not open");
    graph_ = -1;
    memory_.clear();
  }
  void operator()(const Replay& it) {
    require(depth_ == 0 && graph_ < 0, "replays in an open group or capture");
    require(captured_.count(it.graph) != 0, "replays a graph that is not there");
    for (std::vector<Batch> batches : captured_[it.graph]) {
      for (Batch& batch : batches) renumber(batch, it.round);
      events_.push_back({Event::Kind::launch, std::move(batches)});
    }
  }
  void operator()(const DropGraph& it) {
    require(captured_.erase(it.graph) == 1, "drops a graph that is not there");
  }
  void operator()(const Parallel& parallel) {
    require(depth_ == 0 && graph_ < 0, "starts a thread in an open group or capture");
    Event fork{Event::Kind::fork};
    Tracer second(program_, worldRank_, dropEmptyMessages_, trace_);
    second.alive_ = alive_;
    fork.branch = second.run(parallel.second);
    fork.branch.push_back({Event::Kind::drain});
    const auto [streams, comms] = usedBy(parallel.second);
    const auto [ownStreams, ownComms] = usedBy(parallel.first);
    require(disjoint(streams, ownStreams), "two threads share a stream");
    require(disjoint(comms, ownComms), "two threads share a communicator");
    events_.push_back(std::move(fork));
    for (const Stepped& stepped : parallel.first) std::visit(*this, stepped.action);
    (*this)(Sync{});
    events_.push_back({Event::Kind::join});
  }

 private:
  void require(bool holds, const char* what) {
    if (holds) return;
    trace_.violations.push_back("rank " + std::to_string(worldRank_) + " step " +
                                std::to_string(step_) + ": " + what);
  }
  bool usable(int comm) const { return alive_.count(comm) != 0; }

  static bool disjoint(const std::set<int>& a, const std::set<int>& b) {
    return std::none_of(a.begin(), a.end(), [&](int item) { return b.count(item) != 0; });
  }
  static std::pair<std::set<int>, std::set<int>> usedBy(const std::vector<Stepped>& actions) {
    std::pair<std::set<int>, std::set<int>> used;
    for (const Stepped& stepped : actions)
      if (const auto* call = std::get_if<Call>(&stepped.action)) {
        used.first.insert(call->stream);
        used.second.insert(call->comm);
      }
    return used;
  }

  // Replays of one capture are calls of their own.
  static void renumber(Batch& batch, int round) {
    constexpr int kRounds = 1 << 16;
    for (auto* calls : {&batch.collectives, &batch.messages})
      for (Call& call : *calls) call.uid += kRounds * round;
  }

  void record(const Call& call) {
    const bool empty = call.count == 0 && (!isPointToPoint(call.kind) || dropEmptyMessages_);
    // An empty call is dropped, unless it is wrong.
    if (!empty || call.idle) calls_.push_back(call);
  }

  void launch() {
    if (graph_ < 0) memory_.clear();
    std::vector<Batch> batches;
    for (const Call& call : calls_) {
      require(call.idle == wrong_, "is launched, or not, against what it is marked as");
      auto batch = std::find_if(batches.begin(), batches.end(),
                                [&](const Batch& it) { return it.comm == call.comm; });
      if (batch == batches.end()) batch = batches.insert(batch, Batch{call.comm, {}, {}});
      (isPointToPoint(call.kind) ? batch->messages : batch->collectives).push_back(call);
      undrained_.insert(call.comm);
    }
    for (const Batch& batch : batches)
      require(program_.comms[batch.comm].nonBlocking ==
                  program_.comms[batches.front().comm].nonBlocking,
              "mixes blocking and non-blocking communicators in a group");
    require(!wrong_ || batches.size() == 1, "a wrong call takes other communicators' calls along");
    calls_.clear();
    wrong_ = false;
    if (graph_ >= 0)
      captured_[graph_].push_back(std::move(batches));
    else
      events_.push_back({Event::Kind::launch, std::move(batches)});
  }

  void meet(const std::string& what, int members, int made) {
    require(calls_.empty(), "mixes creation and communication in a group");
    require(made < 0 || alive_.insert(made).second, "makes a communicator twice");
    Event event{Event::Kind::meet};
    event.meeting = what + " step " + std::to_string(step_) + " c" + std::to_string(members);
    event.comm = members;
    events_.push_back(std::move(event));
  }

  void end(int comm) {
    require(depth_ == 0, "ends a communicator in a group");
    require(undrained_.count(comm) == 0, "ends a communicator with work outstanding");
    require(alive_.erase(comm) == 1, "ends a communicator that is not there");
  }

  const Program& program_;
  const int worldRank_;
  const bool dropEmptyMessages_;
  RankTrace& trace_;
  std::vector<Event> events_;
  int step_ = 0;
  int depth_ = 0;
  int graph_ = -1, captureStream_ = -1;
  bool wrong_ = false;
  std::vector<Call> calls_;                                  // of the open group
  std::set<std::pair<int, int>> memory_;                     // that they use
  std::map<int, std::vector<std::vector<Batch>>> captured_;  // by graph, in order
  std::set<int> alive_, ops_, undrained_;
};

}  // namespace

RankTrace traceOf(const Program& program, int worldRank, bool dropEmptyMessages) {
  RankTrace trace;
  trace.events = Tracer(program, worldRank, dropEmptyMessages, trace).run(program.ranks[worldRank]);
  return trace;
}

}  // namespace cinch::fuzz
