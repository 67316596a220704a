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


# A step counts as compressed from so much of its gradients' bytes on, and gradients ought to be known by that step.
WHOLE_STEP = 0.95
KNOWN_BY = 12


def steps_with_gradients(lines):
    """The lines of the gradients of each step that has any, in order."""
    steps = {}
    for line in lines:
        if line[0] == "gradients":
            steps.setdefault(line[1], []).append(line)
    return [steps[step] for step in sorted(steps)]


def first_whole_step(lines):
    """The first step that is compressed, counted from 1 among those with gradients; None: there is none."""
    for number, step in enumerate(steps_with_gradients(lines), 1):
        found = shares(step)["gradients"]
        if found["compressed_bytes"] >= WHOLE_STEP * found["bytes"]:
            return number
    return None


def when_known(lines):
    """Those of the gradients from step KNOWN_BY on."""
    return [line for step in steps_with_gradients(lines)[KNOWN_BY - 1:] for line in step]


def read_process(folder, process):
    """(calls, marks) of the rank that was this process; None without a call log."""
    base = os.path.join(folder, str(process))
    if not os.path.exists(f"{base}.calls.jsonl"):
        return None
    return read_lines(f"{base}.calls.jsonl"), read_lines(f"{base}.marks.jsonl")


def of_process(folder, process, truth=None):
    """{"all": {class: share}, "end": the same of the last third, "known": of what came when gradients ought to be
    known, "from_step": first_whole_step()} of the rank that was this process; None without a call log."""
    if not (read := read_process(folder, process)):
        return None
    lines = classified(*read, truth)
    return {"all": shares(lines), "end": shares(in_the_end(lines)), "known": shares(when_known(lines)),
            "from_step": first_whole_step(lines)}


def reported_share(folder, process):
    """Of the bytes that a rank's large reductions were given, which part its report calls compressed; None where it
    has no report, or no such reductions. What is timed, measured or not known yet passes."""
    path = os.path.join(folder, f"{process}.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        calls = [call for comm in json.load(file)["communicators"] for call in comm["calls"]]
    sums = [call for call in calls if call["name"].startswith(REDUCTIONS) and call["bytes"] >= call["calls"] * MIN_BYTES]
    whole = sum(call["bytes"] for call in sums)
    return sum(call["bytes"] * call["compressed"] / call["calls"] for call in sums) / whole if whole else None


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
