// What one rank knows of one gate (call_gate.h), and what it has promised. Pure, without locks.
#pragma once

#include <cstdint>
#include <optional>

#include "common/result.h"

namespace cinch {

// The two-phase commit by which all ranks close a gate (call_gate.h) before the same call.
// `ordinal` is that call's number, which is never kNeverCloses.
inline constexpr uint64_t kNeverCloses = UINT64_MAX;

// Messages (agreement_wire.h).
struct CloseProposal;
struct ClosePrepare;
struct ClosePrepared;
struct GateClosed;
struct GateNotClosed;

class GateRecord {
 public:
  enum class State {
    open,
    closed,
    undecided,  // the control threads are at it
    unknown     // this rank has promised to wait, and its connection has ended
  };

  // Of the next call, as far as this rank may make it.
  State nextCall() const;
  // The same where this rank has proposed to close the gate before the next call: undecided while
  // that call may still become one of a closed gate.
  State nextCallOnceProposed() const;

  // The next call begins, in a state that is open or closed.
  void begin() { begun_++; }
  // The last one that has begun did not take place.
  void takeBack();
  uint64_t begun() const { return begun_; }

  // True once: nobody has proposed to close this gate yet, as far as is known here. From then on
  // the server tries by itself until the gate is closed or stays open for good.
  bool mustPropose();

  // From the server; an error where it breaks the protocol. What arrives after the end is ignored.
  Result<std::optional<ClosePrepared>> prepare(const ClosePrepare& message);
  Result<void> closed(const GateClosed& message);
  Result<void> notClosed(const GateNotClosed& message);
  // The connection has ended: without this rank's promise nobody can close the gate any more.
  void end() { ended_ = true; }

 private:
  uint64_t begun_ = 0;
  uint64_t openBelow_ = 0;  // no call below closes the gate any more: decided for all
  uint64_t closedAt_ = kNeverCloses;
  uint64_t preparedAt_ = kNeverCloses;  // accepted here, outcome not known yet
  bool proposed_ = false;
  bool ended_ = false;
};

}  // namespace cinch
