"""A job on the emulator that reports on itself, and what it leaves, also where it is killed: shared by the
tests of this folder and `bench/report operate`."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import promtool  # noqa: E402

# Of a launcher or a job that this test is part of.
FOREIGN = ("CINCH_", "OMPI_", "PMIX_", "NCCL_", "SLURM_")
RANKS = 2
# Reports are written after 0, 1, 2, 3 ... seconds.
LONGEST_LIFE = 2.5


class Job:
    """Two ranks that reduce for as long as they are let, under Cinch; a context, which kills it."""

    def __init__(self, build, folder, **settings):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        self.folder = folder
        environment = dict(
            kept, NCCL_SOCKET_IFNAME="lo", TMPDIR=folder, CINCH_CODEC="q4", CINCH_SLOTS="signature", CINCH_WHEN="always",
            CINCH_STATS=f"{folder}/report.%p", CINCH_METRICS=f"{folder}/report.%p",
            CINCH_STATS_INTERVAL="1", **settings)
        cinch = os.path.join(build, "bin", "cinch")
        with open(f"{folder}/log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [cinch, "run", "--", cinch, "bench", "all_reduce", "--emulator", "--ranks", str(RANKS),
                 "--hosts", str(RANKS), "-b", "1M", "-e", "1M", "-n", "10000000", "-w", "1"],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        """All its processes, at once."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def left(self, ending):
        """The files of all ranks."""
        return sorted(os.path.join(self.folder, name) for name in os.listdir(self.folder)
                      if name.startswith("report.") and name.endswith(ending))

    def wait_for_reports(self, seconds=60):
        """Until every rank has written what is asked of it for the first time."""
        self.wait_until(lambda: len(self.left(".prom")) == RANKS, seconds)

    def wait_for_slots(self, seconds=60):
        """Until every rank has written of a call that was compressed."""
        self.wait_until(lambda: len(self.left(".prom")) == RANKS and all(map(has_slots, self.left(".prom"))), seconds)

    def wait_until(self, holds, seconds):
        end = time.monotonic() + seconds
        while not holds():
            if self.process.poll() is not None or time.monotonic() > end:
                with open(f"{self.folder}/log", encoding="utf-8") as log:
                    raise RuntimeError(f"the job does not report: {log.read()}")
            time.sleep(0.01)


def has_slots(path):
    with open(path, encoding="utf-8") as file:
        return "cinch_compressed_calls_total{" in file.read()


def faults_of_report(path):
    """What is wrong with a report; empty: nothing."""
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    except (OSError, ValueError) as error:
        return f"{path}: {error}"
    known = report.get("format") == 2 and report.get("origin") and "communicators" in report
    return "" if known else f"{path}: not a report"


def faults_of_metrics(path):
    """The same of a file of metrics, as Prometheus sees it. promtool has to be there."""
    with open(path, "rb") as file:
        done = subprocess.run([promtool.find(), "check", "metrics"], stdin=file, check=False,
                              capture_output=True, text=True)
    return "" if done.returncode == 0 and not done.stderr else f"{path}: {done.stdout}{done.stderr}"


def faults(job):
    """What a job has left that is not as it should be: two reports, as text and JSON, and metrics."""
    found = []
    for ending in (".json", ".txt", ".prom"):
        if len(job.left(ending)) != RANKS:
            found.append(f"{len(job.left(ending))} files end with {ending}, {RANKS} were expected")
    found += [faults_of_report(path) for path in job.left(".json")]
    if promtool.find():
        found += [faults_of_metrics(path) for path in job.left(".prom")]
    return [text for text in found if text]


def kill_jobs(build, times):
    """Kills as many jobs, each at a random moment after its first report; what each has left wrong."""
    moments = random.Random(1)
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder, Job(build, folder) as running:
            running.wait_for_reports()
            time.sleep(moments.uniform(0, LONGEST_LIFE))
            running.kill()
            yield faults(running)
