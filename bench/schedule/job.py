"""Runs bench/schedule/rank.py on all ranks of a network, plain or under Cinch."""

import json
import os
import pathlib
import select
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from lab.job import Job, JobFailed
from lab.machine import NUMPY_PYTHON

_PROGRAM = pathlib.Path(__file__).with_name("rank.py")
_PATIENCE = 1800  # seconds
_LOOK_SECONDS = 0.5  # from one look at ranks that may have failed to the next

# What the calls are made by: Cinch's settings, or None for NCCL alone.
VARIANTS = {
    "pass": None,
    "auto": {},
    **{
        codec: {"CINCH_CODEC": codec, "CINCH_WHEN": "always", "CINCH_WARMUP_CALLS": "2"}
        for codec in ("q8", "q4", "h3")
    },
}
# One call over and over has no place in a step.
_COMMON = {"CINCH_SLOTS": "signature", "CINCH_MIN_BYTES": "16K"}


@dataclass
class Task:
    """What every rank does: a plan of (bytes, calls), or of (bytes, warm, calls, bursts)."""

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
    sending: dict  # what Cinch's report says of how it is sent

    def median(self, first):
        return statistics.median(self.seconds[first:])

    def medians(self, warm, calls):
        """Of each burst, but for its first calls: links have saved up for them."""
        bursts = range(warm, len(self.seconds), calls)
        return [
            statistics.median(self.seconds[first + max(1, calls // 4) : first + calls])
            for first in bursts
        ]


class Runner:
    def __init__(self, build, network):
        self._build, self._network = build, network

    def run(self, task, on_poll=lambda folder: None):
        """{bytes: Size} of each rank."""
        with tempfile.TemporaryDirectory(prefix="cinch-schedule-") as folder:
            with self.start(task, folder) as job:
                job.wait(lambda: on_poll(folder), _PATIENCE)
            return self._read_all(task, folder)

    def contest(self, tasks):
        """{bytes: Size} of rank 0 for each task. All jobs run at a time, and take turns: one calls NCCL
        while the others sleep. Their plans have the same sizes and numbers of bursts."""
        with tempfile.TemporaryDirectory(prefix="cinch-schedule-") as folder, ExitStack() as stack:
            folders = [f"{folder}/{number}" for number in range(len(tasks))]
            contestants = [
                stack.enter_context(Contestant(self, task, each))
                for task, each in zip(tasks, folders)
            ]
            for contestant in contestants:
                contestant.arrive()
            for _bytes, _warm, _calls, bursts in tasks[0].plan:
                for _turn in range(1 + bursts):
                    for contestant in contestants:
                        contestant.take_turn()
            for contestant in contestants:
                contestant.finish()
            return [self._read_all(task, each)[0] for task, each in zip(tasks, folders)]

    def ranks_of(self, task):
        return range(self._network.ranks * task.ranks_per_host)

    def start(self, task, folder, more=()):
        """The job, as a context."""
        ranks = self.ranks_of(task)
        commands = [self._command(task, rank, len(ranks), folder, more) for rank in ranks]
        environments = [self._environment(task, rank, folder) for rank in ranks]
        return Job(folder, commands, environments)

    def _read_all(self, task, folder):
        return [self._read(task, rank, folder) for rank in self.ranks_of(task)]

    def _command(self, task, rank, ranks, folder, more):
        plan = ",".join(":".join(map(str, step)) for step in task.plan)
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
        words += [*task.arguments.get(rank, []), *more]
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
                size["seconds"], size["nmse"], slot.get("bits_per_value"), slot.get("sending", {})
            )
        return sizes


class Contestant:
    """A job that takes turns with others; as a context, ended at the end. Each of its ranks waits for a
    byte in a pipe of its own before a turn, and says in one that all share that it waits."""

    def __init__(self, runner, task, folder):
        os.mkdir(folder)
        n_ranks = len(runner.ranks_of(task))
        paths = [f"{folder}/arrived", *(f"{folder}/go-{rank}" for rank in range(n_ranks))]
        for path in paths:
            os.mkfifo(path)
        self._arrived, *self._go = (os.open(path, os.O_RDWR) for path in paths)
        self._job = runner.start(task, folder, ["--turns", folder])

    def __enter__(self):
        self._job.__enter__()
        return self

    def __exit__(self, *what):
        self._job.__exit__(*what)
        for pipe in (self._arrived, *self._go):
            os.close(pipe)

    def take_turn(self):
        """Until all of its ranks wait for the next one."""
        self._release()
        self.arrive()

    def _release(self):
        for pipe in self._go:
            os.write(pipe, b".")

    def finish(self):
        """The last turn, after which it ends."""
        self._release()
        self._job.wait(lambda: None, _PATIENCE)

    def arrive(self):
        """Until all of its ranks wait for their turn. Raises JobFailed."""
        n_waiting, deadline = 0, time.monotonic() + _PATIENCE
        while n_waiting < len(self._go):
            if select.select([self._arrived], [], [], _LOOK_SECONDS)[0]:
                n_waiting += len(os.read(self._arrived, len(self._go)))
            elif self._job.has_ended() or time.monotonic() > deadline:
                raise JobFailed(self._job.describe(0, "does not come to its next turn"))


def _slots(path, task):
    """{bytes: what the report says} of what was compressed."""
    width = 4 if task.kind == "fp32" else 2
    with open(path, encoding="utf-8") as file:
        slots = json.load(file)["communicators"][0]["slots"]
    return {int(slot["name"].rsplit(" ", 1)[1]) * width: slot for slot in slots if slot["calls"]}
