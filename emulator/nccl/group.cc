#include "emulator/nccl/group.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

#include "emulator/nccl/debug.h"
#include "emulator/nccl/reduction.h"
#include "emulator/nccl/registry.h"

namespace cinch::emulator {
namespace {

// Long enough that a caller who does not wait for ncclSuccess is caught.
constexpr auto kBackgroundDelay = std::chrono::milliseconds(2);
// What a simulated group is said to take: a start, and some bytes in each microsecond.
constexpr float kLatencyUs = 20;
constexpr float kBytesPerUs = 1000;

bool isSelfTransfer(const Operation& operation, int rank) {
  return isPointToPoint(operation.kind) && operation.peer == rank;
}

size_t nBytes(const Operation& operation) {
  return operation.count * elementBytes(operation.type);
}

void end(const Job& job, const Result<void>& result) {
  // A failed blocking set-up leaves nothing behind; of another one the caller learns by its handle.
  if (!result && job.isSetUp && job.communicator->settings().blocking) forget(*job.communicator);
  job.communicator->endWork(result);
}

// One after another; each is carried out whatever became of those before it.
Result<void> runInOrder(const std::vector<Job>& jobs) {
  Result<void> first;
  for (const Job& job : jobs) {
    const Result<void> result = job.run();
    end(job, result);
    if (first) first = result;
  }
  return first;
}

// By communicator, each in the order of the calls.
std::vector<std::vector<Job>> chainsOf(const std::vector<Job>& jobs) {
  std::vector<std::vector<Job>> chains;
  for (const Job& job : jobs) {
    auto chain = std::find_if(chains.begin(), chains.end(), [&](const std::vector<Job>& it) {
      return it.front().communicator == job.communicator;
    });
    if (chain == chains.end()) chain = chains.emplace(chain);
    chain->push_back(job);
  }
  return chains;
}

Result<void> runAll(const std::vector<Job>& jobs) {
  const std::vector<std::vector<Job>> chains = chainsOf(jobs);
  if (chains.empty()) return {};
  std::vector<Result<void>> results(chains.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < chains.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = runInOrder(chains[i]); });
  }
  results[0] = runInOrder(chains[0]);
  for (std::thread& thread : threads) thread.join();
  for (const Result<void>& result : results) CINCH_TRY(Result<void>(result));
  return {};
}

}  // namespace

Group& Group::current() {
  thread_local Group group;
  return group;
}

Result<void> Group::end() {
  if (depth_ == 0) {
    return errorf(Status::invalidUsage, "ncclGroupEnd: there is no open group on this thread");
  }
  if (--depth_ > 0) return {};
  return carryOut(std::exchange(calls_, Calls{}));
}

Result<void> Group::simulateEnd(float* microseconds) {
  if (depth_ == 1) {
    size_t total = 0;
    for (const Batch& batch : calls_.batches) {
      for (const Operation& operation : batch.operations) total += nBytes(operation);
    }
    *microseconds = kLatencyUs + static_cast<float>(total) / kBytesPerUs;
    calls_.batches.clear();
  }
  return end();
}

Result<void> Group::agreeOnBlocking(const Communicator& communicator) {
  const bool blocking = communicator.settings().blocking;
  if (!calls_.blocking) calls_.blocking = blocking;
  if (*calls_.blocking == blocking) return {};
  return errorf(Status::invalidArgument,
                "one group cannot hold both blocking and non-blocking communicators");
}

Result<void> Group::addOperation(std::shared_ptr<Communicator> communicator,
                                 const Operation& operation, cudaStream_t stream) {
  CINCH_TRY(agreeOnBlocking(*communicator));
  auto batch = std::find_if(calls_.batches.begin(), calls_.batches.end(),
                            [&](const Batch& it) { return it.communicator == communicator; });
  if (batch == calls_.batches.end()) {
    batch = calls_.batches.insert(batch, Batch{std::move(communicator), {}, {}});
  }
  batch->operations.push_back(operation);
  if (std::find(batch->streams.begin(), batch->streams.end(), stream) == batch->streams.end()) {
    batch->streams.push_back(stream);
  }
  return {};
}

Result<void> Group::addJob(Job job) {
  CINCH_TRY(agreeOnBlocking(*job.communicator));
  calls_.jobs.push_back(std::move(job));
  return {};
}

void Group::fail(const Error& error) {
  if (!calls_.error) calls_.error = error;
}

Result<void> Group::check(Calls& calls) {
  if (calls.error) return *calls.error;
  if (!calls.jobs.empty() && !calls.batches.empty()) {
    return errorf(Status::invalidUsage,
                  "ncclGroupEnd: one group cannot hold both the making or ending of communicators "
                  "and communication");
  }
  for (Batch& batch : calls.batches) {
    auto paired = pairSelfTransfers(batch.operations, batch.communicator->rank());
    if (!paired) return paired.error();
    batch.operations = std::move(paired.value());
  }
  return checkCaptures(calls.batches);
}

Result<void> Group::carryOut(Calls calls) {
  const Result<void> checked = check(calls);
  for (const Batch& batch : calls.batches) {
    if (checked) batch.communicator->beginWork();
  }
  for (const Job& job : calls.jobs) {
    job.communicator->beginWork();
    if (!checked) emulator::end(job, checked);
  }
  if (!checked || (calls.batches.empty() && calls.jobs.empty())) return checked;
  if (*calls.blocking) return perform(std::move(calls));
  std::thread([calls = std::move(calls)]() mutable {
    std::this_thread::sleep_for(kBackgroundDelay);
    if (const Result<void> result = perform(std::move(calls)); !result) report(result.error());
  }).detach();
  return errorf(Status::inProgress, "carried out by another thread");
}

Result<void> Group::perform(Calls calls) {
  if (calls.batches.empty()) return runAll(calls.jobs);
  std::vector<std::shared_ptr<Communicator>> communicators;
  for (const Batch& batch : calls.batches) communicators.push_back(batch.communicator);
  const Result<void> launched = launch(std::move(calls.batches));
  for (const auto& communicator : communicators) communicator->endWork(launched);
  return launched;
}

Result<std::vector<Operation>> pairSelfTransfers(const std::vector<Operation>& operations,
                                                 int rank) {
  std::vector<Operation> result;
  std::deque<Operation> sends;
  std::deque<Operation> receives;
  for (const Operation& operation : operations) {
    if (!isSelfTransfer(operation, rank)) {
      result.push_back(operation);
    } else {
      (operation.kind == Kind::send ? sends : receives).push_back(operation);
    }
  }
  if (sends.size() != receives.size()) {
    return errorf(Status::invalidUsage,
                  "rank %d sends %zu messages to itself but receives %zu in the same group", rank,
                  sends.size(), receives.size());
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    if (nBytes(sends[i]) != nBytes(receives[i])) {
      return errorf(Status::invalidUsage, "rank %d sends %zu bytes to itself but receives %zu",
                    rank, nBytes(sends[i]), nBytes(receives[i]));
    }
    Operation copy = sends[i];
    copy.kind = Kind::copy;
    copy.output = receives[i].output;
    result.push_back(copy);
  }
  return result;
}

}  // namespace cinch::emulator
