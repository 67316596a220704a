// What a thread has called between ncclGroupStart and ncclGroupEnd.
//
// Compressed calls are kept and run when the outermost group ends; what passes goes to NCCL at
// once, which records it. But NCCL launches the communicators of a group in the order of their
// first calls, and ranks that share several of them rely on that order. So a call that would come
// before a communicator whose first call is kept waits with it.
//
// What a group holds besides the collectives of one communicator never changes what happens to that
// communicator; and NCCL wants the collectives of one communicator grouped alike on all of its
// ranks.
#pragma once

#include <memory>
#include <vector>

#include "interpose/agree/group_marks.h"
#include "interpose/execute/batch.h"
#include "interpose/execute/pass.h"

namespace cinch {

class OpenGroup {
 public:
  // Of the thread's groups, from 1.
  const uint64_t number = ++nMade();

  // The calling thread's open group of `real`; null where none is open. Groups of two NCCLs in one
  // process do not know of each other.
  static OpenGroup* of(const RealNccl& real);
  // One level more, in `real` too. The outermost one waits where the ranks are just deciding
  // something, for control threads (agree/group_marks.h).
  static ncclResult_t start(const RealNccl& real);

  // Ends one level, in `real` too. The outermost end launches everything.
  static ncclResult_t end(const RealNccl& real);
  // Ends one level of a group that `real` only simulates: at the outermost one the calls are
  // counted back, so that no trace is left (one rank may simulate alone).
  static void forget(const RealNccl& real);

  // Remembers a collective that was counted, and how it is sent.
  void note(const std::shared_ptr<CommState>& comm, const Signature& signature,
            const CallMode& mode);
  // Keeps a compressed call for the end.
  void defer(BatchItem item);
  // Hands a call to NCCL by `pass`, now or at the end.
  struct Passing {
    ncclComm_t comm;
    ncclRedOp_t op = ncclSum;  // what it reduces by
    bool isEmpty = false;      // a collective on no values, which NCCL drops
    // NCCL has no reason to refuse it. What it will refuse never waits: the program expects to hear
    // of it at once.
    bool isSound = true;
  };
  ncclResult_t pass(const Passing& call, const Pass& pass);
  // Destroys an operation of `comm` by `destroy`, now or when waiting calls no longer need it.
  ncclResult_t destroyOp(ncclComm_t comm, ncclRedOp_t op, const Pass& destroy);
  // NCCL said `result` of a call that is not a communication: a refusal spoils the whole group.
  void judge(ncclResult_t result);

  // A call that was passed has been put on its stream only when the group has been launched.
  void hearLater(const std::shared_ptr<CommState>& comm, const Signature& signature,
                 const Collective& call) {
    passed_.push_back({comm, signature, call});
  }
  // `slot` takes its next step when the group has been launched, once for all its calls in it.
  void prepareLater(const std::shared_ptr<CommState>& comm, const CommState::Decision& decision,
                    const Collective& call);
  // `parent` is making a communicator, which is complete when the group is, and not asked for
  // before.
  struct ComingBirth {
    std::shared_ptr<CommState> parent;
    ncclComm_t* handle;
    int64_t kind;
    int64_t part;
  };
  void expectBirth(ComingBirth birth) { births_.push_back(std::move(birth)); }

 private:
  struct Noted {
    std::shared_ptr<CommState> comm;
    Signature signature;
    CallMode mode;
  };
  struct Passed {
    std::shared_ptr<CommState> comm;
    Signature signature;
    Collective call;
  };
  struct Waiting {
    ncclRedOp_t op;
    KeptCall call;
  };
  struct Member {
    ncclComm_t comm;
    bool isJoined;  // NCCL has recorded a call of it
    std::vector<Waiting> waiting;
  };

  static uint64_t& nMade() {
    thread_local uint64_t n = 0;
    return n;
  }
  explicit OpenGroup(const RealNccl& real) : real_(&real) {}
  // The group of `real` if this was its outermost level; its thread then has none.
  static std::unique_ptr<OpenGroup> leave(const RealNccl& real);
  Member& memberOf(ncclComm_t comm);
  bool mustWait(const Member& member) const;
  bool isStillUsed(ncclComm_t comm, ncclRedOp_t op) const;
  void inOrderOfMembers(std::vector<BatchItem>& items);
  Result<void> record(Batch& batch);
  ncclResult_t launchDeferred();
  ncclResult_t launchAll();
  void followAllBirths(ncclResult_t result);
  ncclResult_t launch();
  void countBack();

  const GroupEntered entered_;
  const RealNccl* real_;
  int depth_ = 0;
  bool isSpoilt_ = false;        // NCCL refused a call and will refuse the group
  std::vector<Member> members_;  // in the order of their first calls
  std::vector<BatchItem> deferred_;
  std::vector<BatchItem> unready_;
  std::vector<Noted> noted_;
  std::vector<Passed> passed_;
  std::vector<KeptCall> opsToDestroy_;
  std::vector<ComingBirth> births_;
};

// A call that passes while its slot gets ready, or its site is measured.
BatchItem unreadyItem(const std::shared_ptr<CommState>& comm, const CommState::Decision& decision,
                      const Collective& call);
// Takes the next step of slots whose calls have passed and been launched; connects those that want
// it, one of each communicator at a time, where the ranks meet, which may be waited for. `result`
// is what NCCL said of those calls; returns what the program is told.
ncclResult_t prepareAll(std::span<BatchItem> unready, const RealNccl& real, ncclResult_t result);

}  // namespace cinch
