// The schedules of all ranks, played against one another: every element must end where it belongs,
// made of every rank's part exactly once, without more messages in flight than there are slots.
#include "emulator/nccl/schedule.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <vector>

#include "emulator/nccl/reduction.h"

namespace cinch::emulator {
namespace {

// An element, as what it is made of: element `index` of the inputs of the ranks in `ranks`.
struct Value {
  uint32_t ranks = 0;
  size_t index = 0;
  bool finished = false;

  bool operator==(const Value&) const = default;
};

using Values = std::vector<Value>;

uint32_t allOf(int nRanks) {
  return (1u << nRanks) - 1;
}

// All ranks of one operation, joined by queues that hold as many messages as real channels.
class Simulation {
 public:
  Simulation(Operation operation, int nRanks) : operation_(operation), nRanks_(nRanks) {
    for (int rank = 0; rank < nRanks; ++rank) {
      schedules_.emplace_back(operation, rank, nRanks);
      outputs_.emplace_back(outputCount());
    }
    next_.resize(nRanks);
    edges_.resize(nRanks);
  }

  // False where the ranks came to wait for one another, or something else went wrong.
  bool run() {
    bool moved = true;
    while (moved && !testing::Test::HasFatalFailure()) {
      moved = false;
      for (int rank = 0; rank < nRanks_; ++rank) moved |= tryStep(rank);
    }
    for (int rank = 0; rank < nRanks_; ++rank) {
      if (next_[rank] != schedules_[rank].nSteps()) return false;
      if (!edges_[rank].empty()) return false;
    }
    return true;
  }

  const Values& output(int rank) const { return outputs_[rank]; }

 private:
  size_t outputCount() const {
    return operation_.count * (operation_.kind == Kind::allGather ? nRanks_ : 1);
  }

  bool tryStep(int rank) {
    if (next_[rank] == schedules_[rank].nSteps()) return false;
    const Step step = schedules_[rank].step(next_[rank]);
    std::deque<Values>& in = edges_[(rank + nRanks_ - 1) % nRanks_];
    std::deque<Values>& out = edges_[rank];
    if (step.receives && in.empty()) return false;
    // A transport that buffers nothing: a message is in a slot of its sender or its receiver.
    if (step.sends && out.size() == 2 * kSlots) return false;
    Values message;
    if (step.receives) message = receive(rank, step, in);
    if (!step.forwards) message = originate(rank, step);
    if (step.sends) out.push_back(message);
    ++next_[rank];
    return true;
  }

  Values receive(int rank, const Step& step, std::deque<Values>& in) {
    Values values = in.front();
    in.pop_front();
    EXPECT_EQ(values.size(), step.received.count) << "sender and receiver disagree";
    for (size_t i = 0; i < values.size(); ++i) {
      if (step.combines) addOwn(rank, step.received.input + i, &values[i]);
      if (step.finishes) {
        EXPECT_EQ(values[i].ranks, allOf(nRanks_));
        values[i].finished = true;
      }
      if (step.stores) outputs_[rank].at(step.received.output + i) = values[i];
    }
    return values;
  }

  void addOwn(int rank, size_t index, Value* value) {
    EXPECT_EQ(value->index, index) << "added to another element";
    EXPECT_EQ(value->ranks & 1u << rank, 0u) << "added twice";
    EXPECT_FALSE(value->finished);
    value->ranks |= 1u << rank;
  }

  Values originate(int rank, const Step& step) {
    Values values;
    for (size_t i = 0; i < step.fresh.count; ++i) {
      values.push_back({1u << rank, step.fresh.input + i, false});
      if (step.keeps) outputs_[rank].at(step.fresh.output + i) = values.back();
    }
    EXPECT_LE(values.size() * elementBytes(operation_.type), kSlotBytes);
    return values;
  }

