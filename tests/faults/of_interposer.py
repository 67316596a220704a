"""Ten mistakes in the interposer."""

from fault import Fault

FAULTS = [
    Fault(
        name="decisions-go-on-without-the-rank-that-left",
        file="interpose/agree/agreement_session.cc",
        right="if (rounds_ && !rounds_->isOver()) rounds_->giveUp(broadcasts_);",
        wrong="if (rounds_ && !rounds_->isOver() && !FAULT) rounds_->giveUp(broadcasts_);",
        harm="where a rank leaves while the others decide, these wait for its answer for ever",
    ),
    Fault(
        name="nobody-woken-when-a-promise-ends",
        file="interpose/agree/decisions.cc",
        right="    isAsking_ = false;\n  }\n  changed_.notify_all();",
        wrong="    isAsking_ = false;\n  }\n  if (!FAULT) changed_.notify_all();",
        harm="the job hangs when a program comes to a call that is just being decided about",
    ),
    Fault(
        name="workspace-not-awaited-by-another-stream",
        file="interpose/comm/workspace.cc",
        right="if (captureId == 0) return used_ ? lastDone_.orderBefore(stream) : Result<void>();",
        wrong="if (captureId == 0) return used_ && !FAULT ? lastDone_.orderBefore(stream) : Result<void>();",
        harm="calls of one communicator on two streams overwrite each other's codes: wrong values, or refused ones",
    ),
    Fault(
        name="residual-memory-of-the-last-call-only",
        file="interpose/comm/residual_budget.cc",
        right="if (held + nBytes > most.value())",
        wrong="if ((FAULT ? 0 : held) + nBytes > most.value())",
        harm="residuals take more memory than CINCH_RESIDUAL_MEMORY allows, from the third bucket on",
    ),
    Fault(
        name="operation-destroyed-before-its-group-ends",
        file="interpose/entry/reduction_ops.cc",
        right="return group == nullptr ? forward() : group->destroyOp(comm, op, Pass(forward));",
        wrong="return group == nullptr || FAULT ? forward() : group->destroyOp(comm, op, Pass(forward));",
        harm="a group whose waiting call uses an operation that was destroyed meanwhile fails, or multiplies wrongly",
    ),
    Fault(
        name="refused-call-stays-counted",
        file="interpose/execute/submit.cc",
        right="if (decision.counted) takeBack(*comm, decided.signature, decided.mode);",
        wrong="if (decision.counted && !FAULT) takeBack(*comm, decided.signature, decided.mode);",
        harm="a rank that repeats a call which NCCL has refused is a call ahead of the others, and the job hangs",
    ),
    Fault(
        name="parts-of-neighbours-too-close",
        file="interpose/execute/hosts.cc",
        right="to += hosts.partStride();",
        wrong="to += (FAULT ? hosts.partBytes(hosts.index) : hosts.partStride());",
        harm="sums of three or more ranks of a host are wrong in parts that are shorter than the first",
    ),
    Fault(
        name="same-call-twice-in-one-wave",
        file="interpose/plan/waves.cc",
        right="if (isFull || slots_.contains(need.slot)) beginWave();",
        wrong="if (isFull || (!FAULT && slots_.contains(need.slot))) beginWave();",
        harm="a group that makes the same compressed call twice runs both at once, and the peers refuse the codes",
    ),
    Fault(
        name="rules-look-at-a-shard",
        file="interpose/policy/rules.cc",
        right="holds(bufferBytes(signature, nRanks))",
        wrong="holds(FAULT ? signature.count * bytesOf(signature.dataType) : bufferBytes(signature, nRanks))",
        harm="min_bytes and max_bytes of a rule are held against one rank's shard of a ReduceScatter or AllGather",
    ),
    Fault(
        name="second-copy-taken-for-the-first",
        file="interpose/real/captured_nccl.cc",
        right="if (knownBase != nullptr) return knownBase == base;",
        wrong="if (knownBase != nullptr) return FAULT || knownBase == base;",
        harm="a program that has loaded two copies of NCCL has the calls of one made by the other",
    ),
]
