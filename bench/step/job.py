"""Runs bench/step/rank.py on all ranks of a network, plain or under Cinch."""

import json
import os
import pathlib
import tempfile
from dataclasses import dataclass, field

from lab.job import Job
from lab.machine import NUMPY_PYTHON

_PROGRAM = pathlib.Path(__file__).with_name("rank.py")
_PATIENCE = 3600  # seconds

# What the steps are sent by: Cinch's settings, or None for NCCL alone. Small buckets stand for large ones.
# Which calls are gradients is what other benches ask.
SETTINGS = {"CINCH_MIN_BYTES": "32K", "CINCH_RULES": "gradient operation=AllReduce"}
VARIANTS = {
    "plain": None,
    "auto": SETTINGS,
    "always": SETTINGS | {"CINCH_WHEN": "always"},
    # Plain, or with residuals, which takes the emulator longer on an open link.
    "feedback": SETTINGS | {"CINCH_CODEC": "h3"},
}


@dataclass
class Run:
    """What rank 0 found."""

    seconds: list  # of each step
    exact: list  # whether sums of the steps that were waited for were exact
    kib: list  # of memory, after each model
    sending: list = field(default_factory=list)  # what Cinch's report says, of each communicator


def run(build, network, variant, ranks_per_host, arguments):
    with tempfile.TemporaryDirectory(prefix="cinch-step-") as folder:
        ranks = range(network.ranks * ranks_per_host)
        commands = [_command(network, rank, ranks_per_host, folder, arguments) for rank in ranks]
        environments = [
            _environment(build, network, variant, rank // ranks_per_host, f"{folder}/stats{rank}")
            for rank in ranks
        ]
        with Job(folder, commands, environments) as job:
            job.wait(lambda: None, _PATIENCE)
        with open(f"{folder}/out0.json", encoding="utf-8") as file:
            found = Run(**json.load(file))
        if VARIANTS[variant] is not None:
            with open(f"{folder}/stats0.json", encoding="utf-8") as file:
                found.sending = [comm["sending"] for comm in json.load(file)["communicators"]]
        return found


def _command(network, rank, ranks_per_host, folder, arguments):
    options = {
        "rank": rank,
        "ranks": network.ranks * ranks_per_host,
        "id-file": f"{folder}/id",
        "out": f"{folder}/out{rank}.json",
    } | arguments
    words = [NUMPY_PYTHON, "-B", str(_PROGRAM)]
    words += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    # Else two runs of the same differ by half, as the scheduler has put their threads.
    words = ["taskset", "-c", str(rank % os.cpu_count()), *words]
    return network.command(rank // ranks_per_host, words)


def _environment(build, network, variant, host, stats):
    # Cinch's own variables come from the variant alone.
    values = {n: v for n, v in os.environ.items() if not n.startswith("CINCH_")}
    values |= {
        "NCCL_HOSTID": f"step-host-{host}",
        "NCCL_SOCKET_IFNAME": "=" + network.interface,
        "LD_LIBRARY_PATH": os.path.join(build, "emulator"),
        # Of the emulated device: what is freed is to be gone.
        "MALLOC_MMAP_THRESHOLD_": "131072",
    }
    if VARIANTS[variant] is not None:
        values |= VARIANTS[variant]
        values |= {"LD_PRELOAD": os.path.join(build, "lib", "libcinch.so"), "CINCH_STATS": stats}
    return values
