#!/usr/bin/env python3
"""Makes the traces of tests/traces from jobs: what rank 0 passed to NCCL, call by call, and what it carried.

    recording.py [--build FOLDER] [--to FOLDER] [--old] JOB ...

runs each job on the emulator with CINCH_MODE=observe, and joins the log of its calls (docs/call-log.md) with
its marks (marks.py). Start it with the python that emulator/torch/environment.py prints. A pattern of
registry.chosen() names the jobs. With --old those run on PyTorch's older NCCL back end where it makes other
calls, and the trace is called JOB_old.
"""
import argparse
import bisect
import glob
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "traces"), os.path.join(ROOT, "emulator", "torch")]

from trace_format import ACTIVATIONS, OTHER, WEIGHTS, Numbers, Trace  # noqa: E402

FLOATS = ("fp32", "fp16", "bf16", "fp64")
SUMS = ("Sum", "Avg", "PreMulSum")
KINDS = {"AlltoAll": "AllToAll"}  # NCCL's name, and that of traces
TRUTHS = {"weights": WEIGHTS, "activations": ACTIVATIONS}
VALUES_BYTES = 40_000  # of the samples of a trace


def read_lines(path):
    """The last one may be cut off, where the process was killed."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


class Phases:
    """What the job said about itself, at any time."""

    def __init__(self, marks):
        self.times = [mark["t"] / 1000 for mark in marks]
        self.marks = [{"step": 0, "phase": "other"}, *marks]
        self.passes = [*self._count_passes()]

    def _count_passes(self):
        """The backward pass that each mark belongs to. A phase within a phase does not begin a new one."""
        number = 0
        before = {"step": -1, "phase": "other"}
        for mark in self.marks:
            is_new = before["phase"] == "other" or mark["step"] != before["step"]
            number += mark["phase"] == "gradients" and is_new
            yield number
            before = mark

    def at(self, time):
        """(step, phase, number of the backward pass) at a time of the log."""
        index = bisect.bisect_right(self.times, time)
        return self.marks[index]["step"], self.marks[index]["phase"], self.passes[index]


def carries(call, phase, truth=None):
    """"gradients", or the truth of a trace. `truth(call, phase)` knows what the phase does not tell."""
    phase = (truth and truth(call, phase)) or phase
    is_float, is_sum = call["type"] in FLOATS, call["op"] in SUMS
    if phase == "gradients":
        if is_float and is_sum and call["type"] != "fp64":
            return "gradients"
        return WEIGHTS if is_float and call["op"] == "None" else OTHER
    if phase == "other":  # a module's state, when it is wrapped and before each forward pass
        return WEIGHTS if is_float and call["kind"] == "Broadcast" else OTHER
    return TRUTHS.get(phase, OTHER) if is_float else OTHER


class Orders:
    """What DDP has said last about its buckets, on each communicator: nothing while they are as it built
    them, then the order of their parameters."""

    def __init__(self):
        self.said, self.previous = {}, {}

    def see(self, call):
        comm, is_message = call["comm"], call["kind"] in ("Broadcast", "AllGather")
        is_shapes = is_message and call["type"] == "int64" and call["count"] > 1
        if is_shapes and self.previous.get(comm) == ("int64", 1):  # how many parameters: a model is wrapped
            self.said[comm] = ()
        if is_message and call["type"] == "int32" and "output" in call:
            self.said[comm] = (*self.of(call), tuple(call["output"]))[-2:]
        self.previous[comm] = call["type"], call["count"]

    def of(self, call):
        return self.said.get(call["comm"], ())


def signature(call):
    return call["kind"], call["op"], call["type"], call["count"]


def contents(reductions):
    """Names what is in each of the reductions of gradients, which are given as (pass, order, call).

    Of a backward pass, the sequence of a communicator's reductions is its layout: whoever reduces other
    sizes, or in another order, lays out its parameters anew. Within a layout, the n-th of equal calls has the
    same parameters in each pass."""
    sequences, seen = {}, {}
    for number, order, call in reductions:
        sequences.setdefault((number, call["comm"]), []).append((order, signature(call)))
    for number, _, call in reductions:
        key = number, call["comm"], signature(call)
        seen[key] = seen.get(key, -1) + 1
        yield call["comm"], tuple(sequences[number, call["comm"]]), signature(call), seen[key]


def bfloat(value):
    """As four hexadecimal digits; a value that is not finite comes as None."""
    if value is None:
        return "7fc0"
    (bits,) = struct.unpack(">I", struct.pack(">f", value))
    return f"{min(bits + 0x7fff + (bits >> 16 & 1), 0xffffffff) >> 16:04x}"


def is_traced(call):
    """Traces hold collectives that took place outside of graphs."""
    return call["result"] == 0 and not call["captured"] and call["kind"] not in ("Send", "Recv")


def thread_of(call):
    return "autograd" if call["thread"].startswith("pt_autograd") else call["thread"] or "unknown"


def to_trace(name, framework, origin, calls, marks, truth=None):
    """truth: as in carries()."""
    phases = Phases(marks)
    calls = [(call, *phases.at(call["time"])) for call in calls if is_traced(call)]
    comms, ranks = Numbers(), {}
    for call, *_ in calls:
        ranks[comms[call["comm"]]] = call["ranks"]
    trace = Trace(name, framework, origin, [ranks[comm] for comm in sorted(ranks)])
    carried = [carries(call, phase, truth) for call, _, phase, _ in calls]
    orders, reductions = Orders(), []
    for (call, _, _, number), what in zip(calls, carried):
        orders.see(call)
        if what == "gradients":
            reductions.append((number, orders.of(call), call))
    named = contents(reductions)
    for (call, step, *_), what in zip(calls, carried):
        trace.go_to(step)
        facts = (KINDS.get(call["kind"], call["kind"]), call["op"], call["type"], call["count"])
        place = {"comm": comms[call["comm"]], "thread": thread_of(call)}
        buffer = call["send"] or call["recv"]
        if what == "gradients":
            trace.gradient(*facts, buffer, next(named), **place)
        else:
            trace.call(*facts, buffer, what, **place)
        if call["type"] in FLOATS and "output" in call:
            trace.sample(map(bfloat, call.get("input", ())), map(bfloat, call["output"]))
    return trace


def ddp_messages(calls, origin):
    """What DDP says about the first model that is wrapped, and the reductions of the layout that it says
    last: tests/traces/ddp_messages. None where it says nothing."""
    messages = [call for call in calls if call["kind"] in ("Broadcast", "AllGather") and "output" in call]
    order = [call for call in messages if call["type"] == "int32"]
    if len(order) < 2:
        return None
    # The number of parameters, which one of PyTorch's back ends gathers and the other broadcasts, then shapes.
    before = [call for call in messages if call["type"] == "int64" and call["call"] < order[0]["call"]]
    shapes = next(call for call in before if call["kind"] == "Broadcast" and call["count"] > 1)
    number = next(call for call in reversed(before) if call["call"] < shapes["call"])
    sizes = order[1]["output"]
    reductions = [call["count"] for call in calls if call["kind"] == "AllReduce" and call["type"] in FLOATS
                  and call["call"] > order[1]["call"]]
    return {"origin": origin, "nParameters": number["output"][0],
            "sizesAndStrides": shapes["output"], "bucketOrder": order[0]["output"], "bucketSizes": sizes,
            "allReduceCounts": reductions[:len(sizes)]}


def is_rank_0(calls):
    """By the largest communicator."""
    most = max((call["ranks"] for call in calls), default=0)
    return next((call["rank"] == 0 for call in calls if call["ranks"] == most), False)


def files_of_rank_0(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.calls.jsonl"))):
        if is_rank_0(calls := read_lines(path)):
            marks = path.replace(".calls.jsonl", ".marks.jsonl")
            return calls, read_lines(marks) if os.path.exists(marks) else []
    raise FileNotFoundError(f"no process in {folder} was rank 0")


def run(names, variant, build, folder):
    """Runs the jobs, and yields the name and the errors of each that has ended; what it left is in
    FOLDER/JOB."""
    import environment

    prepared = environment.prepare(sys.executable, build)
    values = os.environ | prepared.variables(cinch=True) | {"CINCH_MODE": "observe", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [prepared.python, os.path.join(HERE, "worker.py"), variant, folder, *names]
    with subprocess.Popen(command, env=values, stdout=subprocess.PIPE, text=True) as worker:
        for line in worker.stdout:
            if line.startswith("{"):
                run_of_job = json.loads(line)
                yield run_of_job["job"], run_of_job.get("errors", [])


def record(job, suffix, folder, target):
    import torch

    calls, marks = files_of_rank_0(folder)
    back_end = ", the older NCCL back end" if suffix else ""
    framework = f"PyTorch, {job.name} of tests/frameworks/jobs/{job.family}.py{back_end}"
    origin = f"recorded, torch {torch.__version__} on the emulator"
    trace = to_trace(job.name + suffix, framework, origin, calls, marks, job.truth)
    trace.write(target, VALUES_BYTES)
    return len(calls)


def main():
    import registry

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", help="a folder where Cinch and the emulator are built")
    parser.add_argument("--to", type=pathlib.Path, default=pathlib.Path(ROOT, "tests", "traces"))
    parser.add_argument("--old", action="store_true", help="PyTorch's older NCCL back end")
    parser.add_argument("jobs", nargs="+")
    arguments = parser.parse_args()
    jobs = {job.name: job for job in registry.chosen(arguments.jobs)
            if job.back_ends_differ or not arguments.old}
    variant, suffix = ("cinch-old", "_old") if arguments.old else ("cinch", "")
    failed = set(jobs)
    with tempfile.TemporaryDirectory() as folder:
        for name, errors in run(list(jobs), variant, arguments.build, folder):
            if errors:
                print(f"{name}: {errors[0].strip()}", flush=True)
                continue
            n_calls = record(jobs[name], suffix, os.path.join(folder, name), arguments.to)
            print(f"{name}: {n_calls} calls", flush=True)
            failed.remove(name)
    return f"not recorded: {' '.join(sorted(failed))}" if failed else 0


if __name__ == "__main__":
    sys.exit(main())
