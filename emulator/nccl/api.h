// How the exported functions are defined: pncclX holds the code, ncclX is a weak second name for
// it, so that another library may put its own ncclX in front and still reach ours.
#pragma once

#include <nccl.h>

#include <new>

#include "common/result.h"
#include "emulator/nccl/debug.h"
#include "emulator/nccl/group.h"
#include "emulator/nccl/registry.h"

#define CINCH_NCCL_API(resultType, name, ...)                                   \
  extern "C" [[gnu::weak, gnu::alias("p" #name)]] resultType name(__VA_ARGS__); \
  extern "C" resultType p##name(__VA_ARGS__)

namespace cinch::emulator {

// Runs the body of an exported function: errors are logged, exceptions (memory, threads) stay
// inside.
template <class Body>
ncclResult_t guarded(Body body) {
  try {
    const Result<void> result = body();
    if (result) return ncclSuccess;
    const bool goesOn = result.error().status == Status::inProgress;
    return goesOn ? ncclInProgress : report(result.error());
  } catch (const std::exception& exception) {
    return report(errorf(Status::systemError, "out of resources: %s", exception.what()));
  }
}

// Fails where `pointer` is null, naming the function and its parameter.
inline Result<void> checkPointer(const void* pointer, const char* function, const char* name) {
  if (pointer != nullptr) return {};
  return errorf(Status::invalidArgument, "%s: %s is NULL", function, name);
}

inline Result<void> cudaResult(const char* function, cudaError_t error) {
  if (error == cudaSuccess) return {};
  return errorf(Status::cudaError, "%s: %s", function, cudaGetErrorString(error));
}

// Runs `action` on the communicator behind `comm`, given as a shared pointer.
template <class Action>
ncclResult_t withCommunicator(ncclComm_t comm, const char* function, Action action) {
  return guarded([&]() -> Result<void> {
    const std::shared_ptr<Communicator> communicator = find(comm);
    if (communicator != nullptr) return action(communicator);
    return errorf(Status::invalidArgument,
                  "%s: comm is not a communicator, or was destroyed before", function);
  });
}

// The same where the communicator must be free for the next call.
template <class Action>
ncclResult_t withReadyCommunicator(ncclComm_t comm, const char* function, Action action) {
  return withCommunicator(comm, function,
                          [&](const std::shared_ptr<Communicator>& communicator) -> Result<void> {
                            CINCH_TRY(communicator->checkReady(function));
                            return action(communicator);
                          });
}

// Runs `body`, which adds to the thread's group, in a group of its own or in the one that is open;
// that one then fails with it.
template <class Body>
Result<void> inGroup(Body body) {
  Group& group = Group::current();
  group.start();
  const Result<void> recorded = body(group);
  if (!recorded) group.fail(recorded.error());
  const Result<void> ended = group.end();
  return recorded ? ended : recorded;
}

}  // namespace cinch::emulator
