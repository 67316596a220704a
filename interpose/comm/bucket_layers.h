// Where the layers of a communicator's buckets begin: as the user states it (CINCH_LAYERS), else as
// PyTorch DDP's own messages say. For the rank that plans the precision; what it knows is its own
// affair, and reaches the others in its plans.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "interpose/comm/comm_resources.h"
#include "interpose/comm/ddp_ear.h"
#include "interpose/policy/evidence.h"
#include "interpose/policy/sequence.h"

namespace cinch {

// What a layer file says; nothing where there is none.
struct StatedLayers {
  bool areStated = false;  // though perhaps not so that they can be read
  std::vector<BucketLayout> buckets;
};
// An empty path states nothing. What is wrong with a file is logged; it then has no buckets.
StatedLayers readStatedLayers(const std::string& path);
// Those of CINCH_LAYERS, read once.
const StatedLayers& processStatedLayers();

class BucketLayers {
 public:
  // `commName` is for the log. `resources.device` must be set.
  BucketLayers(std::string commName, const CommResources& resources, int nRanks,
               const StatedLayers& stated = processStatedLayers());

  // Call path, cheap; any call may come. NCCL has put it on `stream`, with `received_dev` as its
  // receive buffer, and nothing has been enqueued behind it yet.
  void hear(const Signature& call, const void* received_dev, void* stream);
  // NCCL may not have enqueued it yet (it said ncclInProgress).
  void miss(const Signature& call);
  // A call was made; to be told of all, in order.
  void follow(const Signature& call);

  // The layers of the bucket of a call; empty where they are not known: its segments are then of
  // fixed length (segmentsOf()). Any thread, but not the call path: may search for a second.
  //
  // `period` is what Sequence::gradients() says, and `slot` the call's Place::slot in it. Where it
  // has none, its element count must do, in the period or, without one, in the last calls.
  BucketLayout of(const std::vector<GradientCall>& period, uint64_t count,
                  std::optional<uint32_t> slot);

  // What PyTorch DDP's messages say of that bucket, and of the others of its period. As of();
  // without a period the count must do.
  DdpClaim claimOf(const std::vector<GradientCall>& period, uint64_t count, uint32_t slot);

 private:
  using Calls = std::vector<GradientCall>;
  using Layouts = std::vector<BucketLayout>;
  struct Answer {
    Calls calls;
    uint64_t nChanges;  // of what was heard, until then
    Layouts layers;
  };

  BucketLayout find(const Calls& period, uint64_t count, std::optional<uint32_t> slot);
  Calls lastCalls();
  const Answer& answerTo(const Calls& calls);
  Layouts layersOf(const Calls& calls, const DdpListener& listener) const;
  BucketLayout statedOf(uint64_t count);
  void logOnce(const Layouts& layers);

  const std::string commName_;
  const StatedLayers& stated_;
  DdpEar ear_;

  std::mutex callsMutex_;
  Calls lastCalls_;  // since an order of buckets may have been sent

  std::mutex answerMutex_;
  Answer answer_{};  // the last one
  bool isLogged_ = false;
};

}  // namespace cinch
