#include "tests/unit/interpose/support/job.h"

#include <cmath>
#include <random>
#include <thread>

#include "interpose/agree/decisions.h"

namespace cinch::test {
namespace {

float valueOf(size_t rank, size_t i) {
  return std::sin(static_cast<float>(i) * 0.01f + static_cast<float>(rank));
}

size_t shardsIn(CallKind kind, bool input, size_t nRanks) {
  if (kind == CallKind::reduceScatter) return input ? nRanks : 1;
  return kind == CallKind::allGather && !input ? nRanks : 1;
}

}  // namespace

ncclResult_t Part::submit() const {
  const auto pass = [part = *this] { return part.forward(); };
  return cinch::submit(rank->comm, call, Pass(pass));
}

ncclResult_t Part::forward() const {
  const RealNccl& real = fakeRealTable();
  const Collective& c = call;
  const ncclComm_t handle = rank->comm->comm;
  switch (c.kind) {
    case CallKind::reduceScatter:
      return real.ReduceScatter(c.send, c.recv, c.count, c.type, c.op, handle, c.stream);
    case CallKind::allGather:
      return real.AllGather(c.send, c.recv, c.count, c.type, handle, c.stream);
    default:
      return real.AllReduce(c.send, c.recv, c.count, c.type, c.op, handle, c.stream);
  }
}

Work::Work(const TestRanks& ranks, CallKind kind, size_t count, ncclRedOp_t op) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    send_.emplace_back(count * shardsIn(kind, true, ranks.size()));
    recv_.emplace_back(count * shardsIn(kind, false, ranks.size()));
  }
  restore();
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    parts_.push_back(
        {ranks[rank].get(),
         {kind, send_[rank].data(), recv_[rank].data(), count, ncclFloat32, op, 0, nullptr}});
}

void Work::restore() const {
  for (size_t rank = 0; rank < send_.size(); ++rank)
    for (size_t i = 0; i < send_[rank].size(); ++i) send_[rank][i] = valueOf(rank, i);
}

void Work::refill(uint64_t seed) const {
  std::normal_distribution<float> value;
  for (size_t rank = 0; rank < send_.size(); ++rank) {
    std::mt19937_64 random(seed * 64 + rank);
    for (float& own : send_[rank]) own = value(random);
  }
}

ncclResult_t Work::submit() const {
  ncclResult_t result = ncclSuccess;
  for (const Part& part : parts_)
    if (const ncclResult_t own = part.submit(); result == ncclSuccess) result = own;
  return result;
}

Slot& Work::slot(int rank) const {
  const Collective& call = part(rank).call;
  CommState& comm = part(rank).comm();
  const OpClass op =
      call.kind == CallKind::allGather ? OpClass::none : comm.classOf(call.op, call.type);
  const Signature signature{call.kind, op, call.type, call.count};
  const auto decision = comm.decide(signature, nullptr);
  comm.takeBack(signature);
  EXPECT_NE(decision.slot, nullptr) << kReasonNames[static_cast<size_t>(decision.reason)];
  return *decision.slot;
}

std::vector<float> Work::expected(int rank, float factor) const {
  std::vector<float> values;
  if (part(rank).call.kind == CallKind::allGather) {
    for (const auto& shard : send_) values.insert(values.end(), shard.begin(), shard.end());
    return values;
  }
  const size_t count = part(rank).call.count;
  const size_t from =
      part(rank).call.kind == CallKind::reduceScatter ? count * static_cast<size_t>(rank) : 0;
  for (size_t i = from; i < from + count; ++i) {
    float sum = 0;
    for (const auto& own : send_) sum += own[i];
    values.push_back(factor * sum);
  }
  return values;
}

double Work::errorOf(int rank, float factor) const {
  const std::vector<float> exact = expected(rank, factor), &found = received(rank);
  EXPECT_EQ(found.size(), exact.size());
  double error = 0, power = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(static_cast<double>(found[i]) - static_cast<double>(exact[i]), 2);
    power += std::pow(static_cast<double>(exact[i]), 2);
  }
  return error / power;
}

void groupStart() {
  ASSERT_EQ(OpenGroup::start(fakeRealTable()), ncclSuccess);
}

ncclResult_t groupEnd() {
  return OpenGroup::end(fakeRealTable());
}

ncclResult_t runInGroup(const std::vector<const Work*>& works) {
  groupStart();
  for (const Work* work : works)
    if (const ncclResult_t result = work->submit(); result != ncclSuccess) {
      groupEnd();
      return result;
    }
  return groupEnd();
}

void awaitBackground(const TestRanks& ranks) {
  for (const auto& rank : ranks)
    while (rank->comm.use_count() > 1) std::this_thread::yield();
}

// The server takes what ranks send in turn, so that what was sent before is decided, too.
void awaitDecisions(const TestRanks& ranks) {
  static uint64_t topic = uint64_t{1} << 63;
  awaitBackground(ranks);
  ++topic;
  ASSERT_TRUE(ranks[0]->comm->agreement().propose(topic, {}).ok());
  for (const auto& rank : ranks) {
    const auto decided =
        rank->comm->agreement().decisions().await(topic, deadlineIn(std::chrono::seconds(60)));
    ASSERT_TRUE(decided.ok() && decided.value());
  }
}

void JobTest::getReady(const Work& work) {
  for (int call = 0; call < 3; ++call) ASSERT_EQ(runInGroup({&work}), ncclSuccess);
  for (int rank = 0; rank < work.nRanks(); ++rank)
    ASSERT_EQ(work.slot(rank).phase, SlotPhase::connected);
  forget();
}

std::vector<std::string> JobTest::happened() {
  std::vector<std::string> calls;
  for (const std::string& call : timeline())
    if (call != "CommGetAsyncError" && call != "probe") calls.push_back(call);
  return calls;
}

void JobTest::forget() {
  timeline().clear();
  fakeReal().calls.clear();
  fakeDevice().calls.clear();
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace cinch::test
