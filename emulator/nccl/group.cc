#include "emulator/nccl/group.h"

#include <algorithm>
#include <deque>
#include <thread>

#include "emulator/nccl/debug.h"
#include "emulator/nccl/reduction.h"

namespace cinch::emulator {
namespace {

bool isSelfTransfer(const Operation& operation, int rank) {
  return isPointToPoint(operation.kind) && operation.peer == rank;
}

size_t nBytes(const Operation& operation) {
  return operation.count * elementBytes(operation.type);
}

Result<void> runAll(const std::vector<std::function<Result<void>()>>& jobs) {
  if (jobs.size() == 1) return jobs.front()();
  std::vector<Result<void>> results(jobs.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < jobs.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = jobs[i](); });
  }
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

void Group::addOperation(std::shared_ptr<Communicator> communicator, const Operation& operation,
                         cudaStream_t stream) {
  auto batch = std::find_if(calls_.batches.begin(), calls_.batches.end(),
                            [&](const Batch& it) { return it.communicator == communicator; });
  if (batch == calls_.batches.end()) {
    batch = calls_.batches.insert(batch, Batch{std::move(communicator), {}, {}});
  }
  batch->operations.push_back(operation);
  if (std::find(batch->streams.begin(), batch->streams.end(), stream) == batch->streams.end()) {
    batch->streams.push_back(stream);
  }
}

void Group::addInitialisation(std::function<Result<void>()> initialise) {
  calls_.initialisations.push_back(std::move(initialise));
}

void Group::fail(const Error& error) {
  if (!calls_.error) calls_.error = error;
}

Result<void> Group::carryOut(Calls calls) {
  if (calls.error) return *calls.error;
  if (!calls.initialisations.empty() && !calls.batches.empty()) {
    return errorf(Status::invalidUsage,
                  "ncclGroupEnd: one group cannot hold both communicator initialisation and "
                  "communication");
  }
  for (Batch& batch : calls.batches) {
    auto paired = pairSelfTransfers(batch.operations, batch.communicator->rank());
    if (!paired) return paired.error();
    batch.operations = std::move(paired.value());
  }
  for (Batch& batch : calls.batches) {
    CINCH_TRY(batch.communicator->launch(std::move(batch.operations), std::move(batch.streams)));
  }
  return runAll(calls.initialisations);
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
