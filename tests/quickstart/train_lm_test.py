"""The training job as real processes on the loopback: it learns, it is deterministic, and it ends
in a bounded time with a clear message when a rank is missing or dies.

    train_lm_test.py PATH_OF_TRAIN_LM [unittest arguments]
"""

import array
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DEADLINE = 240
PROGRAM = ""


class Ranks:
    """The processes of one job."""

    def __init__(self, folder, ranks, *arguments, present=None):
        self.folder = folder
        self.processes = {
            rank: self._start(rank, ranks, arguments)
            for rank in (range(ranks) if present is None else present)
        }

    def _start(self, rank, ranks, arguments):
        environment = dict(
            os.environ,
            NCCL_HOSTID=f"host-{rank}",
            NCCL_SOCKET_IFNAME="lo",
            OPENBLAS_NUM_THREADS="1",
        )
        command = [
            PROGRAM,
            "--rank",
            str(rank),
            "--ranks",
            str(ranks),
            "--id-file",
            f"{self.folder}/id",
            "--log",
            f"{self.folder}/log{rank}",
        ]
        with open(self.output_path(rank), "w") as output:
            return subprocess.Popen(
                command + [argument.format(rank=rank) for argument in arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def output_path(self, rank):
        return f"{self.folder}/out{rank}"

    def output(self, rank):
        with open(self.output_path(rank)) as file:
            return file.read()

    def wait(self, seconds=DEADLINE):
        """The exit statuses by rank; a rank that does not end in time is killed and has None."""
        deadline = time.monotonic() + seconds
        statuses = {}
        for rank, process in self.processes.items():
            try:
                statuses[rank] = process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                statuses[rank] = None
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        return statuses

    def log(self, rank):
        with open(f"{self.folder}/log{rank}") as file:
            return [json.loads(line) for line in file]


class TrainLmTest(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def train(self, *arguments, ranks=2):
        """A job that must succeed."""
        job = Ranks(self.folder(), ranks, *arguments)
        statuses = job.wait()
        self.assertEqual(set(statuses.values()), {0}, [job.output(rank) for rank in statuses])
        return job

    def final_hash(self, *arguments):
        job = self.train("--steps", "2", "--batch", "8", *arguments)
        hashes = {job.log(rank)[-1]["hash"] for rank in (0, 1)}
        self.assertEqual(len(hashes), 1)
        return hashes.pop()

    def test_learns_and_logs(self):
        job = self.train("--steps", "5", "--eval-every", "2", "--iface", "lo")
        log = job.log(0)
        steps = [record for record in log if "step" in record]
        evaluations = [record for record in log if "eval_step" in record]
        self.assertEqual([record["step"] for record in steps], list(range(5)))
        self.assertEqual([record["eval_step"] for record in evaluations], [0, 2, 4, 5])
        self.assertLess(log[-1]["held_out"], log[-1]["held_out_first"] - 0.5)
        self.assertGreaterEqual(log[-1]["parameters"], 4_000_000)
        for record in steps:
            self.assertLess(record["t_enter"], record["t_done"])
            self.assertGreater(record["t_step"], record["t_done"] - record["t_enter"])
        self.assertGreater(
            steps[-1]["tx_bytes"] - steps[0]["tx_bytes"], 4 * 4 * log[-1]["parameters"]
        )
        self.assertEqual(sorted(os.listdir(job.folder)), ["log0", "log1", "out0", "out1"])

    def test_same_seed_gives_same_bits(self):
        first = self.final_hash()
        self.assertEqual(self.final_hash(), first)
        self.assertNotEqual(self.final_hash("--seed", "2"), first)
        self.assertNotEqual(self.final_hash("--grad-dtype", "bf16"), first)
        # With two ranks, halving before the sum and after it rounds alike.
        self.assertEqual(self.final_hash("--op", "avg"), first)

    def test_dumps_agree_with_each_other(self):
        folder = self.folder()
        self.train(
            "--steps",
            "3",
            "--batch",
            "8",
            "--dump-gradients",
            folder + "/gradients{rank}",
            "--dump-steps",
            "0,1,2",
            "--dump-sums",
            folder + "/sums{rank}",
        )
        sent, reduced, gradients = [], [], []
        for rank in (0, 1):
            sums, values = array.array("d"), array.array("f")
            with open(f"{folder}/sums{rank}", "rb") as file:
                sums.frombytes(file.read())
            with open(f"{folder}/gradients{rank}", "rb") as file:
                values.frombytes(file.read())
            count = len(sums) // 2
            self.assertEqual(len(values), 3 * count)
            sent.append(sums[:count])
            reduced.append(sums[count:])
            gradients.append(values)
        self.assertEqual(reduced[0], reduced[1])
        self.assertGreater(sum(map(abs, sent[0][::997])), 0)
        for i in range(0, count, 997):
            for rank in (0, 1):
                self.assertEqual(
                    sent[rank][i], sum(gradients[rank][i + step * count] for step in range(3))
                )
            self.assertAlmostEqual(sent[0][i] + sent[1][i], reduced[0][i], delta=1e-6)

    def test_a_dying_rank_ends_the_other(self):
        job = Ranks(self.folder(), 2, "--steps", "100000", "--batch", "1")
        self.addCleanup(job.wait, 0)
        deadline = time.monotonic() + DEADLINE
        while not any("step" in record for record in self.complete_lines(job, 0)):
            self.assertIsNone(job.processes[0].poll(), job.output(0))
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        job.processes[1].send_signal(signal.SIGKILL)
        statuses = job.wait(60)
        self.assertEqual(statuses[0], 1, job.output(0))
        self.assertRegex(
            job.output(0), r"train_lm: rank 0: ncclAllReduce failed: .*communicator was aborted"
        )

    def complete_lines(self, job, rank):
        try:
            with open(f"{job.folder}/log{rank}") as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def test_a_rank_that_never_comes_is_named(self):
        job = Ranks(self.folder(), 3, "--timeout", "2", present=[0, 1])
        self.assertEqual(job.wait(60), {0: 1, 1: 1})
        self.assertIn("of 3 ranks these did not come within 2 s: 2 ", job.output(0))
        self.assertIn("rank 0 did not write", job.output(1))

    def test_a_stopped_rank_ends_the_others_in_time(self):
        job = Ranks(self.folder(), 2, "--steps", "100000", "--batch", "1", "--timeout", "10")
        self.addCleanup(job.wait, 0)
        deadline = time.monotonic() + DEADLINE
        while not any("step" in record for record in self.complete_lines(job, 0)):
            self.assertIsNone(job.processes[0].poll(), job.output(0))
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        job.processes[1].send_signal(signal.SIGSTOP)
        self.assertEqual(job.processes[0].wait(DEADLINE), 1, job.output(0))
        self.assertIn(
            "ncclAllReduce did not end within 10 s: a rank is missing or stuck", job.output(0)
        )

    def test_unreadable_text_is_named(self):
        for text, reason in (
            ("/nonexistent/book", "No such file"),
            ("/", "not a regular file"),
            (__file__, "training needs at least 65536"),
        ):
            job = Ranks(self.folder(), 1, "--text", text)
            self.assertEqual(job.wait(60), {0: 1})
            self.assertRegex(job.output(0), f"train_lm: rank 0: .*{text}.*{reason}")

    def test_unknown_interface_is_named(self):
        job = Ranks(self.folder(), 1, "--iface", "nowhere0")
        self.assertEqual(job.wait(60), {0: 1})
        self.assertIn("no network interface nowhere0", job.output(0))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
