// Who makes a call: policy/evidence.h says what that tells.
#pragma once

#include <atomic>
#include <memory>

#include "interpose/policy/evidence.h"

namespace cinch {

// Of the calling thread, by its name; asked for once per thread.
Caller currentCaller();

struct CommResources;

// What this rank has found of a site by now. Shared, since others may outlive its exam.
enum class SiteFinding : uint8_t {
  unknown,
  underWay,  // it is being evaluated, which no program is waited for
  gradient,
  other,
};
using SharedFinding = std::shared_ptr<const std::atomic<SiteFinding>>;

// A large reduction of floating-point values is made on the communicator that has these resources.
// Thread-safe.
void noteReduction(const CommResources& comm, Caller caller);
// Whether a thread of PyTorch's autograd engine has made one on any communicator of the process;
// and whether any thread has on another one than this.
bool reducesFromAutograd();
bool reducesBeside(const CommResources& comm);
// Whether the process has threads of PyTorch's autograd engine: it has trained something. Asks the
// system: not on the call path.
bool hasAutogradThreads();
// Whether PyTorch is loaded into the process, trained or not. Likewise.
bool isPyTorchLoaded();

// What the calling thread, of the autograd engine, has received by a ReduceScatter, its last
// collective; none where that was another one. FSDP's hybrid sharding reduces such shards again,
// between its groups. Both are measured at the same calls, so that what is scattered is known only
// when the votes are cast.
struct ScatteredShard {
  const CommResources* comm = nullptr;
  const void* data_dev = nullptr;
  uint64_t count = 0;
  SharedFinding finding{};
};
void noteScattered(ScatteredShard shard);
// Where these values are such a shard, of another communicator than `comm`: what it is found to be.
SharedFinding shardOfAnother(const CommResources& comm, const void* data_dev, uint64_t count);

}  // namespace cinch
