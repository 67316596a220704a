"""Runs bench/schedule/rank.py on all ranks of a network, plain or under Cinch."""

import json
import os
import pathlib
import statistics
import tempfile
from dataclasses import dataclass, field

from lab.job import Job
from lab.machine import NUMPY_PYTHON

_PROGRAM = pathlib.Path(__file__).with_name("rank.py")
_PATIENCE = 1800  # seconds

# What the calls are made by: Cinch's settings, or None for NCCL alone.
VARIANTS = {
    "pass": None,
    "auto": {},
    **{
        codec: {"CINCH_CODEC": codec, "CINCH_STRATEGY": "sra", "CINCH_WARMUP_CALLS": "2"}
        for codec in ("q8", "q4", "h3")
    },
}
# One call over and over has no place in a step.
_COMMON = {"CINCH_SLOTS": "signature", "CINCH_MIN_BYTES": "16K"}


@dataclass
class Task:
    """What every rank does: a plan of (bytes, calls)."""

    variant: str
    plan: list
    kind: str = "fp32"
    ranks_per_host: int = 1
    checks: str = "all"  # calls; what is checked makes the others wait for a rank
    settings: dict = field(default_factory=dict)  # more of Cinch's
    arguments: dict = field(default_factory=dict)  # by rank
    preloaded: str = "lib"  # folder of libcinch.so and of its codec


@dataclass
class Size:
    """What one rank found of one size."""

    seconds: list
    nmse: list  # of the calls that were checked
    bits: float | None  # per value on the wire, of compressed calls
    strategy: dict  # what Cinch's report says of its choice

    def median(self, first):
        return statistics.median(self.seconds[first:])


class Runner:
    def __init__(self, build, network):
        self._build, self._network = build, network

    def run(self, task, on_poll=lambda folder: None):
        """{bytes: Size} of each rank."""
        ranks = range(self._network.ranks * task.ranks_per_host)
        with tempfile.TemporaryDirectory(prefix="cinch-schedule-") as folder:
            commands = [self._command(task, rank, len(ranks), folder) for rank in ranks]
            environments = [self._environment(task, rank, folder) for rank in ranks]
            with Job(folder, commands, environments) as job:
                job.wait(lambda: on_poll(folder), _PATIENCE)
            return [self._read(task, rank, folder) for rank in ranks]

    def _command(self, task, rank, ranks, folder):
        plan = ",".join(f"{n_bytes}:{calls}" for n_bytes, calls in task.plan)
        options = {
            "rank": rank,
            "ranks": ranks,
            "id-file": f"{folder}/id",
            "type": task.kind,
            "plan": plan,
            "checks": task.checks,
            "out": f"{folder}/out{rank}.json",
            "folder": folder,
        }
        words = [NUMPY_PYTHON, "-B", str(_PROGRAM)]
        words += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        words += task.arguments.get(rank, [])
        # Else two runs of the same differ by half, as the scheduler has put their threads.
        words = ["taskset", "-c", str(rank % os.cpu_count()), *words]
        return self._network.command(rank // task.ranks_per_host, words)

    def _environment(self, task, rank, folder):
        # Cinch's own variables come from the task alone.
        values = {n: v for n, v in os.environ.items() if not n.startswith("CINCH_")}
        values |= {
            "NCCL_HOSTID": f"schedule-host-{rank // task.ranks_per_host}",
            "NCCL_SOCKET_IFNAME": "=" + self._network.interface,
            "LD_LIBRARY_PATH": os.path.join(self._build, "emulator"),
        }
        if VARIANTS[task.variant] is not None:
            values |= _COMMON | VARIANTS[task.variant] | task.settings
            values |= {
                "LD_PRELOAD": os.path.join(self._build, task.preloaded, "libcinch.so"),
                "CINCH_STATS": f"{folder}/stats{rank}",
            }
        return values

    def _read(self, task, rank, folder):
        with open(f"{folder}/out{rank}.json", encoding="utf-8") as file:
            found = json.load(file)["sizes"]
        slots = {} if VARIANTS[task.variant] is None else _slots(f"{folder}/stats{rank}.json", task)
        sizes = {}
        for size in found:
            slot = slots.get(size["bytes"], {})
            sizes[size["bytes"]] = Size(
                size["seconds"], size["nmse"], slot.get("bits_per_value"), slot.get("strategy", {})
            )
        return sizes


def _slots(path, task):
    """{bytes: what the report says} of what was compressed."""
    width = 4 if task.kind == "fp32" else 2
    with open(path, encoding="utf-8") as file:
        slots = json.load(file)["communicators"][0]["slots"]
    return {int(slot["name"].rsplit(" ", 1)[1]) * width: slot for slot in slots if slot["calls"]}
