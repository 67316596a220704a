"""One training job with or without Cinch: its processes, their losses, and what Cinch reports."""

import json
import os
import pathlib
import sys
from dataclasses import dataclass, field

from lab.job import Job

RANKS = 4
_PROGRAM = pathlib.Path(__file__).with_name("rank.py")
_TIMEOUT = 300
# The small models' buckets are smaller than what is worth compressing in a real job, and loopback is
# faster than any codec.
SETTINGS = {"CINCH_MIN_BYTES": "32K", "CINCH_WHEN": "always"}


@dataclass(frozen=True)
class Experiment:
    task: str
    steps: int
    seed: int
    codec: str | None = None  # without Cinch
    settings: dict = field(default_factory=dict)  # more of Cinch's parameters


@dataclass(frozen=True)
class Outcome:
    """`bits`: sent per value and copy in compressed calls. `share`: of all values, those that were
    reduced in such calls; a job's first steps are not."""

    loss: float
    bits: float | None = None
    share: float = 0.0


class TrainingError(Exception):
    """The job ended, but not as it should have."""


def run(experiment, build, folder):
    """Runs the job with all files in the empty `folder`. Raises JobFailed or TrainingError."""
    commands = [_command(experiment, build, folder, rank) for rank in range(RANKS)]
    environments = [_environment(experiment, build, folder, rank) for rank in range(RANKS)]
    with Job(folder, commands, environments) as job:
        job.wait(lambda: None, _TIMEOUT)
        results = [_last_line(job.output_path(rank)) for rank in range(RANKS)]
    if len({result["hash"] for result in results}) != 1:
        raise TrainingError(f"the ranks ended with different parameters: {results}")
    outcome = Outcome(results[0]["loss"])
    if experiment.codec is None:
        return outcome
    with open(os.path.join(folder, "rank0.stats.json")) as file:
        return _with_report(outcome, json.load(file), experiment.steps * results[0]["parameters"])


def _with_report(outcome, report, n_values):
    slots = [slot for comm in report["communicators"] for slot in comm["slots"]]
    values = sum(slot["bytes_in"] for slot in slots) / 4
    if values == 0:
        raise TrainingError("Cinch compressed nothing")
    return Outcome(outcome.loss, bits_per_value(slots, RANKS), values / n_values)


def bits_per_value(slots, ranks):
    """On the wire: in each of the two stages of an AllReduce of fp32 values a rank sends what
    (ranks - 1) / ranks of them take."""
    values = sum(slot["bytes_in"] for slot in slots) / 4
    sent = 8 * sum(slot["wire_bytes"] for slot in slots)
    return sent / (values * 2 * (ranks - 1) / ranks)


def _command(experiment, build, folder, rank):
    command = [sys.executable, "-B", str(_PROGRAM)]
    options = {
        "rank": rank,
        "ranks": RANKS,
        "id-file": os.path.join(folder, "id"),
        "task": experiment.task,
        "steps": experiment.steps,
        "seed": experiment.seed,
    }
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    if experiment.codec is None:
        return command
    return [os.path.join(build, "bin", "cinch"), "run", "--", *command]


def _environment(experiment, build, folder, rank):
    # Cinch's own variables come from the experiment alone.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CINCH_")}
    environment |= {
        "NCCL_HOSTID": f"training-host-{rank}",
        "NCCL_SOCKET_IFNAME": "lo",
        "LD_LIBRARY_PATH": os.path.join(build, "emulator"),
    }
    if experiment.codec is not None:
        environment |= SETTINGS | experiment.settings
        environment |= {
            "CINCH_CODEC": experiment.codec,
            "CINCH_STATS": os.path.join(folder, f"rank{rank}.stats"),
        }
    return environment


def _last_line(path):
    with open(path) as file:
        return json.loads(file.read().splitlines()[-1])
