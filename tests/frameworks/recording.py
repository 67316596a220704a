#!/usr/bin/env python3
"""Makes the traces of tests/traces from jobs: what rank 0 passed to NCCL, call by call, and what it carried.

    recording.py [--build FOLDER] [--to FOLDER] JOB ...

runs each job on the emulator with CINCH_MODE=observe, and joins the log of its calls (docs/call-log.md) with
its marks (marks.py). Start it with the python that emulator/torch/environment.py prints. A pattern of
registry.chosen() names the jobs.
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
VALUES_BYTES = 100_000  # of the samples of a trace


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


class Layouts:
    """Names what is in a reduction of gradients. Of a backward pass, the sequence of a communicator's
    reductions is its layout: whoever reduces other sizes lays out its parameters anew. Within a layout,
    the n-th of equal calls has the same parameters in each pass."""

    def __init__(self, reductions):
        """reductions: (pass, communicator, call) of all, in order."""
        self.sequences = {}
        self.seen = {}
        for number, comm, call in reductions:
            self.sequences.setdefault((number, comm), []).append(self.signature(call))

    @staticmethod
    def signature(call):
        return call["kind"], call["op"], call["type"], call["count"]

    def content(self, number, comm, call):
        """To be asked of each reduction once, in order."""
        signature = self.signature(call)
        key = number, comm, signature
        self.seen[key] = self.seen.get(key, -1) + 1
        return comm, tuple(self.sequences[number, comm]), signature, self.seen[key]


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
    kinds = [carries(call, phase, truth) for call, _, phase, _ in calls]
    layouts = Layouts((number, call["comm"], call) for (call, _, _, number), kind in zip(calls, kinds)
                      if kind == "gradients")
    for (call, step, _, number), kind in zip(calls, kinds):
        trace.go_to(step)
        facts = (KINDS.get(call["kind"], call["kind"]), call["op"], call["type"], call["count"])
        place = {"comm": comms[call["comm"]], "thread": thread_of(call)}
        buffer = call["send"] or call["recv"]
        if kind == "gradients":
            trace.gradient(*facts, buffer, layouts.content(number, call["comm"], call), **place)
        else:
            trace.call(*facts, buffer, kind, **place)
        if call["type"] in FLOATS and "output" in call:
            trace.sample(map(bfloat, call.get("input", ())), map(bfloat, call["output"]))
    return trace


def ddp_messages(calls, origin):
    """What DDP says about the first model that is wrapped, and the reductions of the layout that it says
    last: tests/traces/ddp_messages. None where it says nothing."""
    messages = [call for call in calls if call["kind"] == "Broadcast" and call["type"] in ("int64", "int32")
                and "output" in call]
    shapes = [call for call in messages if call["type"] == "int64"]
    order = [call for call in messages if call["type"] == "int32"]
    if not shapes or len(order) < 2:
        return None
    gathered = [call for call in calls if call["kind"] == "AllGather" and call["type"] == "int64"
                and "output" in call and call["call"] < shapes[0]["call"]]
    sizes = order[1]["output"]
    reductions = [call["count"] for call in calls if call["kind"] == "AllReduce" and call["type"] in FLOATS
                  and call["call"] > order[1]["call"]]
    return {"origin": origin, "nParameters": gathered[-1]["output"][0],
            "sizesAndStrides": shapes[0]["output"], "bucketOrder": order[0]["output"], "bucketSizes": sizes,
            "allReduceCounts": reductions[:len(sizes)]}


def is_rank_0(calls):
    """By the largest communicator."""
    most = max((call["ranks"] for call in calls), default=0)
    return next((call["rank"] == 0 for call in calls if call["ranks"] == most), False)


def files_of_rank_0(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.calls.jsonl"))):
        if is_rank_0(calls := read_lines(path)):
            return calls, read_lines(path.replace(".calls.jsonl", ".marks.jsonl"))
    raise FileNotFoundError(f"no process in {folder} was rank 0")


def run(names, build, folder):
    """Runs the jobs; what they leave is in FOLDER/JOB."""
    import environment

    prepared = environment.prepare(sys.executable, build)
    values = os.environ | prepared.variables(cinch=True) | {"CINCH_MODE": "observe", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [prepared.python, os.path.join(HERE, "worker.py"), "cinch", folder, *names]
    done = subprocess.run(command, env=values, stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        if line.startswith("{") and (errors := json.loads(line).get("errors")):
            raise RuntimeError(f"{json.loads(line)['job']}: {errors[0]}")


def main():
    import torch

    import registry

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", help="a folder where Cinch and the emulator are built")
    parser.add_argument("--to", type=pathlib.Path, default=pathlib.Path(ROOT, "tests", "traces"))
    parser.add_argument("jobs", nargs="+")
    arguments = parser.parse_args()
    jobs = registry.chosen(arguments.jobs)
    with tempfile.TemporaryDirectory() as folder:
        run([job.name for job in jobs], arguments.build, folder)
        for job in jobs:
            calls, marks = files_of_rank_0(os.path.join(folder, job.name))
            origin = f"recorded, torch {torch.__version__} on the emulator"
            trace = to_trace(job.name, f"PyTorch, tests/frameworks/jobs/{job.family}.py", origin, calls, marks,
                             job.truth)
            trace.write(arguments.to, VALUES_BYTES)
            print(job.name, len(calls), "calls", flush=True)


if __name__ == "__main__":
    main()
