"""One job of the comparison: a variant's ranks, watched until they end, fail or stop moving."""

import json
import os
import socket
import sys
import time
from dataclasses import dataclass, field

from lab.job import Job, JobFailed
from train import figures

_HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = ("gpt", "resnet50")
# A namespace has nobody else in it.
_NAMESPACE_PORT = 29500


@dataclass
class Plan:
    """What is equal in all variants."""

    script: str
    network: object
    is_limited: bool  # whether the network is one of namespaces
    ranks: int
    hosts: int
    steps: int
    wrap: str
    device: str
    stall_seconds: float
    cinch: str
    logs: str
    arguments: list = field(default_factory=list)


def script_path(name):
    return os.path.join(_HERE, f"{name}.py") if name in SCRIPTS else os.path.abspath(name)


def run(plan, variant, round_number, seed, progress):
    """Runs one job. Raises JobFailed or FigureError."""
    folder = os.path.join(plan.logs, f"round{round_number}", variant.name)
    os.makedirs(folder)
    port = _NAMESPACE_PORT if plan.is_limited else free_port()
    commands = [command(plan, variant, rank, seed) for rank in range(plan.ranks)]
    environments = [environment(plan, variant, rank, port, folder) for rank in range(plan.ranks)]
    with Job(folder, commands, environments) as job:
        watch = Watch(job, plan, progress)
        job.wait(watch.look, float("inf"))
        final = figures.final_of(watch.records(), plan.steps)
    return {
        "variant": variant.name,
        "round": round_number,
        "seed": seed,
        "settings": variant.settings,
        "final": final,
        "cinch": None if variant.settings is None else read_reports(folder, plan.ranks),
    }


class Watch:
    """Shows how far rank 0 is. The job fails where it prints no line of JSON for too long, and that
    is the only limit: how long a whole training takes is known to nobody."""

    def __init__(self, job, plan, progress, clock=time.monotonic):
        self._job, self._plan, self._progress, self._clock = job, plan, progress, clock
        self._size, self._seen, self._since = 0, 0, clock()

    def records(self):
        with open(self._job.output_path(0), errors="replace") as file:
            return figures.parse_records(file.read().splitlines())

    def look(self):
        size = os.path.getsize(self._job.output_path(0))
        if size != self._size:
            self._size = size
            self._note(self.records())
        if self._clock() - self._since > self._plan.stall_seconds:
            what = f"printed no figures for {self._plan.stall_seconds:g} s"
            raise JobFailed(self._job.describe(0, what))

    def _note(self, records):
        if len(records) <= self._seen:
            return
        self._seen, self._since = len(records), self._clock()
        if "loss" in records[-1]:
            step, loss = records[-1]["step"], records[-1]["loss"]
            self._progress.update(step, self._plan.steps, f"loss {loss:.3f}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(plan, variant, rank, seed):
    words = [sys.executable, "-B", script_path(plan.script)]
    flags = {
        "wrap": plan.wrap,
        "hook": variant.hook,
        "steps": plan.steps,
        "seed": seed,
        "device": plan.device,
    }
    words += [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    if plan.is_limited:
        words += ["--interface", plan.network.interface]
    words += plan.arguments
    if variant.settings is not None:
        words = [plan.cinch, "run", "--", *words]
    return plan.network.command(rank, words)


def environment(plan, variant, rank, port, folder):
    # Cinch's own variables come from the variant alone.
    own = {name: value for name, value in os.environ.items() if not name.startswith("CINCH_")}
    own.setdefault("OMP_NUM_THREADS", str(threads_of_a_rank(plan.ranks)))
    own |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(plan.ranks),
        "LOCAL_WORLD_SIZE": str(plan.ranks),
        "MASTER_ADDR": plan.network.host_address(0),
        "MASTER_PORT": str(port),
    }
    if plan.hosts > 1:
        own["NCCL_HOSTID"] = f"train-host-{rank * plan.hosts // plan.ranks}"
    if plan.is_limited:
        interface = plan.network.interface
        own |= {"NCCL_SOCKET_IFNAME": "=" + interface, "GLOO_SOCKET_IFNAME": interface}
        own["NCCL_IB_DISABLE"] = "1"
    if variant.settings is not None:
        own |= variant.settings | {"CINCH_STATS": os.path.join(folder, f"rank{rank}.stats")}
    return own


def threads_of_a_rank(ranks):
    return max(1, len(os.sched_getaffinity(0)) // ranks)


def read_reports(folder, ranks):
    reports = []
    for rank in range(ranks):
        path = os.path.join(folder, f"rank{rank}.stats.json")
        try:
            with open(path) as file:
                reports.append(json.load(file))
        except (OSError, ValueError) as error:
            raise figures.FigureError(f"rank {rank} left no report of Cinch's: {error}") from error
    return figures.sum_reports(reports)
