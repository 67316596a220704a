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


def considered(calls, marks, truth=None):
    """(call, what it carries, step) of each call that Cinch would consider."""
    return [(call, carried(call, phase, truth), step)
            for call, step, phase in with_phases(calls, marks)
            if n_bytes(call) >= MIN_BYTES and call["ranks"] > 1]


def classified(calls, marks, truth=None):
    """(what it carries, step, bytes, outcome) of each call that Cinch would consider."""
    return [(what, step, n_bytes(call), call["outcome"]) for call, what, step in considered(calls, marks, truth)]


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


def read_process(folder, process):
    """(calls, marks) of the rank that was this process; None without a call log."""
    base = os.path.join(folder, str(process))
    if not os.path.exists(f"{base}.calls.jsonl"):
        return None
    return read_lines(f"{base}.calls.jsonl"), read_lines(f"{base}.marks.jsonl")


def of_process(folder, process, truth=None):
    """{"all": {class: share}, "end": the same of the last third} of the rank that was this process; None
    without a call log."""
    if not (read := read_process(folder, process)):
        return None
    lines = classified(*read, truth)
    return {"all": shares(lines), "end": shares(in_the_end(lines))}


# How a sum of two ranks comes out, given both numbers.
EXACT_SUMS = {"Sum": lambda one, other: one + other, "Avg": lambda one, other: (one + other) / 2}

# How far off an exact sum may be, as a share of what was added: the log has 8 digits of a number, the sum itself
# is rounded to its type, and codecs are off by far more.
ROUNDING = {"fp32": 5e-7, "bf16": 4e-3}


def is_exact(of_ranks):
    """Whether an AllReduce delivered the sum of its inputs, by the values that both ranks' logs have of it; None
    where they have none."""
    first = of_ranks[0]
    if first["kind"] != "AllReduce" or first["op"] not in EXACT_SUMS or first["type"] not in ROUNDING:
        return None
    inputs, outputs = ([call.get(name) for call in of_ranks] for name in ("input", "output"))
    if any(values is None or None in values for values in inputs + outputs):
        return None
    tolerance = ROUNDING[first["type"]]
    return outputs[0] == outputs[1] and all(
        abs(EXACT_SUMS[first["op"]](*pair) - value) <= tolerance * sum(map(abs, pair))
        for pair, value in zip(zip(*inputs), outputs[0]))


def sums_beside(ranks, truth=None):
    """Of the sums that carry no gradients, on two ranks that each gave (calls, marks):

    sums: how many there are that Cinch would consider; compressed: of these, by either rank's log;
    checked, inexact: of how many the values are known, and of how many they are wrong;
    unpaired: how many one rank made and the other one did not."""
    found = [[call for call, what, _ in considered(*read, truth) if what != "gradients" and call["kind"] in REDUCTIONS]
             for read in ranks]
    pairs = [*zip(*found)]
    exact = [is_exact(pair) for pair in pairs]
    compressed = sum(any(call["outcome"] == "compressed" for call in pair) for pair in pairs)
    return {"sums": len(pairs), "compressed": compressed, "checked": len(exact) - exact.count(None),
            "inexact": exact.count(False), "unpaired": abs(len(found[0]) - len(found[1]))}
