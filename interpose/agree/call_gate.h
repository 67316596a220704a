// How all ranks stop compressing one call site before the same call, when one rank alone finds out
// that they must, and no rank's program may be waited for.
//
// The ranks' control threads do it among themselves, by a two-phase commit at a call that no rank
// has begun: docs/agreement.md, "Gates".
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "common/result.h"
#include "interpose/agree/gate_record.h"

namespace cinch {

// One call site of a communicator, whose calls all ranks number alike: 0, 1, 2, ... While the gate
// is open its calls are compressed; all ranks close it before the same call. Made by
// Agreement::openGate(), which it may outlive.
//
// begin(), takeBack() and close() are for the thread that makes the calls, one at a time; the rest
// may be called from any thread at any time. In a forked child all fail, as no control thread is
// there.
class CallGate {
 public:
  // Sends a proposal; `mayWait` for room in the kernel.
  using Propose = std::function<void(const CloseProposal&, bool mayWait)>;
  // `generation` is the forkGeneration() in which its control thread runs.
  CallGate(uint64_t topic, Propose propose, uint64_t generation);
  CallGate(const CallGate&) = delete;
  CallGate& operator=(const CallGate&) = delete;

  // This rank's next call is about to be made: true where the gate is open for it. Normally a mutex
  // lock and nothing else: no system call, no allocation. Waits only where a proposal to close at
  // or before this call has been accepted here and its outcome is not known yet: for control
  // threads, never for another rank's program. An error where the channel ended meanwhile, so that
  // the outcome cannot be known: others may have closed the gate, so that this rank must fail the
  // communicator. After an error the call has not begun.
  Result<bool> begin();

  // The last call that begin() counted did not take place (a group that was refused or simulated):
  // its number will be used again.
  void takeBack();

  // This rank wants the gate closed before its own next call (the one that the next begin() is
  // about). Waits until that is decided, for control threads only. True: it is closed for all ranks
  // from that call on, or was before. False: that call is one of an open gate on all ranks, as
  // some rank has begun it already, or the ranks have agreed on a later one, or the gate cannot be
  // closed any more since a rank has left. An error as for begin().
  //
  // The gate then closes at a later call by itself, of which begin() tells.
  Result<bool> close();

  // The same from any thread and without waiting (for example when a measurement is evaluated in
  // the background): the gate closes a few calls later.
  void closeSoon();

  // How many calls have begun.
  uint64_t begun() const;
  // True where the next call is one of a closed gate, as far as this rank knows now.
  bool isClosed() const;

 private:
  friend class GateTable;

  bool isForked() const;
  Error unknownOutcome() const;

  // For the control thread, of what the server has sent. Never waits.
  Result<std::optional<ClosePrepared>> prepare(const ClosePrepare& message);
  Result<void> closed(const GateClosed& message);
  Result<void> notClosed(const GateNotClosed& message);
  void end();

  const uint64_t topic_;
  const Propose propose_;
  const uint64_t generation_;

  mutable std::mutex mutex_;  // held by nobody who waits or sends
  std::condition_variable decided_;
  GateRecord record_;
};

// All gates of one rank's end of a communicator, and what has been decided of gates that its
// program has yet to open. A gate's record is kept as long as the communicator, since other ranks
// may want it closed when this one has no more use for it.
class GateTable {
 public:
  explicit GateTable(CallGate::Propose propose);

  // The same gate each time. In a forked child, one that fails.
  std::shared_ptr<CallGate> open(uint64_t topic);

  // From the server: what to answer, if anything. An error where it breaks the protocol.
  Result<std::optional<ClosePrepared>> receive(const ClosePrepare& message);
  Result<void> receive(const GateClosed& message);
  Result<void> receive(const GateNotClosed& message);

  // The connection has ended: wakes everybody who waits at a gate.
  void end();

 private:
  struct Entry {
    std::shared_ptr<CallGate> gate;
    bool isOpened = false;
  };

  // None where too many are remembered for a program that has not opened them.
  std::shared_ptr<CallGate> find(uint64_t topic);
  std::shared_ptr<CallGate> make(uint64_t topic);

  const CallGate::Propose propose_;
  const uint64_t generation_;
  std::mutex mutex_;  // guards what follows; a gate's own may be taken under it
  std::map<uint64_t, Entry> gates_;
  size_t nUnopened_ = 0;
  bool ended_ = false;
};

}  // namespace cinch
