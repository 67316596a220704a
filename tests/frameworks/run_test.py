"""emulator/torch/run with PyTorch: four ranks of torchrun on two hosts, and what remains of a job that fails.

run_test.py BUILD_FOLDER [--python PATH] [unittest arguments]; PATH: an environment that is there already.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import torch_environment
import environment

BUILD = ""
PYTHON = []
RUN = os.path.join(torch_environment.ROOT, "emulator", "torch", "run")
SCRIPT = os.path.join(torch_environment.ROOT, "tests", "frameworks", "run_script.py")
EXAMPLE = os.path.join(torch_environment.ROOT, "emulator", "torch", "example.py")

# Imports of PyTorch on a machine that other tests keep busy; no job takes as long by itself.
START_SECONDS = 200

# From a failure to the end of the last process.
END_SECONDS = 25


def processes_with(mark):
    """All whose environment has the mark: a job's, whatever became of their parents."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if name.isdigit() and mark.encode() in file.read():
                    found.append(int(name))
        except OSError:
            pass
    return found


def namespaces():
    """Those of jobs, this one's and others'."""
    try:
        return [name for name in os.listdir("/run/netns") if name.startswith("cinchq-")]
    except FileNotFoundError:
        return []


class Job:
    """A job that runs, with a folder for its temporary files."""

    def __init__(self, *arguments, environ=None):
        self.folder = tempfile.TemporaryDirectory(prefix="run_test-")
        self.mark = f"RUN_TEST_MARK={uuid.uuid4()}"
        self.output = open(os.path.join(self.folder.name, "output"), "w+")
        self.scratch = os.path.join(self.folder.name, "tmp")
        os.mkdir(self.scratch)
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(
            [RUN, "--build", BUILD, *PYTHON, *arguments], stdin=subprocess.DEVNULL, stdout=self.output,
            stderr=subprocess.STDOUT, env=os.environ | {"TMPDIR": self.scratch, name: value} | (environ or {}))

    def text(self):
        with open(self.output.name) as file:
            return file.read()

    def wait_for(self, pattern, count):
        """The first group of `count` matches in the output."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if len(found := re.findall(pattern, self.text())) >= count:
                return found
            time.sleep(0.1)
        raise AssertionError(f"no {count} lines like {pattern} in:\n{self.text()}")

    def leftovers(self):
        """What a job may not leave: processes, namespaces (named after a process that is gone), files."""
        orphans = [name for name in namespaces() if not os.path.exists(f"/proc/{name.split('-')[1]}")]
        return processes_with(self.mark), orphans, os.listdir(self.scratch)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in processes_with(self.mark):
            os.kill(pid, signal.SIGKILL)
        self.output.close()
        self.folder.cleanup()


class RunTest(unittest.TestCase):
    def start(self, *arguments, environ=None):
        job = Job(*arguments, environ=environ)
        self.addCleanup(job.end)
        return job

    def finish(self, *arguments, environ=None):
        """The output of a job that has to end well."""
        job = self.start(*arguments, environ=environ)
        status = job.process.wait(START_SECONDS)
        self.assertEqual(status, 0, job.text())
        self.check_nothing_left(job, 0)
        return job.text()

    def check_nothing_left(self, job, seconds=END_SECONDS):
        deadline = time.monotonic() + seconds
        while any(left := job.leftovers()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(left, ([], [], []), job.text())

    @staticmethod
    def results(output):
        return sorted(re.findall(r"^rank \d of .*$", output, re.M))

    def test_three_runs_on_two_hosts_are_equal(self):
        outputs = [self.finish("-n", "4", "--hosts", "2", SCRIPT) for _ in range(3)]
        first, *others = [self.results(output) for output in outputs]
        self.assertEqual([re.match(r"rank (\d) of (\d) on (\w+)", line).groups() for line in first],
                         [("0", "4", "host0"), ("1", "4", "host0"), ("2", "4", "host1"), ("3", "4", "host1")])
        self.assertEqual(len({line.split()[-1] for line in first}), 1, first)
        for other in others:
            self.assertEqual(other, first)

    def test_one_host_and_the_network_that_all_share_give_the_same(self):
        parameters = {line.split()[-1] for arguments in ([], ["--hosts", "2", "--shared-network"])
                      for line in self.results(self.finish("-n", "2", *arguments, SCRIPT))}
        self.assertEqual(len(parameters), 1)

    def test_cinch_reports_what_it_compressed(self):
        output = self.finish("-n", "4", "--hosts", "2", "--cinch", SCRIPT, environ={"CINCH_WHEN": "always"})
        self.assertEqual(len({line.split()[-1] for line in self.results(output)}), 1, output)
        self.assertRegex(output, r"== What Cinch did, as rank 0 saw it: 4 ranks, 2 hosts, links not slowed down")
        share = int(re.search(r"^gradients .*, (\d+) % of it compressed$", output, re.M)[1])
        self.assertGreater(share, 50, output)
        self.assertRegex(output, r"(?m)^compressed .*, to \d\.\d\d bits a value at the end$")
        self.assertRegex(output, r"(?m)^AllReduce fp32 Sum x \d+ +gradient ")
        self.assertRegex(output, r"(?m)^preparing: .*\n  What to do: ")
        self.assertNotIn("WARN", output)

    def test_an_exception_in_one_rank_ends_all(self):
        job = self.start("-n", "4", "--hosts", "2", SCRIPT, "fail")
        self.assertEqual(job.process.wait(START_SECONDS), 1, job.text())
        self.assertIn("the mistake of rank 1", job.text())
        self.check_nothing_left(job, 0)

    def end_of(self, job, act):
        """Lets the job start, acts on [(rank, process)], and returns its status and output."""
        act(job, dict(job.wait_for(r"rank (\d) process (\d+)", 4)))
        started = time.monotonic()
        status = job.process.wait(END_SECONDS)
        self.check_nothing_left(job, END_SECONDS - (time.monotonic() - started))
        return status, job.text()

    def test_a_killed_rank_ends_all(self):
        job = self.start("-n", "4", "--hosts", "2", SCRIPT, "forever")
        status, output = self.end_of(job, lambda _, ranks: os.kill(int(ranks["3"]), signal.SIGKILL))
        self.assertEqual(status, 1, output)
        self.assertIn("Signal 9 (SIGKILL) received", output)
        # The other host's ranks fail, too, as their peer is gone: its torchrun may be the first to end.
        self.assertRegex(output, "host [01] ended with status 1")

    def test_ctrl_c_ends_all(self):
        job = self.start("-n", "4", "--hosts", "2", SCRIPT, "forever")
        status, output = self.end_of(job, lambda job, _: job.process.send_signal(signal.SIGINT))
        self.assertEqual(status, 128 + signal.SIGINT, output)

    def test_its_own_death_ends_all(self):
        job = self.start("-n", "4", "--hosts", "2", SCRIPT, "forever")
        status, _ = self.end_of(job, lambda job, _: job.process.kill())
        self.assertEqual(status, -signal.SIGKILL)

    def test_the_example_learns(self):
        output = self.finish("-n", "2", EXAMPLE, "100")
        losses = [float(text) for text in re.findall(r"step \d+: loss ([\d.]+)", output)]
        self.assertEqual(len(losses), 2, output)
        self.assertLess(losses[1], losses[0])


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    if sys.argv[1:2] == ["--python"]:
        PYTHON = sys.argv[1:3]
        del sys.argv[1:3]
    elif not environment.is_made():
        torch_environment.skip("there is no environment with PyTorch; emulator/torch/environment.py makes it")
    unittest.main(verbosity=2)
