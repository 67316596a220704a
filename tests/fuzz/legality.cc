#include "tests/fuzz/legality.h"

#include <algorithm>
#include <memory>

#include "tests/fuzz/rank_trace.h"

namespace cinch::fuzz {
namespace {

// One thread of a rank: what it has still to do, and what it has launched.
struct Thread {
  std::vector<Event> events;
  size_t at = 0;
  std::deque<Batch> launched;

  const Event* next() const { return at < events.size() ? &events[at] : nullptr; }
  bool isDone() const { return at == events.size() && launched.empty(); }
};

using Rank = std::vector<std::unique_ptr<Thread>>;  // the main thread first

bool sameCollective(const Call& a, const Call& b) {
  return a.uid == b.uid && a.kind == b.kind && a.count == b.count && a.type == b.type &&
         a.op == b.op && a.fault == b.fault && a.idle == b.idle &&
         (isPointToPoint(a.kind) || a.peer == b.peer);
}

class Simulation {
 public:
  Simulation(const Program& program, bool dropEmptyMessages) : program_(program) {
    for (int rank = 0; rank < program.nRanks(); ++rank) {
      RankTrace trace = traceOf(program, rank, dropEmptyMessages);
      violations_.insert(violations_.end(), trace.violations.begin(), trace.violations.end());
      ranks_.emplace_back();
      ranks_.back().push_back(std::make_unique<Thread>(Thread{std::move(trace.events), 0, {}}));
    }
  }

  std::vector<std::string> run() {
    if (!violations_.empty()) return violations_;
    for (bool moved = true; moved && violations_.empty();) {
      moved = false;
      for (Rank& rank : ranks_)
        for (size_t thread = 0; thread < rank.size(); ++thread)
          while (step(rank, *rank[thread])) moved = true;
    }
    if (!violations_.empty()) return violations_;
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      if (!ranks_[rank].front()->isDone()) violations_.push_back(describeStop(rank));
    return violations_;
  }

 private:
  bool step(Rank& rank, Thread& thread) {
    return stepDevice(rank, thread) || stepHost(rank, thread);
  }

  bool stepHost(Rank& rank, Thread& thread) {
    const Event* event = thread.next();
    if (event == nullptr) return false;
    switch (event->kind) {
      case Event::Kind::launch:
        thread.launched.insert(thread.launched.end(), event->batches.begin(), event->batches.end());
        break;
      case Event::Kind::meet:
        return meet(*event);
      case Event::Kind::drain:
        if (!thread.launched.empty()) return false;
        break;
      case Event::Kind::abandon:
        std::erase_if(thread.launched, [&](const Batch& it) { return it.comm == event->comm; });
        break;
      case Event::Kind::fork:
        rank.push_back(std::make_unique<Thread>(Thread{event->branch, 0, {}}));
        break;
      case Event::Kind::join:
        if (!rank.back()->isDone()) return false;
        rank.pop_back();
        break;
    }
    ++thread.at;
    return true;
  }

  // All members at once, when the last one has come.
  bool meet(const Event& event) {
    const std::string meeting = event.meeting;
    std::vector<Thread*> present;
    for (const int member : program_.comms[event.comm].members)
      for (const auto& thread : ranks_[member]) {
        const Event* other = thread->next();
        const bool here = other != nullptr && other->kind == Event::Kind::meet;
        if (here && other->meeting == meeting) present.push_back(thread.get());
      }
    if (present.size() != program_.comms[event.comm].members.size()) return false;
    for (Thread* thread : present) ++thread->at;
    return true;
  }

  bool stepDevice(Rank& rank, Thread& thread) {
    if (thread.launched.empty()) return false;
    Batch& batch = thread.launched.front();
    if (batch.isDone()) {
      thread.launched.pop_front();
      return true;
    }
    const int self = static_cast<int>(&rank - ranks_.data());
    return collective(batch) || message(self, batch);
  }

  // The batch of `comm` that a rank is at; null: it is elsewhere.
  Batch* current(int rank, int comm) {
    for (const auto& thread : ranks_[rank])
      if (!thread->launched.empty() && thread->launched.front().comm == comm)
        return &thread->launched.front();
    return nullptr;
  }

  bool collective(const Batch& batch) {
    if (batch.collectives.empty()) return false;
    const Call call = batch.collectives.front();
    std::vector<Batch*> batches;
    for (const int member : program_.comms[call.comm].members) {
      Batch* other = current(member, call.comm);
      if (other == nullptr || other->collectives.empty()) return false;
      batches.push_back(other);
    }
    for (Batch* other : batches) {
      if (!sameCollective(other->collectives.front(), call) ||
          other->collectives.size() != batch.collectives.size())
        violations_.push_back("ranks differ at " + describe(program_, call) + " and " +
                              describe(program_, other->collectives.front()));
    }
    for (Batch* other : batches) other->collectives.pop_front();
    return true;
  }

  // The first message of the kind between the two ranks of `comm`.
  static std::deque<Call>::iterator find(Batch& batch, Kind kind, int peer) {
    return std::find_if(batch.messages.begin(), batch.messages.end(),
                        [&](const Call& call) { return call.kind == kind && call.peer == peer; });
  }

  bool message(int self, Batch& batch) {
    const Comm& comm = program_.comms[batch.comm];
    const int rank = comm.rankOf(self);
    for (int peer = 0; peer < comm.size(); ++peer) {
      Batch* other = current(comm.members[peer], batch.comm);
      const auto sent = find(batch, Kind::send, peer);
      if (other == nullptr || sent == batch.messages.end()) continue;
      const auto received = find(*other, Kind::receive, rank);
      if (received == other->messages.end()) continue;
      if (sent->uid != received->uid || sent->count != received->count ||
          sent->type != received->type)
        violations_.push_back("messages differ: " + describe(program_, *sent) + " and " +
                              describe(program_, *received));
      const int uid = sent->uid;
      const auto same = [&](Kind kind) {
        return [=](const Call& it) { return it.kind == kind && it.uid == uid; };
      };
      other->messages.erase(received);
      batch.messages.erase(
          std::find_if(batch.messages.begin(), batch.messages.end(), same(Kind::send)));
      return true;
    }
    return false;
  }

  std::string describeStop(size_t rank) const {
    const Thread& thread = *ranks_[rank].front();
    std::string text = "rank " + std::to_string(rank) + " waits for ever";
    if (thread.launched.empty()) return text + " to make a communicator or for a thread";
    const Batch& batch = thread.launched.front();
    const auto& calls = batch.collectives.empty() ? batch.messages : batch.collectives;
    return text + " in " + describe(program_, calls.front());
  }

  const Program& program_;
  std::vector<Rank> ranks_;
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> violationsOf(const Program& program) {
  std::vector<std::string> violations = Simulation(program, false).run();
  if (violations.empty()) violations = Simulation(program, true).run();
  return violations;
}

}  // namespace cinch::fuzz
