"""Each corner of NCCL's calling surface, as real processes on the emulator, with and without Cinch.

Arguments: PROGRAM PRELOAD. With TEST_LAUNCHER=mpirun, Open MPI starts the ranks; with TEST_RANKS_PER_HOST, so many
share a host. The program's cases check their own results; here the ranks' outputs are
compared with each other, and the report must show that compression really took place.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "support"))
from ranks import run_under_mpirun, wait_all  # noqa: E402

PROGRAM = PRELOAD = None
RANKS_PER_HOST = int(os.environ.get("TEST_RANKS_PER_HOST", 1))

ENVIRONMENT = {
    "": {"CINCH_CODEC": "q4"},
    "operation-all-gather-compressed": {"CINCH_CODEC": "q4", "CINCH_ALLGATHER": "y"},
    "large": {"CINCH_CODEC": "q4", "CINCH_WARMUP_CALLS": "2", "CINCH_RESIDUAL": "int8"},
    "graph-feedback-advances": {"CINCH_CODEC": "q4", "CINCH_ERROR_FEEDBACK": "1"},
    "graph-equal-buckets": {"CINCH_CODEC": "q4", "CINCH_ERROR_FEEDBACK": "1"},
    "trap": {"CINCH_CODEC": "q4", "CINCH_ERROR_FEEDBACK": "1"},
}
# Nothing is compressed in these.
EXACT = {"operation-all-gather", "operation-integers", "operation-zero-and-small-counts",
         "operation-exact-kinds", "communicator-init-all", "communicator-one-rank",
         "communicator-abort-while-getting-ready"}
# Some of their communicators are, where two ranks share a host: these pass.
ON_ONE_HOST = {"communicator-split-of-a-split", "group-cycle-of-memberships",
               "group-overlapping-memberships", "communicator-maker-is-no-rank"}
# The last process is no rank.
WITH_A_MAKER = {"communicator-maker-is-no-rank"}
ENDS_EARLY = {"communicator-maker-of-the-parent-leaves"}
DEADLINE = 90
LARGE_DEADLINE = 1500


def environment_of(case):
    """The cases repeat small calls, which are no steps of a job: their signature has to do."""
    special = next(values for prefix, values in sorted(ENVIRONMENT.items(), reverse=True)
                   if case.startswith(prefix))
    settings = {"CINCH_SLOTS": "signature", "CINCH_WHEN": "always", "CINCH_MIN_BYTES": "16K", **special}
    if case in ENDS_EARLY:  # with a communicator whose threads nobody has joined, which is what it is about
        settings["TSAN_OPTIONS"] = os.environ.get("TSAN_OPTIONS", "") + ":report_thread_leaks=0"
    return settings


def launch(program, case, ranks, folder, preload, settings, deadline=DEADLINE):
    def values_of(rank):
        return {"NCCL_HOSTID": f"surface-host-{rank // RANKS_PER_HOST}", "NCCL_SOCKET_IFNAME": "lo", "LD_PRELOAD": preload,
                "CINCH_STATS": f"{folder}/report-{rank}", **settings}

    if case.startswith("large"):
        deadline = LARGE_DEADLINE
    command = [program, "--case", case, "--folder", folder]
    if os.environ.get("TEST_LAUNCHER") == "mpirun":
        return run_under_mpirun(command, ranks, folder, values_of, deadline)
    processes = []
    for rank in range(ranks):
        log = open(f"{folder}/rank-{rank}.log", "w+", encoding="utf-8")
        process = subprocess.Popen([*command, "--rank", str(rank), "--ranks", str(ranks)],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                   env=dict(os.environ, **values_of(rank)))
        processes.append((process, log))
    return wait_all(processes, time.monotonic() + deadline)


def read_reports(folder):
    """The communicators that each rank of the world reports of."""
    reports = []
    for path in sorted(glob.glob(f"{folder}/report-*.json")):
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file)["communicators"])
    return reports


def compressed_calls(folder):
    """The compressed calls of all communicators, by rank of the world."""
    return [sum(slot["calls"] for comm in communicators for slot in comm["slots"])
            for communicators in read_reports(folder)]


def compresses(case, folder):
    """Whether the ranks that the case is about have compressed calls, if it is one where they do."""
    counts = compressed_calls(folder)
    return case in EXACT or 0 not in counts[:len(counts) - (case in WITH_A_MAKER)]


class OutcomeTest(unittest.TestCase):
    """What must hold of the ranks of every case."""

    def check_outcomes(self, outcomes):
        for rank, outcome in enumerate(outcomes):
            self.assertEqual(outcome.status, 0, f"rank {rank}: {outcome.output}")
            self.assertTrue(outcome.output.endswith("done\n"), outcome.output)
        hashes = {}
        for outcome in outcomes:
            for label, value in outcome.lines("same"):
                self.assertEqual(hashes.setdefault(label, value), value, f"{label} differs among the ranks")


class Surface(OutcomeTest):
    def check(self, case, ranks):
        with tempfile.TemporaryDirectory() as folder:
            outcomes = launch(PROGRAM, case, ranks, folder, PRELOAD, environment_of(case))
            self.check_outcomes(outcomes)
            counts = compressed_calls(folder)
        self.assertEqual(len(counts), ranks)
        if case in WITH_A_MAKER:
            self.assertEqual(counts.pop(), 0)
        if case in EXACT:
            self.assertEqual(counts, [0] * ranks)
        else:
            self.assertGreater(min(counts), 0, "nothing was compressed")


class MakerTest(OutcomeTest):
    def test_communicator_maker_is_missed_by_nobody_while_ranks_choose(self):
        for case in ("communicator-maker-of-the-parent-leaves", "communicator-maker-is-no-rank"):
            settings = {**environment_of(case), "CINCH_WHEN": "auto", "CINCH_CODEC": "auto"}
            with self.subTest(case), tempfile.TemporaryDirectory() as folder:
                outcomes = launch(PROGRAM, case, 3, folder, PRELOAD, settings)
                self.check_outcomes(outcomes)


def add_cases():
    listing = subprocess.run([PROGRAM, "--list"], check=True, stdout=subprocess.PIPE, text=True)
    for line in listing.stdout.splitlines():
        case, ranks = line.split()
        if case.startswith(("default-", "control-")):  # defaults_test.py, tests/control
            continue
        if RANKS_PER_HOST > 1 and (int(ranks) <= RANKS_PER_HOST or case in ON_ONE_HOST):
            continue
        name = "test_" + case.replace("-", "_")
        setattr(Surface, name, lambda self, case=case, ranks=int(ranks): self.check(case, ranks))


if __name__ == "__main__":
    PRELOAD = sys.argv.pop()
    PROGRAM = sys.argv.pop()
    add_cases()
    unittest.main(verbosity=2)
