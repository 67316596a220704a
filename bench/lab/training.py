"""Runs train_lm as one variant of the comparison and collects what it leaves."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field

from lab import figures
from lab.job import Job

RANKS = 4


@dataclass(frozen=True)
class Variant:
    name: str
    bits: int | None  # None: Cinch chooses, layer by layer
    arguments: tuple = ()
    # Of Cinch's parameters; None: the job runs without Cinch.
    settings: dict | None = None
    # The codec whose error is expected.
    codec: str | None = None


# The rows compare codecs, so that none may pass because plain NCCL is faster.
_COMPRESS = {"CINCH_WHEN": "always"}
VARIANTS = (
    Variant("fp32", 32),
    Variant("bf16", 16, ("--grad-dtype", "bf16")),
    Variant("q8", 8, (), {"CINCH_CODEC": "q8"} | _COMPRESS, "q8"),
    Variant("q4", 4, (), {"CINCH_CODEC": "q4"} | _COMPRESS, "q4"),
    Variant("auto", None, (), _COMPRESS, "h3"),
)
# Error feedback at a known gain, so that the residuals must hold all that was left out.
PROOF = Variant("proof", 4, (), {"CINCH_CODEC": "q4", "CINCH_ERROR_FEEDBACK": "0.1"} | _COMPRESS)


@dataclass
class Plan:
    """What is equal in all variants."""

    build: str
    scratch: str
    program: str
    network: object
    steps: int
    seed: int
    text: str | None
    timeout: float
    dump_steps: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)


class Training:
    """One variant: its files, its command lines, its figures."""

    def __init__(self, plan, variant, steps, extra=()):
        self._plan = plan
        self.variant = variant
        self.steps = steps
        self._extra = extra
        self.folder = os.path.join(plan.scratch, variant.name)
        os.makedirs(self.folder)

    def path(self, rank, ending):
        return os.path.join(self.folder, f"rank{rank}.{ending}")

    def run(self, progress):
        progress.start(self.variant.name)
        reader = StepFollower(self.path(0, "log"))
        commands = [self._command(rank) for rank in range(RANKS)]
        environments = [self._environment(rank) for rank in range(RANKS)]
        with Job(self.folder, commands, environments) as job:
            job.wait(lambda: progress.update(*reader.read(self.steps)), self._plan.timeout)

    def logs(self):
        logs = []
        for rank in range(RANKS):
            with open(self.path(rank, "log")) as file:
                logs.append(figures.parse_log(file))
        return logs

    def summarise(self):
        return figures.summarise(self.logs(), self.steps, self._plan.network.shared_interface)

    def reported_error(self):
        """The mean over the ranks of what Cinch measured, by stage."""
        slots = [self._compressed_slot(rank) for rank in range(RANKS)]
        return {
            stage: sum(slot[stage] for slot in slots) / RANKS for stage in ("nmse", "nmse_reduce")
        }

    def predicted_error(self, count):
        return _tool(
            self._plan,
            "codec_predict",
            "--codec",
            self.variant.codec,
            "--count",
            str(count),
            "--steps",
            str(len(self._plan.dump_steps)),
            *(self.path(rank, "gradients") for rank in range(RANKS)),
        )

    def residual_norms(self):
        files = [
            path
            for rank in range(RANKS)
            for path in (self.path(rank, "sums"), self.path(rank, "residual"))
        ]
        return _tool(self._plan, "residual_check", *files)

    def remove_dumps(self):
        """Gradients and sums are large; what was to be learned from them is known by then."""
        for rank in range(RANKS):
            for ending in ("gradients", "sums", "residual.bin"):
                if os.path.exists(self.path(rank, ending)):
                    os.remove(self.path(rank, ending))

    def _compressed_slot(self, rank):
        with open(self.path(rank, "stats.json")) as file:
            report = json.load(file)
        slots = [slot for communicator in report["communicators"] for slot in communicator["slots"]]
        if not slots:
            raise figures.LogError(
                f"{self.variant.name}: rank {rank} compressed nothing; its report is "
                f"{self.path(rank, 'stats.txt')}"
            )
        return max(slots, key=lambda slot: slot["bytes_in"])

    def _command(self, rank):
        plan, variant = self._plan, self.variant
        command = [
            os.path.join(plan.build, "bin", plan.program),
            "--rank",
            str(rank),
            "--ranks",
            str(RANKS),
            "--id-file",
            os.path.join(self.folder, "id"),
            "--steps",
            str(self.steps),
            "--seed",
            str(plan.seed),
            "--iface",
            plan.network.interface,
            "--log",
            self.path(rank, "log"),
            *variant.arguments,
        ]
        if plan.text:
            command += ["--text", plan.text]
        command += [argument.format(rank=rank, folder=self.folder) for argument in self._extra]
        if variant.settings is not None:
            command = [os.path.join(plan.build, "bin", "cinch"), "run", "--", *command]
        return plan.network.command(rank, command)

    def _environment(self, rank):
        # Cinch's own variables come from the variant alone.
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("CINCH_")
        }
        environment |= {
            "NCCL_HOSTID": f"quickstart-host-{rank}",
            "NCCL_SOCKET_IFNAME": "=" + self._plan.network.interface,
            "OPENBLAS_NUM_THREADS": "1",
        }
        environment |= self._plan.environment
        if self.variant.settings is not None:
            environment |= self.variant.settings | {"CINCH_STATS": self.path(rank, "stats")}
        if self.variant is PROOF:
            environment["CINCH_RESIDUAL"] = "fp32"  # to add up
            environment["CINCH_RESIDUAL_DUMP"] = self.path(rank, "residual")
        return environment


class StepFollower:
    """Follows the log of a running rank."""

    def __init__(self, path):
        self._path = path
        self._offset = 0
        self._done = 0
        self._loss = ""

    def read(self, steps):
        """(steps done, steps, the last loss as text)"""
        if os.path.exists(self._path):
            with open(self._path) as file:
                file.seek(self._offset)
                for line in file.read().splitlines(keepends=True):
                    if not line.endswith("\n"):
                        break
                    self._offset += len(line)
                    self._note(json.loads(line))
        return self._done, steps, self._loss

    def _note(self, record):
        if "step" in record:
            self._done = record["step"] + 1
            self._loss = f"loss {record['loss']:.3f}"


def _tool(plan, name, *arguments):
    done = subprocess.run(
        [os.path.join(plan.build, "bin", name), *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise figures.LogError(done.stderr.strip() or f"{name} ended with status {done.returncode}")
    return json.loads(done.stdout)


def fresh_folder(path):
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path