  Operation operation_;
  int nRanks_;
  std::vector<Schedule> schedules_;
  std::vector<size_t> next_;
  std::vector<std::deque<Values>> edges_;  // from rank to the next
  std::vector<Values> outputs_;
};

Operation operationOf(Kind kind, size_t count, ncclDataType_t type, int root) {
  return {kind, nullptr, nullptr, count, type, ncclSum, root};
}

// What the output's element must be; no value where it is nobody's business.
std::optional<Value> expected(const Operation& operation, int rank, int nRanks, size_t i) {
  const bool alone = nRanks == 1;
  switch (operation.kind) {
    case Kind::allReduce:
      return Value{allOf(nRanks), i, !alone};
    case Kind::reduceScatter:
      return Value{allOf(nRanks), rank * operation.count + i, !alone};
    case Kind::allGather:
      return Value{1u << (i / operation.count), i % operation.count, false};
    case Kind::broadcast:
      return Value{1u << operation.peer, i, false};
    default:
      if (rank != operation.peer) return std::nullopt;
      return Value{allOf(nRanks), i, !alone};
  }
}

void check(const Operation& operation, int nRanks) {
  SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(operation.kind) << " count "
                                  << operation.count << " type " << operation.type << " root "
                                  << operation.peer << " ranks " << nRanks);
  Simulation simulation(operation, nRanks);
  ASSERT_TRUE(simulation.run());
  for (int rank = 0; rank < nRanks; ++rank) {
    const Values& output = simulation.output(rank);
    for (size_t i = 0; i < output.size(); ++i) {
      const std::optional<Value> wanted = expected(operation, rank, nRanks, i);
      ASSERT_EQ(output[i], wanted.value_or(output[i])) << "rank " << rank << " element " << i;
    }
  }
}

TEST(Schedule, BringsEveryElementToItsPlace) {
  for (const int nRanks : {1, 2, 3, 4, 5, 7, 8}) {
    for (const size_t count : {1, 2, 3, 15, 16, 17, 1000, 8191, 20011}) {
      for (const Kind kind : {Kind::allReduce, Kind::reduceScatter, Kind::allGather}) {
        check(operationOf(kind, count, ncclFloat32, -1), nRanks);
      }
      for (const Kind kind : {Kind::broadcast, Kind::reduce}) {
        for (const int root : {0, nRanks / 2, nRanks - 1}) {
          check(operationOf(kind, count, ncclFloat32, root), nRanks);
        }
      }
    }
  }
}

// Widths other than 4 move the edges of slices; several rounds take the pipeline round its corners.
TEST(Schedule, HoldsForOtherWidthsAndForSeveralRounds) {
  for (const Kind kind : {Kind::allReduce, Kind::reduceScatter, Kind::allGather}) {
    check(operationOf(kind, 4099, ncclInt8, -1), 3);
    check(operationOf(kind, 9001, ncclFloat16, -1), 4);
    check(operationOf(kind, 5003, ncclFloat64, -1), 5);
    check(operationOf(kind, 300001, ncclFloat64, -1), 2);
  }
}

TEST(Schedule, OfAllReduceSendsNoMoreThanTheBound) {
  for (const int nRanks : {2, 3, 4, 7}) {
    const size_t count = 4500000;
    const Schedule schedule(operationOf(Kind::allReduce, count, ncclFloat32, -1), 0, nRanks);
    size_t sent = 0;
    for (size_t i = 0; i < schedule.nSteps(); ++i) {
      const Step step = schedule.step(i);
      if (step.sends) sent += step.forwards ? step.received.count : step.fresh.count;
    }
    const double bound = 2.0 * (nRanks - 1) / nRanks * count;
    EXPECT_NEAR(static_cast<double>(sent), bound, bound * 0.001);
  }
}

TEST(Schedule, OfAnEmptyMessageIsOneEmptyMessage) {
  const Schedule sender(operationOf(Kind::send, 0, ncclFloat32, 1), 0, 2);
  const Schedule receiver(operationOf(Kind::receive, 0, ncclFloat32, 0), 1, 2);
  EXPECT_EQ(sender.nSends(), 1u);
  EXPECT_EQ(receiver.nReceives(), 1u);
  EXPECT_EQ(sender.step(0).fresh.count, 0u);
  EXPECT_TRUE(receiver.step(0).stores);
}

TEST(SliceBytes, IsShortForSmallAndOneSlotForLarge) {
  EXPECT_EQ(sliceBytes(0), kShortestSliceBytes);
  EXPECT_EQ(sliceBytes(1), kShortestSliceBytes);
  EXPECT_EQ(sliceBytes(size_t{1} << 20), size_t{64} << 10);
  EXPECT_EQ(sliceBytes(size_t{1} << 30), kSlotBytes);
  for (size_t n = 0; n < (size_t{4} << 20); n += 12345) {
    EXPECT_EQ(sliceBytes(n) % 16, 0u) << n;
    EXPECT_LE(sliceBytes(n), kSlotBytes) << n;
  }
}

}  // namespace
}  // namespace cinch::emulator
