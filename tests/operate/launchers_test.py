"""Every way of docs/launchers.md to start a job compresses on all its ranks. `cinch bench` is the job; it opens
NCCL with dlopen, as JAX does. torchrun and srun have stand-ins, which give ranks the environment that they do.

    launchers_test.py BUILD [unittest arguments]"""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ranks import mpirun  # noqa: E402

BUILD = None
DEADLINE = 120
RANKS = 2
FOREIGN = ("CINCH_", "OMPI_", "PMIX_", "NCCL_", "SLURM_", "LD_PRELOAD", "RANK", "WORLD_SIZE", "LOCAL_")
SETTINGS = {"CINCH_CODEC": "q4", "CINCH_SLOTS": "signature", "NCCL_SOCKET_IFNAME": "lo"}

TORCHRUN = """
import os, subprocess, sys
ranks, command = int(sys.argv[1]), sys.argv[2:]
job = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "localhost", "MASTER_PORT": "29500",
       "TORCHELASTIC_RUN_ID": "none"}
ranks = [subprocess.Popen(command, env=dict(os.environ, RANK=str(i), LOCAL_RANK=str(i), **job)) for i in range(ranks)]
sys.exit(max(rank.wait() for rank in ranks))
"""

SRUN = """
import os, subprocess, sys
ranks, export, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
words = export.removeprefix("--export=").split(",")
kept = dict(os.environ) if "ALL" in words else {"PATH": os.environ["PATH"]}
kept.update(word.split("=", 1) for word in words if "=" in word)
step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(ranks), "SLURM_NTASKS": str(ranks),
        "SLURM_STEP_TASKS_PER_NODE": str(ranks)}
ranks = [subprocess.Popen(command, env=dict(kept, SLURM_PROCID=str(i), SLURM_LOCALID=str(i), **step))
         for i in range(ranks)]
sys.exit(max(rank.wait() for rank in ranks))
"""


class Launchers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.cinch = os.path.join(BUILD, "bin", "cinch")
        self.preload = os.path.join(BUILD, "lib", "libcinch.so")
        self.settings = dict(SETTINGS, CINCH_STATS=f"{self.folder}/report.%p", TMPDIR=self.folder)
        # Those of the job come with its launcher.
        self.environment = {n: v for n, v in os.environ.items() if not n.startswith(FOREIGN)}
        self.bench = [self.cinch, "bench", "all_reduce", "--emulator", "--hosts", str(RANKS), "-b", "1M", "-e", "1M",
                      "-n", "4", "-T", "60"]

    def start(self, *command, **variables):
        return subprocess.Popen(command, env=dict(self.environment, **variables), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run_job(self, *command, **variables):
        self.check([self.start(*command, **dict(self.settings, **variables))])

    def check(self, processes):
        """They end well, and every rank has reported that it compressed."""
        for process in processes:
            output, _ = process.communicate(timeout=DEADLINE)
            self.assertEqual(process.returncode, 0, output)
        self.assertEqual(self.compressing_ranks(), list(range(RANKS)))

    def compressing_ranks(self):
        ranks = []
        for path in glob.glob(f"{self.folder}/report.*.json"):
            with open(path, encoding="utf-8") as file:
                comms = json.load(file)["communicators"]
            ranks += [comm["rank"] for comm in comms if any(slot["calls"] > 0 for slot in comm["slots"])]
        return sorted(ranks)

    def exports(self):
        return ",".join(f"{name}={value}" for name, value in self.settings.items())

    def test_by_hand(self):
        job = dict(self.settings, WORLD_SIZE=str(RANKS), MASTER_ADDR="localhost", MASTER_PORT="1")
        self.check([self.start(self.cinch, "run", "--", *self.bench, RANK=str(rank), **job) for rank in range(RANKS)])

    def test_nothing_compresses_without_it(self):
        launcher = self.start(sys.executable, "-c", TORCHRUN, str(RANKS), *self.bench, **self.settings)
        output, _ = launcher.communicate(timeout=DEADLINE)
        self.assertEqual((launcher.returncode, self.compressing_ranks()), (0, []), output)

    def test_torchrun(self):
        self.run_job(self.cinch, "run", "--", sys.executable, "-c", TORCHRUN, str(RANKS), *self.bench)

    def test_mpirun_with_x(self):
        passed = [word for name, value in dict(self.settings, LD_PRELOAD=self.preload).items()
                  for word in ("-x", f"{name}={value}")]
        launcher = mpirun(RANKS)
        self.check([self.start(*launcher, *passed, *self.bench, TMPDIR="/tmp")])

    def test_mpirun_of_cinch_run(self):
        self.run_job(*mpirun(RANKS), self.cinch, "run", "--", *self.bench, TMPDIR="/tmp")

    def test_srun(self):
        export = f"--export=ALL,LD_PRELOAD={self.preload},{self.exports()}"
        self.check([self.start(sys.executable, "-c", SRUN, str(RANKS), export, *self.bench)])

    def test_srun_of_cinch_run(self):
        self.check([self.start(sys.executable, "-c", SRUN, str(RANKS), f"--export={self.exports()}", self.cinch, "run",
                               "--", *self.bench)])

    def test_bare_dlopen(self):
        """Nothing but the variable, in one process group that starts its own ranks."""
        self.run_job(*self.bench, "--ranks", str(RANKS), LD_PRELOAD=self.preload)

    def test_entry_point(self):
        """As a container's: the program is process 1, gets its signals, and its status is the container's."""
        inside = ["unshare", "--pid", "--fork", "--kill-child"]
        if os.getuid() != 0 or not shutil.which("unshare"):
            self.skipTest("namespaces need root")
        if subprocess.run([*inside, "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no namespaces here")
        self.run_job(*inside, self.cinch, "run", "--", *self.bench, "--ranks", str(RANKS))
        program = 'trap "exit 5" TERM; echo $$; while :; do sleep 0.05; done'
        container = self.start(*inside, self.cinch, "run", "--", "sh", "-c", program)
        self.assertEqual(container.stdout.readline(), "1\n")
        with open(f"/proc/{container.pid}/task/{container.pid}/children", encoding="utf-8") as file:
            os.kill(int(file.read().split()[0]), signal.SIGTERM)
        self.assertEqual((container.wait(DEADLINE), container.stdout.read()), (5, ""))
        container.stdout.close()


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
