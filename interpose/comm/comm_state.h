// What Cinch keeps for one communicator, beside NCCL's own object: facts, slots, workspace,
// figures.
//
// NCCL lets one thread at a time use a communicator, so nothing here takes a lock; abandon(),
// fail() and health() may come from any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/param.h"
#include "common/stats.h"
#include "interpose/agree/agreement.h"
#include "interpose/comm/slot.h"
#include "interpose/comm/workspace.h"
#include "interpose/policy/policy.h"
#include "interpose/real/real_nccl.h"

namespace cinch {

// What a rank gets before it says hello, so that a rank which cannot is known to all.
struct CommResources {
  const DeviceTable* device = nullptr;
  int cudaDevice = 0;
  Buffer fault;  // one word that refused peer bytes set

  static Result<CommResources> allocate(bool emulator);
};

class CommState {
 public:
  CommState(const RealNccl& real, ncclComm_t comm, int rank, int nRanks, CommStats& stats);
  ~CommState();

  // All ranks agreed: compression is possible from here on.
  void enable(CommResources resources, std::unique_ptr<Agreement> agreement, bool severalHosts);

  // Counts a collective and decides on it. With Reason::none, `slot` is where it belongs.
  struct Decision {
    Reason reason;
    Slot* slot;
  };
  Decision decide(const Signature& signature);
  // A call that decide() counted did not take place after all.
  void takeBack(const Signature& signature) { signatures_.takeBack(signature); }

  // The channel to the other ranks; only where they agreed.
  Agreement& agreement() { return *agreement_; }

  // Counts a call that went to NCCL unchanged.
  void countPass(Reason reason, uint64_t nBytes);

  // Marks the communicator as failed with the first error, logs it once, returns its status.
  ncclResult_t fail(const Error& error);
  // ncclSuccess, or what compressed calls and ncclCommGetAsyncError must report.
  ncclResult_t health();

  // Blocks until queued work is done, then takes the last figures and writes the residual dump.
  void finish();
  // The communicator is aborted: wakes every wait; what the device may still use is never freed.
  void abandon();

  const RealNccl& real;
  const ncclComm_t comm;
  const int rank;
  const int nRanks;
  CommStats& stats;
  CommResources resources;
  Workspace workspace;

 private:
  Slot& slotOf(uint32_t signatureIndex, const Signature& signature);

  const Params& params_;
  CommFacts facts_;
  SignatureTable signatures_;
  std::unique_ptr<Agreement> agreement_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> slotBySignature_;
  std::atomic<int> failed_{ncclSuccess};
  std::atomic<bool> abandoned_{false};
};

}  // namespace cinch
