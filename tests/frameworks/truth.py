"""What a job's collectives carried, and what Cinch did with them: a call log joined with the job's marks.

CINCH_CALL_LOG writes a line for each call, JOB_MARKS one for each change of the job's phase (marks.py);
both have the time of CLOCK_MONOTONIC. Only calls that Cinch would consider are counted: floating-point
numbers of 64 KiB and more, between several ranks.
"""
import bisect
import json
import os
from dataclasses import asdict, dataclass, field

BYTES = {"fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
         "half": 2, "float": 4, "double": 8}
MIN_BYTES = 64 << 10
REDUCTIONS = ("AllReduce", "ReduceScatter", "Reduce")


@dataclass
class Share:
    """Of the calls of one class: their bytes, and those of the compressed ones."""

    calls: int = 0
    compressed_calls: int = 0
    bytes: int = 0
    compressed_bytes: int = 0
    # Why the others passed: bytes by the outcome that the log has.
    passed: dict = field(default_factory=dict)

    def add(self, n_bytes, outcome):
        self.calls += 1
        self.bytes += n_bytes
        if outcome == "compressed":
            self.compressed_calls += 1
            self.compressed_bytes += n_bytes
        else:
            self.passed[outcome] = self.passed.get(outcome, 0) + n_bytes


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def with_phases(calls, marks):
    """(call, step, phase) of each: the phase that was marked last when the call was made."""
    times = [mark["t"] for mark in marks]
    for call in calls:
        at = bisect.bisect_right(times, call["time"] * 1000) - 1
        yield (call, marks[at]["step"], marks[at]["phase"]) if at >= 0 else (call, 0, "other")


def n_bytes(call):
    """What the call is given on this rank: ReduceScatter's count is that of one rank's result."""
    whole = call["ranks"] if call["kind"] == "ReduceScatter" else 1
    return call["count"] * whole * BYTES.get(call["type"], 0)


def carried(call, phase, truth=None):
    """What the call carries. Backward gathers weights, too, and only sums are gradients."""
    if truth and (said := truth(call, phase)):
        return said
    if phase == "gradients" and call["kind"] not in REDUCTIONS:
        return "weights" if call["kind"] == "AllGather" else "other"
    return phase


def classified(calls, marks, truth=None):
    """(what it carries, step, bytes, outcome) of each call that Cinch would consider."""
    return [(carried(call, phase, truth), step, n_bytes(call), call["outcome"])
            for call, step, phase in with_phases(calls, marks)
            if n_bytes(call) >= MIN_BYTES and call["ranks"] > 1]


def shares(lines):
    """{class: Share}"""
    found = {}
    for what, _, size, outcome in lines:
        found.setdefault(what, Share()).add(size, outcome)
    return {what: asdict(share) for what, share in found.items()}


def in_the_end(lines):
    """Those of the last third of the steps that had gradients."""
    steps = sorted({step for what, step, *_ in lines if what == "gradients"})
    return [line for line in lines if steps and line[1] >= steps[2 * len(steps) // 3]]


def of_process(folder, process, truth=None):
    """{"all": {class: share}, "end": the same of the last third} of the rank that was this process; None
    without a call log."""
    base = os.path.join(folder, str(process))
    if not os.path.exists(f"{base}.calls.jsonl"):
        return None
    lines = classified(read_lines(f"{base}.calls.jsonl"), read_lines(f"{base}.marks.jsonl"), truth)
    return {"all": shares(lines), "end": shares(in_the_end(lines))}
